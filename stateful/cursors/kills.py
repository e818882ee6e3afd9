"""The machine of document 003 that restarts and kills the broker, at once or when acks must have been persisted.

A kill takes seconds, so it has few and short examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal, assert_never, get_args

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.hole_operations import ReceiveHoles
from model.operations import Kill
from model.subscription_operations import (
    Acknowledge,
    AwaitPersisted,
    CreateSubscription,
    DeleteSubscription,
    Expire,
    ReadCursor,
    Receive,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Unsubscribe,
)
from model.vocabulary import PERSISTED_PER_S, Persistence, Start, SubscriptionType
from stateful.crashes import CRASHES, IN_PLACE, Crash
from stateful.cursors.base import OnSubscriptions
from stateful.cursors.beginnings import Ending
from stateful.cursors.holes import HOLES_BEFORE_KILLS, Holed
from stateful.cursors.machines import NTH
from stateful.delays import DELAYS, Delays

WAITS: Final[tuple[tuple[Persistence, ...], ...]] = (
    *5 * ((),),
    *10 * (("every-ack",),),
    *8 * (("every-ack", "once-a-second"),),
    tuple(PERSISTED_PER_S),
)
"""Whose cursors must be persisted before a kill. As shipped that takes ten seconds, during which all lanes wait for the
kill, so that is seldom awaited."""

Placing = Literal["skip", "skip all", "expire", "reset", "seek"]
"""What moves a cursor that nobody acknowledges with."""

Creating = Literal["create", "subscribe", "at"]
"""Brokers reset a subscription that an administrator creates, which persists its position in another way than a
subscription that a consumer creates. Others begin at a message."""


class AcknowledgmentKillsMachine(OnSubscriptions):
    """The broker is killed and restarted: acknowledgments may be lost, in a window; messages never.

    A kill costs seconds, so there is a topic for each way of persisting, and all die with it.
    """

    crashes: ClassVar[tuple[Crash, ...]] = (*IN_PLACE, Kill())

    @initialize(
        kinds=st.lists(st.sampled_from(["Shared", "Exclusive"]), min_size=1, max_size=2).map(tuple), delays=DELAYS
    )
    def begin(self, kinds: tuple[SubscriptionType, ...], delays: Delays) -> None:
        """Topics whose cursors are persisted as shipped, once a second, and with every ack."""
        self.plan.delays = delays
        self.topics = ("t0", "t1", "t2")
        self.persistence = dict(zip(self.topics, PERSISTED_PER_S, strict=True))
        for topic, persistence in self.persistence.items():
            self.create(topic, persistence, kinds)

    @rule(
        sizes=st.lists(st.sampled_from([1, 1, 2, 3]), min_size=3, max_size=12),
        acks=st.lists(NTH, min_size=1, max_size=12),
        later=st.none() | NTH,
        waits_for=st.sampled_from(WAITS),
        placing=st.sampled_from([*get_args(Placing), None]),
        where=st.integers(0, len(PERSISTED_PER_S)),
        number=st.integers(0, 11),
        is_placed_last=st.booleans(),
        creating=st.sampled_from([*get_args(Creating), None, None]),
        start=st.sampled_from(["latest", "latest", "earliest"]),
        ending=st.sampled_from([*get_args(Ending), None, None, None]),
        is_made_anew=st.booleans(),
        holed=st.none() | HOLES_BEFORE_KILLS,
        crash=CRASHES,
    )
    def live_and_die(
        self,
        sizes: list[int],
        acks: list[tuple[int, ...]],
        later: tuple[int, ...] | None,
        waits_for: tuple[Persistence, ...],
        placing: Placing | None,
        where: int,
        number: int,
        is_placed_last: bool,
        creating: Creating | None,
        start: Start,
        ending: Ending | None,
        is_made_anew: bool,
        holed: Holed | None,
        crash: int,
    ) -> None:
        """Consumers ack, and cursors move; then the broker is killed, at once or when this must be persisted.

        Kills are few, so before most of them cursors move, on one topic or on all.
        """
        sent: dict[str, list[str]] = {}
        for topic in self.topics:
            self.send_entries(sizes, topic)
            sent[topic] = self.plan.sent[-sum(sizes) :]
            for subscription in self.plan.kinds:
                consumer = self.join(subscription, "wire", 0, topic=topic)
                self.do(Receive(consumer=consumer.name, count=sum(sizes)))
                for nth in acks:
                    self.do(Acknowledge(consumer=consumer.name, nth=nth))
        placed = {topic: sent[topic] for topic in self.topics[where : where + 1] or self.topics}
        if placing is not None and not is_placed_last:
            self.place(placing, number, placed)
        if creating is not None:
            self.create_subscriptions(creating, start, number, sent)
        if ending is not None:
            self.end_subscriptions(ending, start if is_made_anew else None)
        for topic, subscription in self.everywhere():
            if self.persistence[topic] in waits_for:
                self.do(AwaitPersisted(topic=topic, subscription=subscription))
        if later is not None:
            for consumer in self.plan.consumers:
                self.do(Acknowledge(consumer=consumer.name, nth=later))
        if placing is not None and is_placed_last:
            self.place(placing, number, placed)
        holes = [] if holed is None else [holed(topic) for topic in self.topics]
        for made in holes:
            self.do(made)
        self.do(self.crashes[crash % len(self.crashes)])
        self.plan.drop_wire()
        for topic in self.topics:
            self.produce_again(topic)
        for topic, subscription in self.everywhere():
            self.do(ReadCursor(topic=topic, subscription=subscription))
        for made in holes:
            self.do(ReceiveHoles(made.topic))

    def end_subscriptions(self, how: Ending, start: Start | None) -> None:
        """The last subscription of every topic is deleted, and created again if there is a start position."""
        subscription = list(self.plan.kinds)[-1]
        for topic in self.topics:
            if how == "unsubscribe":
                self.do(Unsubscribe(consumer=self.of(topic, subscription)))
            else:
                self.do(DeleteSubscription(topic=topic, subscription=subscription, by_force=how == "force"))
            here = [one for one in self.plan.consumers if (one.topic, one.subscription) == (topic, subscription)]
            is_gone = how == "force" or len(here) == (1 if how == "unsubscribe" else 0)
            if is_gone:
                self.plan.consumers = [one for one in self.plan.consumers if one not in here]
            if start is not None and is_gone:
                self.do(CreateSubscription(topic=topic, subscription=subscription, start=start))

    def create_subscriptions(self, how: Creating, start: Start, number: int, sent: Mapping[str, Sequence[str]]) -> None:
        """Create another subscription on every topic, all of which have messages by now."""
        subscription = f"{self.plan.mark}s{len(self.plan.kinds)}"
        self.plan.kinds[subscription] = "Shared"
        for topic in self.topics:
            match how:
                case "create":
                    self.do(CreateSubscription(topic=topic, subscription=subscription, start=start))
                case "at":
                    at = sent[topic][number % len(sent[topic])]
                    self.do(CreateSubscription(topic=topic, subscription=subscription, at=at))
                case "subscribe":
                    self.join(subscription, "wire", 0, topic=topic, start=start)
                case _:
                    assert_never(how)

    def place(self, how: Placing, number: int, sent: Mapping[str, Sequence[str]]) -> None:
        """Move every cursor of these topics without an ack.

        ``sent``: what was sent to each since the last kill.
        """
        for topic, subscription in self.everywhere(tuple(sent)):
            message = sent[topic][number % len(sent[topic])]
            match how:
                case "skip":
                    self.do(Skip(topic=topic, subscription=subscription, count=1 + number % 5))
                case "skip all":
                    self.do(SkipAll(topic=topic, subscription=subscription))
                case "expire":
                    self.do(Expire(topic=topic, subscription=subscription, up_to=message))
                case "reset":
                    self.do(ResetCursor(topic=topic, subscription=subscription, to=message))
                case "seek":
                    self.do(Seek(consumer=self.of(topic, subscription), to=message))
                case _:
                    assert_never(how)
            if how in ("reset", "seek"):
                self.plan.consumers = [
                    one for one in self.plan.consumers if (one.topic, one.subscription) != (topic, subscription)
                ]

    def of(self, topic: str, subscription: str) -> str:
        """A consumer of a subscription; a new one if there is none."""
        there = (one.name for one in self.plan.consumers if (one.topic, one.subscription) == (topic, subscription))
        return next(there, None) or self.join(subscription, "wire", 0, topic=topic).name

    def everywhere(self, topics: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """All subscriptions of these topics; by default, of all."""
        return [(topic, one) for topic in (self.topics if topics is None else topics) for one in self.plan.kinds]
