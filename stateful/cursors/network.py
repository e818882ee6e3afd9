"""The machines of documents 003 and 004 with consumers whose connections end while they receive or acknowledge.

Its last acks may have reached the broker or not, and other consumers receive what it did not. In all else they are the
machines of their documents.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.subscription_operations import Acknowledge, CutConnection, CutDuring, Receive
from stateful.cursors.base import COUNTS
from stateful.cursors.machines import AcknowledgmentClientsMachine, AcknowledgmentMachine
from stateful.cursors.plan import PlannedConsumer
from stateful.deduplication.network_faults import AT_ACKNOWLEDGING, AT_RECEIVING, ConsumerFault
from stateful.key_shared.machines import INDEXES, NTH, KeysMachine


class AcknowledgmentNetworkMachine(AcknowledgmentMachine):
    """The acknowledgment machine with consumers whose connections end."""

    is_proxied: ClassVar[bool] = True

    @rule(index=INDEXES, count=COUNTS, fault=AT_RECEIVING, moves=st.booleans())
    def cut_off_receiving(self, index: int, count: int, fault: ConsumerFault, moves: bool) -> None:
        """A consumer's connection ends while it receives; the next consumer receives the rest."""
        consumer = self.consumer(index)
        self.do(CutDuring(Receive(consumer=consumer.name, count=count), fault))
        self.come_back(consumer, moves=moves)

    @rule(
        index=INDEXES,
        count=COUNTS,
        nth=NTH,
        cumulative=st.sampled_from([False, False, True]),
        fault=AT_ACKNOWLEDGING,
        moves=st.booleans(),
    )
    def cut_off_acknowledging(
        self, index: int, count: int, nth: tuple[int, ...], cumulative: bool, fault: ConsumerFault, moves: bool
    ) -> None:
        """A consumer's connection ends while it acknowledges; it does not know which acks reached the broker."""
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(CutDuring(Acknowledge(consumer=consumer.name, nth=nth, cumulative=cumulative), fault))
        self.come_back(consumer, moves=moves)

    def come_back(self, gone: PlannedConsumer, *, moves: bool) -> None:
        """Another consumer replaces one that was disconnected, perhaps only after an unload of the topic."""
        if gone in self.plan.consumers:
            self.plan.consumers.remove(gone)
        if moves:
            self.move()
        self.read(gone.subscription)
        again = self.join(gone.subscription, "wire", 0)
        self.do(Receive(consumer=again.name, count=9))


class AcknowledgmentClientsNetworkMachine(AcknowledgmentClientsMachine):
    """Consumers of pulsar-client, which reconnect when their connections end."""

    @rule(index=INDEXES, count=COUNTS, nth=NTH, takes=st.booleans())
    def cut_connection(self, index: int, count: int, nth: tuple[int, ...], takes: bool) -> None:
        """A consumer's connection ends; grouped acks may be lost, and its client may wait in vain.

        This takes long, so it is seldom.
        """
        consumer = self.consumer(index, client="official", queue=5)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        if not self.is_patient:
            for subscription in self.plan.kinds:
                self.read(subscription)  # which waits until no ack is grouped
        self.do(CutConnection(consumer=consumer.name))
        if takes:
            self.do(Receive(consumer=consumer.name, count=count))
        self.read(consumer.subscription)


class KeysNetworkMachine(KeysMachine):
    """Consumers of a Key_Shared subscription whose connections end while they acknowledge."""

    is_proxied: ClassVar[bool] = True

    @rule(index=INDEXES, nth=NTH, fault=AT_ACKNOWLEDGING, joins=st.booleans())
    def cut_off_acknowledging(self, index: int, nth: tuple[int, ...], fault: ConsumerFault, joins: bool) -> None:
        """A consumer's connection ends while it acknowledges; messages whose acks were lost go to other consumers."""
        consumer = self.consumer(index)
        if joins:
            self.join(100)
        self.do(CutDuring(Acknowledge(consumer=consumer, nth=nth), fault))
        if consumer in self.plan.consumers:
            self.plan.consumers.remove(consumer)
        self.gather()
