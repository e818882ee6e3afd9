"""The machine of the SERVE family: conflicting requests, each followed by reading everything back.

The other machines exercise these rules as well; this one makes the conflicts that they avoid. Consumers of all types
request the same subscriptions, producers the same name, and administrators change what is in use.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from model.administrator_operations import AtOnce
from model.operations import CloseProducer, CrashProducer, OpenProducer, ReadLog, Terminate, Trim, Unload
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    DeleteSubscription,
    Nack,
    ReadCursor,
    Receive,
    ResetCursor,
    Skip,
    SkipAll,
    Subscribe,
)
from model.subscriptions.consumers import SHARED
from model.vocabulary import Limits, SubscriptionType, WideScope
from stateful.cursors.base import COUNTS, INDEXES, KINDS, TOPIC, UNANSWERED
from stateful.cursors.machines import NTH, SIZES
from stateful.cursors.plan import PlannedConsumer
from stateful.delays import DELAYS, Delays
from stateful.service.administrators import REQUESTS, SCOPES, WIDELY, Requested, Widely
from stateful.service.policies import STEPS as POLICIES
from stateful.service.policies import Step, UnderPolicies
from stateful.service.producers import STEPS, Contending
from stateful.service.reads import READS, Asked

IN_ALL = Limits(in_all=3)
LIMITS = st.sampled_from([None, None, Limits(consumers=2), Limits(unacknowledged=3), Limits(2, 4), IN_ALL, IN_ALL])
ALL = tuple(range(40))
"""The messages of a consumer by number, of which few have more."""
SUBSCRIPTIONS = st.sampled_from(["s0", "s0", "s1"])


class ServiceMachine(UnderPolicies):
    """Requests that the broker must refuse or accept, and what consumers receive after each of them."""

    limits: Limits | None = None
    last_sends: int | None = None
    """How many sends are unanswered when the topic is terminated at last; None if it is not terminated."""
    has_namespace = False
    """Whether the topic has a namespace of its own."""

    @initialize(
        kind=KINDS,
        sizes=SIZES,
        limits=LIMITS,
        nth=NTH,
        delays=DELAYS,
        last_sends=st.none() | st.just(0) | UNANSWERED,
        has_namespace=st.booleans(),
    )
    def begin(
        self,
        kind: SubscriptionType,
        sizes: list[int],
        limits: Limits | None,
        nth: tuple[int, ...],
        delays: Delays,
        last_sends: int | None,
        has_namespace: bool,
    ) -> None:
        """A topic with messages, two subscriptions, and a consumer of the first one; often with limits.

        A limit on unacknowledged messages is reached at once, by consumers that share them; then nothing is delayed.
        """
        self.limits = limits
        self.last_sends = last_sends
        self.has_namespace = has_namespace
        self.plan.delays = () if self.counts_unacknowledged else delays
        kind = kind if kind in SHARED or not self.counts_unacknowledged else "Shared"
        self.create(TOPIC, "every-ack", (kind, "Shared"), limits=limits, has_namespace=has_namespace)
        self.send_entries([1] * sum(sizes) if limits is not None else sizes)
        self.join("s0", "wire", 0)
        if self.counts_unacknowledged:
            self.take_up_to_the_limit(index=0, nth=nth)

    @rule(sizes=SIZES)
    def send(self, sizes: list[int]) -> None:
        """Send single messages, and batches where nobody counts them."""
        self.send_more(sizes)

    def send_more(self, sizes: list[int]) -> None:
        """Send entries of these sizes, or as many single messages where a limit counts them."""
        self.send_entries(sizes if self.limits is None else [1] * sum(sizes))

    @property
    def counts_unacknowledged(self) -> bool:
        """Whether unacknowledged messages are limited, of a consumer or of a subscription."""
        return self.limits is not None and self.limits.unacknowledged + self.limits.in_all > 0

    @precondition(lambda self: self.counts_unacknowledged)
    @rule(index=INDEXES, nth=NTH)
    def take_up_to_the_limit(self, index: int, nth: tuple[int, ...]) -> None:
        """A consumer adds more permits than the limit allows, twice, acknowledges some or all, and adds
        permits again."""
        shares = [one for one in self.plan.consumers if self.plan.kinds[one.subscription] in SHARED]
        consumer = shares[index % len(shares)] if shares else self.consumer(index)
        self.send_entries([1] * 4)
        self.do(Receive(consumer=consumer.name, count=9))
        self.look(consumer.subscription)
        self.send_entries([1])
        self.do(Receive(consumer=consumer.name, count=9))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.do(Receive(consumer=consumer.name, count=2))
        self.do(Acknowledge(consumer=consumer.name, nth=ALL))
        self.do(Receive(consumer=consumer.name, count=9))
        self.look(consumer.subscription)

    @rule(subscription=SUBSCRIPTIONS, kind=KINDS, count=COUNTS)
    def subscribe_as(self, subscription: str, kind: SubscriptionType, count: int) -> None:
        """A consumer subscribes with any type, and receives if the broker accepts it."""
        name = self.plan.fresh_name()
        others = [one for one in self.plan.consumers if one.subscription == subscription]
        if not others:
            self.plan.kinds[subscription] = kind
        self.do(Subscribe(consumer=name, topic=TOPIC, subscription=subscription, kind=kind))
        may_share = kind == self.plan.kinds[subscription] and kind != "Exclusive"
        is_full = self.limits is not None and 0 < self.limits.consumers <= len(others)
        if not others or (may_share and not is_full):
            self.plan.consumers.append(PlannedConsumer(name, TOPIC, subscription, "wire"))
            self.do(Receive(consumer=name, count=count))
        self.look(subscription)

    @rule(again=st.booleans(), crashes=st.booleans(), sizes=SIZES)
    def share_a_name(self, again: bool, crashes: bool, sizes: list[int]) -> None:
        """Another session opens the producer's name, also after its holder has left."""
        self.do(OpenProducer(session="other", topic=TOPIC, producer="p"))
        if again:
            leave = CrashProducer(f"p-{TOPIC}") if crashes else CloseProducer(f"p-{TOPIC}")
            self.do(leave)
            self.do(OpenProducer(session="other", topic=TOPIC, producer="p"))
            self.do(CloseProducer("other"))
            self.produce_again()
        self.send_entries(sizes)

    @rule(index=INDEXES, count=COUNTS, nth=NTH)
    def take_and_acknowledge(self, index: int, count: int, nth: tuple[int, ...]) -> None:
        """A consumer receives, and acknowledges some of all that it received."""
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        self.do(Acknowledge(consumer=consumer.name, nth=nth))
        self.look(consumer.subscription)

    @rule(index=INDEXES, nth=st.none() | NTH, count=COUNTS)
    def fail(self, index: int, nth: tuple[int, ...] | None, count: int) -> None:
        """A consumer nacks some of its messages, or all, and receives."""
        consumer = self.consumer(index)
        self.do(Nack(consumer=consumer.name, nth=nth))
        self.do(Receive(consumer=consumer.name, count=count))

    @rule(index=INDEXES, waits=st.booleans(), crashes=st.booleans(), sizes=SIZES, count=COUNTS)
    def leave(self, index: int, waits: bool, crashes: bool, sizes: list[int], count: int) -> None:
        """A consumer leaves; another one of its subscription, or a new one, receives.

        It may leave while it waits for messages and has acknowledged all; then more are sent.
        """
        consumer = self.consumer(index)
        waits = waits and not self.counts_unacknowledged
        if waits:
            self.do(Receive(consumer=consumer.name, count=len(self.plan.sent) + 1))
            self.do(Acknowledge(consumer=consumer.name, nth=ALL))
        self.do(CrashConsumer(consumer.name) if crashes else CloseConsumer(consumer.name))
        if consumer in self.plan.consumers:
            self.plan.consumers.remove(consumer)
        left = [one for one in self.plan.consumers if one.subscription == consumer.subscription]
        successor = left[0] if left else self.join(consumer.subscription, "wire", 0)
        if waits:
            self.send_more(sizes)
        self.do(Receive(consumer=successor.name, count=count))
        self.look(consumer.subscription)

    @rule(index=INDEXES, count=COUNTS)
    def unload(self, index: int, count: int) -> None:
        """Unload the topic; producers and consumers reconnect."""
        self.do(Unload(topic=TOPIC))
        self.plan.drop_wire()
        self.produce_again()
        self.do(Receive(consumer=self.consumer(index).name, count=count))

    @rule(
        subscription=SUBSCRIPTIONS,
        entries=st.none() | st.integers(1, 5),
        sizes=st.none() | SIZES,
        index=INDEXES,
        count=COUNTS,
    )
    def skip(self, subscription: str, entries: int | None, sizes: list[int] | None, index: int, count: int) -> None:
        """An administrator skips some entries, or all, while consumers are connected; then more may be sent.

        A consumer at its limit has nothing due then: the broker still counts what was skipped.
        """
        skips = SkipAll(TOPIC, subscription) if entries is None else Skip(TOPIC, subscription, entries)
        self.do(skips)
        self.look(subscription)
        if sizes is not None and not self.counts_unacknowledged:
            self.send_more(sizes)
        there = [one for one in self.plan.consumers if one.subscription == subscription]
        consumer = there[index % len(there)] if there else self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))

    @rule(subscription=SUBSCRIPTIONS, which=st.none() | INDEXES, count=COUNTS)
    def reset(self, subscription: str, which: int | None, count: int) -> None:
        """An administrator resets a cursor, which disconnects the consumers; one returns and receives what is due."""
        to = None if which is None else self.plan.sent[which % len(self.plan.sent)]
        self.do(ResetCursor(topic=TOPIC, subscription=subscription, to=to))
        self.plan.drop_wire(subscription)
        self.look(subscription)
        again = self.join(subscription, "wire", 0)
        self.do(Receive(consumer=again.name, count=count))
        self.look(subscription)

    @rule(subscription=SUBSCRIPTIONS, kind=KINDS)
    def create_or_delete(self, subscription: str, kind: SubscriptionType) -> None:
        """An administrator creates a subscription that exists, and deletes it, which is refused while it is used."""
        self.do(CreateSubscription(topic=TOPIC, subscription=subscription))
        self.do(DeleteSubscription(topic=TOPIC, subscription=subscription))
        self.look(subscription)
        if not self.has_consumers(subscription):
            self.plan.kinds[subscription] = kind
            self.do(CreateSubscription(topic=TOPIC, subscription=subscription))
        self.look(subscription)

    @rule(asked=READS, index=INDEXES, which=INDEXES, count=COUNTS)
    def only_read(self, asked: Asked, index: int, which: int, count: int) -> None:
        """Somebody reads, and a consumer goes on to receive."""
        consumer = self.consumer(index)
        self.do(asked(TOPIC, consumer.subscription, self.plan.sent[which % len(self.plan.sent)]))
        self.do(Receive(consumer=consumer.name, count=count))
        self.look(consumer.subscription)

    @rule(steps=STEPS, index=INDEXES, count=COUNTS, sizes=SIZES)
    def contend(self, steps: list[Contending], index: int, count: int, sizes: list[int]) -> None:
        """Producers contend for the topic; then its own producer sends as before."""
        self.contend_for_topic(steps)
        self.send_more(sizes)
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        self.look(consumer.subscription)

    @rule(steps=POLICIES, sizes=SIZES, index=INDEXES, count=COUNTS)
    def limit_clients(self, steps: list[Step], sizes: list[int], index: int, count: int) -> None:
        """An administrator sets policies, clients reach their limits, and the policies are removed again."""
        self.live_under_policies(steps)
        self.lift_policies(steps)
        self.end_clients()
        self.send_more(sizes)
        consumer = self.consumer(index)
        self.do(Receive(consumer=consumer.name, count=count))
        self.look(consumer.subscription)

    @rule(unanswered=UNANSWERED, trims=st.booleans(), subscription=SUBSCRIPTIONS)
    def interrupt_sends(self, unanswered: int, trims: bool, subscription: str) -> None:
        """The topic is trimmed or unloaded during sends; then the log shows which of them were stored."""
        self.send_unanswered(unanswered)
        if trims:
            self.do(Trim(topic=TOPIC))
        else:
            self.do(Unload(topic=TOPIC))
            self.plan.drop_wire()
            self.produce_again()
        self.send_more([1])
        self.do(ReadLog(topic=TOPIC))
        self.look(subscription)

    @precondition(lambda self: self.has_namespace)
    @rule(widely=WIDELY, scope=st.none() | SCOPES, subscription=SUBSCRIPTIONS, kind=KINDS, sizes=SIZES)
    def request_widely(
        self, widely: Widely, scope: WideScope | None, subscription: str, kind: SubscriptionType, sizes: list[int]
    ) -> None:
        """An administrator requests something for the topic's namespace, which may be unloaded before that."""
        if scope is not None:
            self.do(Unload(topic=TOPIC, scope=scope))
            self.plan.drop_wire()
        request = widely(TOPIC, subscription)
        self.do(request)
        if scope is not None:
            self.produce_again()
        self.look_everywhere()
        if isinstance(request, DeleteSubscription) and not self.has_consumers(subscription):
            self.plan.kinds[subscription] = kind
            self.do(CreateSubscription(topic=TOPIC, subscription=subscription))
        self.send_more(sizes)

    @rule(subscription=SUBSCRIPTIONS, first=REQUESTS, second=REQUESTS, which=INDEXES, count=COUNTS)
    def request_at_once(self, subscription: str, first: Requested, second: Requested, which: int, count: int) -> None:
        """Two administrators request something for one subscription; then it exists, and a consumer receives."""
        message = self.plan.sent[which % len(self.plan.sent)]
        both = [one(TOPIC, subscription, message) for one in (first, second)]
        self.do(AtOnce(*both))
        if any(isinstance(one, ResetCursor | DeleteSubscription) for one in both):
            self.plan.drop_wire(subscription)
        self.look(subscription)
        if any(isinstance(one, DeleteSubscription | CreateSubscription) for one in both):
            self.do(CreateSubscription(topic=TOPIC, subscription=subscription))
        there = [one for one in self.plan.consumers if one.subscription == subscription]
        consumer = there[0] if there else self.join(subscription, "wire", 0)
        self.do(Receive(consumer=consumer.name, count=count))
        self.look(subscription)

    def has_consumers(self, subscription: str) -> bool:
        return any(one.subscription == subscription for one in self.plan.consumers)

    def look_everywhere(self) -> None:
        """Compare the broker's stats of all subscriptions."""
        for subscription in self.plan.kinds:
            self.look(subscription)

    def teardown(self) -> None:
        """At last the topic of most examples is terminated during sends."""
        if self.last_sends is not None:
            if self.last_sends:
                self.send_unanswered(self.last_sends)
            self.do(Terminate(topic=TOPIC))
            self.do(ReadLog(topic=TOPIC))
            self.produce_again()
        super().teardown()

    def look(self, subscription: str) -> None:
        """Compare the broker's stats."""
        self.do(ReadCursor(topic=TOPIC, subscription=subscription))
