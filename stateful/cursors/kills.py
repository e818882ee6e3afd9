"""The machine of document 003 that restarts and kills the broker, at once or when acks must have been persisted.

A kill takes seconds, so it has few and short examples.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import Kill
from model.subscription_operations import Acknowledge, AwaitPersisted, ReadCursor, Receive
from model.vocabulary import PERSISTED_PER_S, Persistence, SubscriptionType
from stateful.crashes import CRASHES, IN_PLACE, Crash
from stateful.cursors.machines import NTH, OnSubscriptions


class AcknowledgmentKillsMachine(OnSubscriptions):
    """The broker is killed and restarted: acknowledgments may be lost, in a window; messages never.

    A kill costs seconds, so there is a topic for each way of persisting, and all die with it.
    """

    crashes: ClassVar[tuple[Crash, ...]] = (*IN_PLACE, Kill())

    @initialize(kinds=st.lists(st.sampled_from(["Shared", "Exclusive"]), min_size=1, max_size=2).map(tuple))
    def begin(self, kinds: tuple[SubscriptionType, ...]) -> None:
        """Topics whose cursors are persisted as shipped, once a second, and with every ack."""
        self.topics = ("t0", "t1", "t2")
        self.persistence = dict(zip(self.topics, PERSISTED_PER_S, strict=True))
        for topic, persistence in self.persistence.items():
            self.create(topic, persistence, kinds)

    @rule(
        sizes=st.lists(st.sampled_from([1, 1, 2, 3]), min_size=3, max_size=12),
        acks=st.lists(NTH, min_size=1, max_size=12),
        later=st.none() | NTH,
        waits_for=st.sampled_from([(), ("every-ack",), ("every-ack",), tuple(PERSISTED_PER_S)]),
        crash=CRASHES,
    )
    def live_and_die(
        self,
        sizes: list[int],
        acks: list[tuple[int, ...]],
        later: tuple[int, ...] | None,
        waits_for: tuple[Persistence, ...],
        crash: int,
    ) -> None:
        """Consumers acknowledge; the broker dies right after it, or when that must have been persisted."""
        for topic in self.topics:
            self.send_entries(sizes, topic)
            for subscription in self.plan.kinds:
                consumer = self.join(subscription, "wire", 0, topic=topic)
                self.do(Receive(consumer=consumer.name, count=sum(sizes)))
                for nth in acks:
                    self.do(Acknowledge(consumer=consumer.name, nth=nth))
        for topic, subscription in self.everywhere():
            if self.persistence[topic] in waits_for:
                self.do(AwaitPersisted(topic=topic, subscription=subscription))
        if later is not None:
            for consumer in self.plan.consumers:
                self.do(Acknowledge(consumer=consumer.name, nth=later))
        self.do(self.crashes[crash % len(self.crashes)])
        self.plan.drop_wire()
        for topic in self.topics:
            self.produce_again(topic)
        for topic, subscription in self.everywhere():
            self.do(ReadCursor(topic=topic, subscription=subscription))

    def everywhere(self) -> list[tuple[str, str]]:
        """All subscriptions of all topics."""
        return [(topic, subscription) for topic in self.topics for subscription in self.plan.kinds]
