"""Machines of the tests: they look for behaviour that the suite's own machines reach too seldom for a short test."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import CreateTopic, ReadSnapshot, Send, SetDeduplication, Terminate, Unload
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    Skip,
)
from model.vocabulary import SubscriptionType
from stateful.cursors.base import TOPIC
from stateful.cursors.machines import NTH, AcknowledgmentClientsMachine, AcknowledgmentMachine
from stateful.deduplication.machines import BURSTS, INDEXES, DeduplicationMachine
from stateful.deduplication.plan import Pick


class OwnPolicyMachine(DeduplicationMachine):
    """One topic with its own policy."""

    @initialize()
    def create_topics(self) -> None:
        """The topic, and a producer to begin with."""
        self.topics = ("t0",)
        self.do(CreateTopic(topic="t0", deduplication="topic-on"))
        self.open("t0", "p0", "wire")


class SwitchingMachine(OwnPolicyMachine):
    """Deduplication of that topic is disabled, and enabled again while messages are in flight."""

    @rule(index=INDEXES, burst=BURSTS)
    def switch_on_in_flight(self, index: int, burst: list[Pick]) -> None:
        """Send while deduplication is disabled, enable it meanwhile, see which entries count, and resend them."""
        session = self.session(index)
        self.do(SetDeduplication(topic="t0", scope="topic", on=False))
        entries = self.plan.entries(session, [pick for pick in burst if pick.is_rising])
        if session.client == "wire" and entries:
            self.do(Send(session=session.name, entries=entries, wait=False))
            self.do(SetDeduplication(topic="t0", scope="topic", on=True, in_flight=True))
            self.do(ReadSnapshot(topic="t0"))
            self.do(Send(session=session.name, entries=entries))


class LostAcksMachine(AcknowledgmentClientsMachine):
    """Topics are unloaded while pulsar-client holds grouped acks, and then all messages are received."""

    @initialize(kind=st.sampled_from(["Shared", "Exclusive", "Failover"]))
    def begin(self, kind: SubscriptionType) -> None:
        """A topic with messages, and one consumer."""
        self.do(CreateTopic(topic=TOPIC, persistence="every-ack"))
        self.plan.kinds = {"s0": kind}
        self.produce_again()
        self.send_entries([1, 2, 1])
        self.join("s0", "official", 5)

    @rule(nth=NTH)
    def move(self, nth: tuple[int, ...]) -> None:
        """Acknowledge, unload the topic, and receive."""
        consumer = self.plan.consumers[0] if self.plan.consumers else self.join("s0", "official", 5)
        self.do(Receive(consumer=consumer.name, count=9))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.do(Unload(topic=TOPIC))
        self.produce_again()
        self.do(Receive(consumer=consumer.name, count=9))


class ManyRangesMachine(AcknowledgmentMachine):
    """A subscription with many ranges is unloaded again and again, with no ack in between."""

    @initialize()
    def begin(self) -> None:
        """A topic of which every other entry is acknowledged."""
        self.create(TOPIC, "every-ack", ("Shared",))
        self.send_entries([1] * 9)
        self.do(AckById(consumer=self.join("s0", "wire", 0).name, ids=("b2", "b4", "b6", "b8")))

    @rule()
    def move(self) -> None:
        """Unload the topic once the cursor was read."""
        self.do(ReadCursor(topic=TOPIC, subscription="s0"))
        self.do(AwaitPersisted(topic=TOPIC, subscription="s0"))
        self.do(Unload(topic=TOPIC))
        self.do(ReadStoredCursor(topic=TOPIC, subscription="s0"))
        self.plan.drop_wire()
        self.produce_again()


class RemovalsMachine(AcknowledgmentMachine):
    """Messages between acknowledged ones are skipped or expire, or a topic has one entry."""

    @initialize(number=st.sampled_from([1, 9]))
    def begin(self, number: int) -> None:
        """A topic with single messages, and one consumer."""
        self.create(TOPIC, "every-ack", ("Shared",))
        self.send_entries([1] * number)
        self.join("s0", "wire", 0)

    @rule(nth=st.sampled_from([(1, 3, 5), (2, 4), (1, 2, 5, 7), (-1,), (-2, -1)]), which=INDEXES, skips=st.booleans())
    def remove(self, nth: tuple[int, ...], which: int, *, skips: bool) -> None:
        """Acknowledge some messages, and skip or expire others."""
        consumer = self.consumer(0)
        self.do(Receive(consumer=consumer.name, count=9))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        if skips:
            self.skip(0, 1 + which % 6)
        else:
            self.expire(0, which)


class TerminatedMachine(AcknowledgmentMachine):
    """A topic that ends in its second ledger is unloaded, and then messages are skipped."""

    @initialize()
    def begin(self) -> None:
        """A topic of which the first ledger is acknowledged, and nothing more is written to it."""
        self.create(TOPIC, "every-ack", ("Shared",))
        self.send_entries([1] * 8)
        self.do(Skip(topic=TOPIC, subscription="s0", count=4))
        self.is_over = True
        self.do(Terminate(topic=TOPIC))
        self.move()
