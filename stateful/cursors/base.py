"""What the machines of document 003 have in common: topics, a producer of each, subscriptions and their consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hypothesis import strategies as st

from model.operations import CreateTopic, OpenProducer, Send, SetDeduplication, Switch
from model.subscription_operations import CreateSubscription, ReadCursor, Subscribe
from model.vocabulary import Client, Limits, Persistence, Start, SubscriptionType
from stateful.cursors.plan import ConsumptionPlan, PlannedConsumer
from stateful.lockstep_machine import LockstepMachine, Performing
from stateful.service.producers import Contenders, Contending

TOPIC = "t0"
INDEXES = st.integers(0, 63)
COUNTS = st.integers(1, 9)
STARTS: st.SearchStrategy[Start] = st.sampled_from(["earliest", "earliest", "latest"])
UNANSWERED = st.sampled_from([8, 20, 40, 80])
"""How many sends are unanswered during an operation: they fill several ledgers."""
KINDS: st.SearchStrategy[SubscriptionType] = st.sampled_from(
    ["Shared", "Shared", "Exclusive", "Failover", "Key_Shared"]
)


class OnSubscriptions(LockstepMachine):
    """The base of all machines of this document; it has no rules."""

    is_proxied: ClassVar[bool] = False
    """Whether the wire client's consumers come through proxies, where the network can fail them."""

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.plan = ConsumptionPlan()
        self.topics: tuple[str, ...] = (TOPIC,)
        self.readers: list[str] = []
        """The readers that are open."""

    def create(
        self,
        topic: str,
        persistence: Persistence,
        kinds: tuple[SubscriptionType, ...],
        *,
        is_trimmed: bool = False,
        is_deduplicated: bool = False,
        limits: Limits | None = None,
        has_namespace: bool = False,
    ) -> None:
        """A topic, in a namespace of its own or not, its producer, and its subscriptions."""
        switch: Switch = "own-namespace-off" if has_namespace else "namespace-on"
        self.do(CreateTopic(topic, switch, persistence=persistence, is_trimmed=is_trimmed, limits=limits))
        if is_deduplicated:
            self.do(SetDeduplication(topic=topic, scope="topic", on=True))
        self.produce_again(topic)
        self.plan.subscribed_as(kinds)
        for subscription in self.plan.kinds:
            self.do(CreateSubscription(topic=topic, subscription=subscription))

    def subscription(self, index: int) -> str:
        """One of the subscriptions."""
        return list(self.plan.kinds)[index % len(self.plan.kinds)]

    def consumer(self, index: int, client: Client = "wire", queue: int = 0) -> PlannedConsumer:
        """One of the planned consumers; a new one if there is none."""
        if not self.plan.consumers:
            return self.join(self.subscription(index), client, queue)
        return self.plan.consumers[index % len(self.plan.consumers)]

    def join(
        self, subscription: str, client: Client, queue: int, *, topic: str = TOPIC, start: Start = "earliest"
    ) -> PlannedConsumer:
        """A consumer subscribes."""
        kind = self.plan.kinds[subscription]
        consumer = PlannedConsumer(self.plan.fresh_name(), topic, subscription, client)
        here = [one for one in self.plan.consumers if (one.topic, one.subscription) == (topic, subscription)]
        is_taken = kind == "Exclusive" and bool(here)
        self.do(
            Subscribe(
                consumer=consumer.name,
                topic=topic,
                subscription=subscription,
                kind=kind,
                client=client,
                start=start,
                queue=queue,
                proxied=self.is_proxied and client == "wire",
            )
        )
        if not is_taken:
            self.plan.consumers.append(consumer)
        return consumer

    def send_entries(self, sizes: list[int], topic: str = TOPIC) -> None:
        """New messages."""
        entries = self.plan.entries(sizes)
        self.do(Send(session=f"p-{topic}", entries=entries, age_s=self.plan.age_s))

    def send_unanswered(self, count: int, topic: str = TOPIC) -> None:
        """New messages, whose answers nobody awaits."""
        self.do(Send(session=f"p-{topic}", entries=self.plan.entries([1] * count), wait=False))

    def produce_again(self, topic: str = TOPIC) -> None:
        """Open the producer, or reopen it after its connection was closed."""
        self.do(OpenProducer(session=f"p-{topic}", topic=topic, producer=f"{self.plan.mark}p"))

    def contend_for_topic(self, steps: Iterable[Contending], topic: str = TOPIC) -> None:
        """Producers contend for a topic, and leave it to the machine's own."""
        contenders = self.contenders(topic)
        if contenders.begin(steps, lambda: self.plan.entries([1])):
            self.plan.drop_wire()
        contenders.end()

    def contenders(self, topic: str) -> Contenders:
        """The producers that contend for a topic, the machine's own among them."""
        return Contenders(self.do, topic, f"p-{topic}", f"{self.plan.mark}p")

    def producers_closed(self) -> None:
        """Reopen the machine's own producers."""
        for topic in self.topics:
            self.produce_again(topic)

    def disconnected(self) -> None:
        """Its consumers of the wire client are disconnected as well."""
        self.plan.drop_wire()
        self.producers_closed()

    def read(self, subscription: str) -> None:
        """Read a subscription's state on all topics."""
        for topic in self.topics:
            self.do(ReadCursor(topic=topic, subscription=subscription))
