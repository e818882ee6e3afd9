"""The machines of document 004: consumers of a Key_Shared subscription join, leave, ack and nack in every order.

After each operation all dispatched messages are received, so the pending messages of each consumer are always known.
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import CreateTopic, OpenProducer, Send, Unload
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    Nack,
    Permit,
    ReadCursor,
    ReceiveDue,
    ResetCursor,
    Seek,
    Skip,
    Subscribe,
)
from model.vocabulary import Client
from stateful.delays import DELAYS, Delays
from stateful.key_shared.plan import KEYS, KeyedPick, KeyPlan, Policy
from stateful.lockstep_machine import LockstepMachine, Performing
from stateful.service.reads import READS, Asked

TOPIC, SUBSCRIPTION = "t0", "s0"
NAMES = st.sampled_from([None, None, "x", "x", "y"])
INDEXES = st.integers(0, 63)
PERMITS = st.sampled_from([1, 1, 2, 3, 5, 100])
NTH = st.lists(st.integers(0, 29), min_size=1, max_size=6, unique=True).map(tuple)
NEWEST = st.lists(st.integers(-12, -1), min_size=1, max_size=4, unique=True).map(tuple)
"""Some of the messages that a consumer received last."""
PICKS = st.lists(
    st.builds(
        KeyedPick,
        key=st.sampled_from([*range(len(KEYS)), *range(len(KEYS)), None]),
        size=st.sampled_from([1, 1, 1, 1, 2, 3]),
        is_mixed=st.sampled_from([False, False, True]),
        by_ordering_key=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=8,
)


class OnKeys(LockstepMachine):
    """The base of all machines of this document; it has no rules."""

    out_of_order = False
    producing: Client = "wire"
    """The client of its producer."""
    is_proxied: ClassVar[bool] = False
    """Whether consumers come through proxies, where the network can fail them."""

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.plan = KeyPlan()

    def create(self) -> None:
        """A topic with a producer and a subscription."""
        self.do(CreateTopic(topic=TOPIC, persistence="every-ack"))
        self.produce_again()
        self.do(CreateSubscription(topic=TOPIC, subscription=SUBSCRIPTION))

    def produce_again(self) -> None:
        """Open the producer, or reopen it after its connection was closed."""
        self.do(OpenProducer(session="p", topic=TOPIC, producer="p", client=self.producing))

    def send_entries(self, picks: list[KeyedPick]) -> None:
        """New messages."""
        self.do(Send(session="p", entries=self.plan.entries(picks)))

    def gather(self) -> None:
        """Receive everything that the broker sends now."""
        self.do(ReceiveDue(topic=TOPIC, subscription=SUBSCRIPTION))

    def look(self) -> None:
        """Receive everything, then compare the broker's stats."""
        self.do(ReadCursor(topic=TOPIC, subscription=SUBSCRIPTION))

    def join(self, permits: int, *, known_as: str | None = None) -> str:
        """A consumer joins, and adds permits."""
        name = self.plan.fresh_name()
        self.subscribe(name, known_as=known_as)
        self.plan.consumers.append(name)
        self.gather()
        self.permit(name, permits)
        return name

    def subscribe(self, name: str, policy: Policy | None = None, *, known_as: str | None = None) -> None:
        """A consumer subscribes; the broker may refuse it."""
        policy = policy or Policy(out_of_order=self.out_of_order)
        self.do(
            Subscribe(
                consumer=name,
                topic=TOPIC,
                subscription=SUBSCRIPTION,
                kind="Key_Shared",
                known_as=known_as,
                sticky=policy.claims,
                out_of_order=policy.out_of_order,
                proxied=self.is_proxied,
            )
        )

    def move(self, *, classic: bool | None = None) -> None:
        """Unload the topic, perhaps to the other implementation; its consumers do not reconnect."""
        self.do(Unload(topic=TOPIC, classic=classic))
        self.all_are_disconnected()
        self.produce_again()

    def producers_closed(self) -> None:
        """Reopen its producer."""
        self.produce_again()

    def disconnected(self) -> None:
        """Its consumers are disconnected as well."""
        self.all_are_disconnected()
        self.produce_again()

    def all_are_disconnected(self) -> None:
        """The broker disconnected all consumers, and they do not reconnect."""
        self.plan.consumers.clear()
        self.plan.policies.clear()

    def permit(self, consumer: str, permits: int) -> None:
        """A consumer adds permits."""
        self.do(Permit(consumer=consumer, count=permits))
        self.gather()

    def leave(self, consumer: str, *, crashes: bool, is_quiet: bool = False) -> None:
        """A consumer closes or crashes; unless nothing may be sent then, another one adds a permit."""
        self.do(CrashConsumer(consumer) if crashes else CloseConsumer(consumer))
        if consumer in self.plan.consumers:
            self.plan.consumers.remove(consumer)
        if self.plan.consumers and not is_quiet:
            self.do(Permit(consumer=self.plan.consumers[0], count=1))
        self.gather()

    def consumer(self, index: int) -> str:
        """One of the planned consumers; a new one if there is none."""
        if not self.plan.consumers:
            return self.join(5)
        return self.plan.consumers[index % len(self.plan.consumers)]


