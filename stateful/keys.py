"""The machines of document 004: consumers of a Key_Shared subscription come, go, acknowledge and fail, in every order.

Whatever is done, all that the broker sends is gathered behind it, so that who had what is known at every moment.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from conformance.engine.example import RunningExample
from model.cursors.words import (
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    Subscribe,
)
from model.keys.words import Gather, Permit
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send
from stateful.key_plan import KEYS, KeyPlan, Pick

TOPIC, SUBSCRIPTION = "t0", "s0"
INDEXES = st.integers(0, 63)
PERMITS = st.sampled_from([1, 1, 2, 3, 5, 100])
NTH = st.lists(st.integers(0, 29), min_size=1, max_size=6, unique=True).map(tuple)
PICKS = st.lists(
    st.builds(
        Pick,
        key=st.sampled_from([*range(len(KEYS)), *range(len(KEYS)), None]),
        size=st.sampled_from([1, 1, 1, 1, 2, 3]),
        is_mixed=st.sampled_from([False, False, True]),
        by_ordering_key=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=8,
)


class OnKeys(RuleBasedStateMachine):
    """What all machines of this document are made of; no rules of its own."""

    def __init__(self, example: RunningExample) -> None:
        super().__init__()
        self.example = example
        self.plan = KeyPlan()

    def do(self, operation: AnyOperation) -> None:
        """Perform one operation."""
        self.example.do(operation)

    def teardown(self) -> None:
        """End the example."""
        self.example.end()

    def create(self) -> None:
        """A topic with a producer and a subscription."""
        self.do(CreateTopic(topic=TOPIC, persistence="every-ack"))
        self.produce_again()
        self.do(CreateSubscription(topic=TOPIC, subscription=SUBSCRIPTION))

    def produce_again(self) -> None:
        """The producer opens, or comes back once its connection was closed."""
        self.do(OpenProducer(session="p", topic=TOPIC, producer="p"))

    def send_entries(self, picks: list[Pick]) -> None:
        """New messages."""
        self.do(Send(session="p", entries=self.plan.entries(picks)))

    def gather(self) -> None:
        """Whatever the broker sends now."""
        self.do(Gather(topic=TOPIC, subscription=SUBSCRIPTION))

    def join(self, permits: int) -> str:
        """A consumer joins, and permits the broker to send it some messages."""
        name = self.plan.fresh_name()
        self.do(Subscribe(consumer=name, topic=TOPIC, subscription=SUBSCRIPTION, kind="Key_Shared"))
        self.plan.consumers.append(name)
        self.gather()
        self.permit(name, permits)
        return name

    def permit(self, consumer: str, permits: int) -> None:
        """A consumer permits the broker to send it some messages."""
        self.do(Permit(consumer=consumer, count=permits))
        self.gather()

    def leave(self, consumer: str, *, crashes: bool, is_quiet: bool = False) -> None:
        """A consumer leaves, in good order or not; unless it is to be quiet then, another one permits one more."""
        self.do(CrashConsumer(consumer) if crashes else CloseConsumer(consumer))
        if consumer in self.plan.consumers:
            self.plan.consumers.remove(consumer)
        if self.plan.consumers and not is_quiet:
            self.do(Permit(consumer=self.plan.consumers[0], count=1))
        self.gather()

    def consumer(self, index: int) -> str:
        """One of the consumers that should be there; a new one where there is none."""
        if not self.plan.consumers:
            return self.join(5)
        return self.plan.consumers[index % len(self.plan.consumers)]


class KeysMachine(OnKeys):
    """Consumers join and leave while others have messages, and acknowledge in any order."""

    @initialize(picks=PICKS, permits=PERMITS)
    def begin(self, picks: list[Pick], permits: int) -> None:
        """A topic with messages, and a consumer that has some of them."""
        self.create()
        self.send_entries(picks)
        self.join(permits)

    @rule(picks=PICKS)
    def send(self, picks: list[Pick]) -> None:
        """Messages are sent."""
        self.send_entries(picks)
        self.gather()

    @rule(permits=PERMITS)
    def another_joins(self, permits: int) -> None:
        """A consumer joins."""
        self.join(permits)

    @rule(index=INDEXES, permits=PERMITS)
    def permit_more(self, index: int, permits: int) -> None:
        """A consumer is ready for more."""
        self.permit(self.consumer(index), permits)

    @rule(index=INDEXES, nth=NTH)
    def acknowledge(self, index: int, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of what it received."""
        self.do(Acknowledge(consumer=self.consumer(index), nth=nth))
        self.gather()

    @rule(index=INDEXES)
    def acknowledge_all(self, index: int) -> None:
        """A consumer acknowledges all that it received."""
        self.do(Acknowledge(consumer=self.consumer(index), nth=tuple(range(100))))
        self.gather()

    @rule(index=INDEXES, crashes=st.booleans(), is_quiet=st.sampled_from([False, False, False, True]))
    def one_leaves(self, index: int, crashes: bool, is_quiet: bool) -> None:
        """A consumer leaves with whatever it has."""
        if self.plan.consumers:
            self.leave(self.consumer(index), crashes=crashes, is_quiet=is_quiet)

    @rule(picks=PICKS, permits=PERMITS, nth=NTH, index=INDEXES)
    def hand_over(self, picks: list[Pick], permits: int, nth: tuple[int, ...], index: int) -> None:
        """A consumer has messages when another joins; more come, then it acknowledges some, then all."""
        first = self.consumer(index)
        self.permit(first, 5)
        self.join(permits)
        self.send_entries(picks)
        self.gather()
        for which in (nth, tuple(range(100))):
            self.do(Acknowledge(consumer=first, nth=which))
            self.gather()
