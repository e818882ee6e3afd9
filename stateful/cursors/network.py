"""The machines of documents 003 and 004 whose consumers the network cuts off while they receive or acknowledge.

What a consumer acknowledged then may be acknowledged or not, and whatever it did not learn of is due to the others; all
else that these machines do is what their documents' machines do.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from model.subscription_operations import Acknowledge, CutConnection, CutDuring, Receive
from stateful.cursors.machines import COUNTS, AcknowledgmentClientsMachine, AcknowledgmentMachine
from stateful.cursors.plan import PlannedConsumer
from stateful.deduplication.network_faults import AT_ACKNOWLEDGING, AT_RECEIVING, ConsumerFault
from stateful.key_shared.machines import INDEXES, NTH, KeysMachine


class AcknowledgmentNetworkMachine(AcknowledgmentMachine):
    """Consumers that are cut off, with several subscriptions of one topic, and all that befalls these."""

    is_proxied: ClassVar[bool] = True

    @rule(index=INDEXES, count=COUNTS, fault=AT_RECEIVING, moves=st.booleans())
    def cut_off_receiving(self, index: int, count: int, fault: ConsumerFault, moves: bool) -> None:
        """A consumer is cut off while it receives; the next one is given what it was not."""
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
        """A consumer is cut off while it acknowledges, and does not know what of that came to the broker."""
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(CutDuring(Acknowledge(consumer=consumer.name, nth=nth, cumulative=cumulative), fault))
        self.come_back(consumer, moves=moves)

    def come_back(self, gone: PlannedConsumer, *, moves: bool) -> None:
        """Another consumer replaces one that is gone, perhaps only after an unload of the topic."""
        if gone in self.plan.consumers:
            self.plan.consumers.remove(gone)
        if moves:
            self.move()
        self.read(gone.subscription)
        again = self.join(gone.subscription, "wire", 0)
        self.do(Receive(consumer=again.name, count=9))


class AcknowledgmentClientsNetworkMachine(AcknowledgmentClientsMachine):
    """pulsar-client's consumers, which come back when they are cut off."""

    @rule(index=INDEXES, count=COUNTS, nth=NTH, takes=st.booleans())
    def cut_connection(self, index: int, count: int, nth: tuple[int, ...], takes: bool) -> None:
        """A consumer is cut off; what its client holds back then may be lost, and the client wait for it in vain.

        That is asked for seldom, for it takes long.
        """
        consumer = self.consumer(index, client="official", queue=5)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        if not self.is_patient:
            for subscription in self.plan.kinds:
                self.read(subscription)  # which waits until nothing is held back
        self.do(CutConnection(consumer=consumer.name))
        if takes:
            self.do(Receive(consumer=consumer.name, count=count))
        self.read(consumer.subscription)


class KeysNetworkMachine(KeysMachine):
    """Consumers of a Key_Shared subscription that are cut off while they acknowledge."""

    is_proxied: ClassVar[bool] = True

    @rule(index=INDEXES, nth=NTH, fault=AT_ACKNOWLEDGING, joins=st.booleans())
    def cut_off_acknowledging(self, index: int, nth: tuple[int, ...], fault: ConsumerFault, joins: bool) -> None:
        """A consumer is cut off while it acknowledges; what of that did not come to the broker goes to the others."""
        consumer = self.consumer(index)
        if joins:
            self.join(100)
        self.do(CutDuring(Acknowledge(consumer=consumer, nth=nth), fault))
        if consumer in self.plan.consumers:
            self.plan.consumers.remove(consumer)
        self.gather()
