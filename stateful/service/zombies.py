"""The machine of SERVE-06 in which an owner is frozen for longer than its session, and then thawed.

Clients stay connected to it, and others find the broker that took over. Both produce, consume and acknowledge on both.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import AcknowledgeAtFrozen, FreezeOwner, Isolation, Send, SendToFrozen, ThawOwners
from model.subscription_operations import Acknowledge, ReadCursor, Receive
from model.vocabulary import Persistence, SubscriptionType
from stateful.cursors.base import KINDS, TOPIC, OnSubscriptions
from stateful.cursors.machines import NTH, PERSISTENCE, SIZES

PRODUCER = f"p-{TOPIC}"
"""The session of the topic's producer: one to the frozen owner, and one after it to the other broker."""


class ZombiesMachine(OnSubscriptions):
    """A topic whose owner is frozen, again and again."""

    @initialize(kind=KINDS, persistence=PERSISTENCE, is_deduplicated=st.booleans(), sizes=SIZES)
    def begin(self, kind: SubscriptionType, persistence: Persistence, is_deduplicated: bool, sizes: list[int]) -> None:
        """A topic with messages, and a consumer."""
        self.create(TOPIC, persistence, (kind,), is_deduplicated=is_deduplicated)
        self.send_entries(sizes)

    @rule(
        sizes=SIZES,
        in_flight=st.none() | SIZES,
        acks=st.lists(NTH, max_size=3),
        late=st.none() | SIZES,
        later=st.none() | SIZES,
        later_acks=st.none() | NTH,
        how=st.sampled_from(["freeze", "cut-off"]),
    )
    def freeze_and_thaw(
        self,
        sizes: list[int],
        in_flight: list[int] | None,
        acks: list[tuple[int, ...]],
        late: list[int] | None,
        later: list[int] | None,
        later_acks: tuple[int, ...] | None,
        how: Isolation,
    ) -> None:
        """Freeze the owner, or disconnect it from the metadata store, maybe with messages in flight.

        Both brokers are used; the former owner goes on, and so do all.
        """
        consumer = self.join("s0", "wire", 0)
        self.do(Receive(consumer=consumer.name, count=9))
        for nth in acks:
            self.do(Acknowledge(consumer=consumer.name, nth=nth))
        if in_flight is not None:
            self.do(Send(session=PRODUCER, entries=self.plan.entries(in_flight), wait=False))
        self.do(FreezeOwner(TOPIC, how))
        self.plan.drop_wire()
        if late is not None:
            self.do(SendToFrozen(PRODUCER, self.plan.entries(late)))
        if later_acks is not None:
            self.do(AcknowledgeAtFrozen(consumer.name, later_acks))
        self.go_on(sizes, acks)
        if later is not None:
            self.do(SendToFrozen(PRODUCER, self.plan.entries(later)))
        self.do(ThawOwners())
        self.send_entries(sizes)
        self.do(ReadCursor(topic=TOPIC, subscription="s0"))

    def go_on(self, sizes: list[int], acks: list[tuple[int, ...]]) -> None:
        """Produce, consume and acknowledge at the broker that took over."""
        self.produce_again()
        self.send_entries(sizes)
        consumer = self.join("s0", "wire", 0)
        self.do(Receive(consumer=consumer.name, count=9))
        for nth in acks:
            self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.do(ReadCursor(topic=TOPIC, subscription="s0"))
