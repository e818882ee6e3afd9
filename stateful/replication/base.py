"""What machines of several clusters share: producers and consumers at each, and how a topic is replicated."""

from __future__ import annotations

from hypothesis import strategies as st

from model.operations import CloseProducer, CreateTopic, OpenProducer, Send
from model.subscription_operations import CloseConsumer, Subscribe
from model.vocabulary import Entry, Message
from stateful.lockstep_machine import LockstepMachine, Performing

TOPIC = "t0"
CLUSTERS = "ABC"
SUBSCRIPTIONS = st.sampled_from(["s0", "s0", "s0", "s1"])
PLACES = st.integers(0, len(CLUSTERS) - 1)
COUNTS = st.sampled_from([1, 1, 2, 3, 6])


class OnClusters(LockstepMachine):
    """A topic in several clusters; it has no rules."""

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.clusters = CLUSTERS
        self.published: list[str] = []
        self.sessions: dict[str, str] = {}
        self.opened = 0
        self.consumers: dict[tuple[str, str], str] = {}
        self.subscribed = 0
        self.caught_up = 0
        self.are_subscriptions_replicated = True
        self.links: tuple[tuple[str, str], ...] | None = None
        """The only directions of replication, if not all."""
        self.is_by_topic = False
        """Whether the policy of the topic replicates it."""

    def create(self, clusters: int, *, deduplication: bool, is_replicated: bool = True) -> None:
        """The topic of this example."""
        self.clusters = CLUSTERS[:clusters]
        self.do(
            CreateTopic(
                TOPIC,
                deduplication="namespace-on" if deduplication else "namespace-off",
                clusters=clusters,
                is_replicated=is_replicated,
                links=self.links or (),
                replicated_by="topic" if self.is_by_topic else "namespace",
            )
        )

    def at(self, place: int) -> str:
        """One of the clusters that have the topic."""
        return self.clusters[place % len(self.clusters)]

    def publish_at(
        self, cluster: str, count: int, *, size_bytes: int = 0, only_to: tuple[str, ...] | None = None
    ) -> None:
        """The next messages, at a cluster."""
        first = len(self.published)
        messages = tuple(f"{cluster.lower()}{number}" for number in range(first, first + count))
        self.published += messages
        session = self.sessions.get(cluster) or self.open_producer(cluster)
        numbered = enumerate(messages, start=first)
        made = (Message(number, name, size_bytes=size_bytes, only_to=only_to) for number, name in numbered)
        entries = tuple(Entry((message,)) for message in made)
        self.do(Send(session, entries))

    def open_producer(self, cluster: str) -> str:
        """A producer at a cluster: always one of the same name, for which the sequence ids of the example rise."""
        self.opened += 1
        session = self.sessions[cluster] = f"p{self.opened}"
        self.do(OpenProducer(session, TOPIC, f"producer-{cluster}", cluster=cluster))
        return session

    def subscribe(self, cluster: str, subscription: str, *, is_replicated: bool = True) -> str:
        """A consumer connects at a cluster."""
        name = f"k{self.subscribed}"
        self.subscribed += 1
        self.consumers[subscription, cluster] = name
        is_replicated = is_replicated and self.are_subscriptions_replicated
        self.do(Subscribe(name, TOPIC, subscription, kind="Exclusive", cluster=cluster, is_replicated=is_replicated))
        return name

    def consumer(self, subscription: str, place: int) -> str:
        """The consumer of a subscription at a cluster; a new one where there is none."""
        cluster = self.at(place)
        return self.consumers.get((subscription, cluster)) or self.subscribe(cluster, subscription)

    def leave(self, subscription: str, place: int) -> None:
        """The consumer of a subscription at a cluster leaves, if there is one."""
        name = self.consumers.pop((subscription, self.at(place)), None)
        if name is not None:
            self.do(CloseConsumer(name))

    def leave_all(self) -> None:
        """All producers and consumers leave."""
        for session in self.sessions.values():
            self.do(CloseProducer(session))
        for consumer in self.consumers.values():
            self.do(CloseConsumer(consumer))
        self.sessions, self.consumers = {}, {}

    def gone(self, cluster: str) -> None:
        """The clients at a cluster were disconnected."""
        self.sessions.pop(cluster, None)
        self.consumers = {at: name for at, name in self.consumers.items() if at[1] != cluster}