class KeysMachine(OnKeys):
    """Consumers join and leave while others have messages, and acknowledge in any order."""

    @initialize(picks=PICKS, permits=PERMITS, is_empty=st.sampled_from([False, False, True]), delays=DELAYS)
    def begin(self, picks: list[KeyedPick], permits: int, is_empty: bool, delays: Delays) -> None:
        """Create a topic with messages and a consumer that has some; or an empty topic for the first consumers."""
        self.plan.delays = delays
        self.create()
        if is_empty:
            self.put_messages_aside(picks, joining=2)
        else:
            self.send_entries(picks)
            self.join(permits)

    @rule(picks=PICKS)
    def send(self, picks: list[KeyedPick]) -> None:
        """Messages are sent."""
        self.send_entries(picks)
        self.gather()

    @rule(permits=PERMITS, known_as=NAMES)
    def another_joins(self, permits: int, known_as: str | None) -> None:
        """A consumer joins, maybe with the name of another one, or of a former one."""
        self.join(permits, known_as=known_as)

    @rule(index=INDEXES, permits=PERMITS)
    def permit_more(self, index: int, permits: int) -> None:
        """A consumer adds permits."""
        self.permit(self.consumer(index), permits)

    @rule(index=INDEXES, nth=NTH)
    def acknowledge(self, index: int, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of what it received."""
        self.do(Acknowledge(consumer=self.consumer(index), nth=nth))
        self.gather()

    @rule(index=INDEXES)
    def acknowledge_all(self, index: int) -> None:
        """A consumer acknowledges everything that it received."""
        self.do(Acknowledge(consumer=self.consumer(index), nth=tuple(range(100))))
        self.gather()

    @rule(index=INDEXES, crashes=st.booleans(), is_quiet=st.sampled_from([False, False, False, True]))
    def one_leaves(self, index: int, crashes: bool, is_quiet: bool) -> None:
        """A consumer leaves with its pending messages."""
        if self.plan.consumers:
            self.leave(self.consumer(index), crashes=crashes, is_quiet=is_quiet)

    @rule(picks=PICKS, permits=PERMITS, nth=NTH, index=INDEXES)
    def hand_over(self, picks: list[KeyedPick], permits: int, nth: tuple[int, ...], index: int) -> None:
        """A consumer has messages when another joins; more are sent, then it acknowledges some, then all."""
        first = self.consumer(index)
        self.permit(first, 5)
        self.join(permits)
        self.send_entries(picks)
        self.gather()
        for which in (nth, tuple(range(100))):
            self.do(Acknowledge(consumer=first, nth=which))
            self.gather()

    @rule(index=INDEXES, before=PICKS, after=PICKS, crashes=st.booleans())
    def come_and_go(self, index: int, before: list[KeyedPick], after: list[KeyedPick], crashes: bool) -> None:
        """A consumer has messages when another joins; that one leaves while hashes drain, and they return."""
        self.permit(self.consumer(index), 100)
        self.send_entries(before)
        passing = self.join(1)
        self.send_entries(after)
        self.gather()
        self.leave(passing, crashes=crashes)

    @rule(picks=PICKS, joining=st.integers(1, 3))
    def put_aside(self, picks: list[KeyedPick], joining: int) -> None:
        """A consumer has no permits while others have: its messages go to the replay queue, and consumers join."""
        self.put_messages_aside(picks, joining)

    def put_messages_aside(self, picks: list[KeyedPick], joining: int) -> None:
        """Each key has several messages, so that a consumer has one of a key and another one is in the replay queue."""
        self.join(1)
        self.join(100)
        self.send_entries([*picks, *picks])
        self.gather()
        for _ in range(joining):
            self.join(100)


class KeysAgainMachine(KeysMachine):
    """In addition, consumers nack messages, topics are unloaded, and administrators reset subscriptions."""

    @initialize(picks=PICKS, permits=PERMITS, out_of_order=st.sampled_from([False] * 5 + [True]), delays=DELAYS)
    def begin(self, picks: list[KeyedPick], permits: int, out_of_order: bool, delays: Delays = ()) -> None:
        """As in the base class; in few examples, consumers allow out-of-order delivery."""
        self.out_of_order = out_of_order
        super().begin(picks, permits, is_empty=False, delays=delays)

    @rule(index=INDEXES, nth=st.none() | NTH, permits=PERMITS)
    def fail(self, index: int, nth: tuple[int, ...] | None, permits: int) -> None:
        """A consumer nacks some of its messages, or all, then adds permits."""
        consumer = self.consumer(index)
        self.do(Nack(consumer=consumer, nth=nth))
        self.gather()
        self.permit(consumer, permits)

    @rule(index=INDEXES, nth=st.none() | NTH, permits=PERMITS)
    def fail_and_hand_over(self, index: int, nth: tuple[int, ...] | None, permits: int) -> None:
        """A consumer nacks, another joins, and more messages are sent."""
        consumer = self.consumer(index)
        self.do(Nack(consumer=consumer, nth=nth))
        self.join(permits)
        self.permit(consumer, permits)

    @rule(index=INDEXES, picks=PICKS, nth=NEWEST)
    def hand_over_and_fail(self, index: int, picks: list[KeyedPick], nth: tuple[int, ...]) -> None:
        """A consumer has several messages of each key when another joins, and nacks some of them."""
        consumer = self.consumer(index)
        for other in [name for name in self.plan.consumers if name != consumer]:
            self.leave(other, crashes=False)
        self.permit(consumer, 100)
        self.send_entries([*picks, *picks])
        self.gather()
        self.join(100)
        self.do(Nack(consumer=consumer, nth=nth))
        self.gather()

    @rule(permits=PERMITS)
    def unload(self, permits: int) -> None:
        """The topic is unloaded, and new consumers subscribe."""
        self.move()
        self.join(permits)
        self.join(permits)

    @rule(which=st.none() | INDEXES, permits=PERMITS)
    def set_back(self, which: int | None, permits: int) -> None:
        """The subscription is reset to a message, and new consumers subscribe."""
        to = None if which is None else self.plan.sent[which % len(self.plan.sent)]
        self.do(ResetCursor(topic=TOPIC, subscription=SUBSCRIPTION, to=to))
        self.all_are_disconnected()
        self.look()
        self.join(permits)
        self.join(permits)

    @rule(index=INDEXES, which=st.none() | INDEXES, permits=PERMITS)
    def seek(self, index: int, which: int | None, permits: int) -> None:
        """A consumer seeks to a message, and new consumers subscribe."""
        to = None if which is None else self.plan.sent[which % len(self.plan.sent)]
        self.do(Seek(consumer=self.consumer(index), to=to))
        self.all_are_disconnected()
        self.look()
        self.join(permits)
        self.join(permits)

    @rule(permits=PERMITS, out_of_order=st.booleans())
    def others_take_over(self, permits: int, out_of_order: bool) -> None:
        """All consumers leave, and others join, perhaps with another policy: then the broker makes a new dispatcher."""
        for consumer in list(self.plan.consumers):
            self.leave(consumer, crashes=False)
        self.out_of_order = out_of_order
        self.join(permits)
        self.join(permits)

    @rule(count=st.integers(1, 6))
    def skip(self, count: int) -> None:
        """An administrator skips entries, pending or not."""
        self.do(Skip(topic=TOPIC, subscription=SUBSCRIPTION, count=count))
        self.gather()
        self.look()

    @rule(asked=READS, which=INDEXES, index=INDEXES, permits=PERMITS)
    def only_read(self, asked: Asked, which: int, index: int, permits: int) -> None:
        """Somebody reads, and a consumer goes on to receive."""
        self.do(asked(TOPIC, SUBSCRIPTION, self.plan.sent[which % len(self.plan.sent)]))
        self.permit(self.consumer(index), permits)
        self.look()
