"""The machines of document 001: messages and subscriptions at several clusters, whose links break and heal.

A machine knows what it published, and never what came where: who acknowledges a message that it was not given does
nothing.
"""

from __future__ import annotations

from itertools import permutations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from conformance.engine.example import RunningExample
from model.replication.words import (
    AcknowledgeAt,
    AwaitTimedOut,
    CatchUp,
    CreateReplicatedTopic,
    CutLink,
    HealLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    PublishAt,
    ReadClusters,
    ReceiveAt,
    RestartCluster,
    UnloadAt,
)
from stateful.lockstep_machine import LockstepMachine

TOPIC = "t0"
CLUSTERS = "ABC"
SUBSCRIPTIONS = st.sampled_from(["s0", "s0", "s0", "s1"])
PLACES = st.integers(0, len(CLUSTERS) - 1)
COUNTS = st.sampled_from([1, 1, 2, 3, 6])
LAST = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True).map(tuple)
"""Which of the messages that were published last: 0 is the last one."""


class ClustersMachine(LockstepMachine):
    """Publish, consume and acknowledge at any cluster, fail over, break links, move topics."""

    def __init__(self, example: RunningExample) -> None:
        super().__init__(example)
        self.clusters = CLUSTERS
        self.published: list[str] = []
        self.consumers: dict[tuple[str, str], str] = {}
        self.joined = 0

    @initialize(
        clusters=st.sampled_from([2, 2, 3]),
        deduplication=st.sampled_from([False, False, True]),
        is_replicated=st.sampled_from([True] * 9 + [False]),
        first=COUNTS,
    )
    def begin(self, clusters: int, deduplication: bool, is_replicated: bool, first: int) -> None:
        """A topic in two or three clusters, and a consumer of it at the first one."""
        self.clusters = CLUSTERS[:clusters]
        self.do(
            CreateReplicatedTopic(
                topic=TOPIC, clusters=clusters, is_replicated=is_replicated, deduplication=deduplication
            )
        )
        self.join("A", "s0")
        self.publish_at("A", first)

    @rule(place=PLACES, count=COUNTS)
    def publish(self, place: int, count: int) -> None:
        """Messages are published at a cluster."""
        self.publish_at(self.at(place), count)

    @rule(subscription=SUBSCRIPTIONS, place=PLACES, count=COUNTS)
    def receive(self, subscription: str, place: int, count: int) -> None:
        """A consumer takes some messages, and keeps them."""
        self.do(ReceiveAt(self.consumer(subscription, place), count))

    @rule(subscription=SUBSCRIPTIONS, place=PLACES, last=LAST, is_cumulative=st.sampled_from([False, False, True]))
    def acknowledge(self, subscription: str, place: int, last: tuple[int, ...], is_cumulative: bool) -> None:
        """A consumer takes all that there is, and acknowledges some of it: with holes, or up to one."""
        consumer = self.consumer(subscription, place)
        self.do(ReceiveAt(consumer, 100))
        picked = last[:1] if is_cumulative else last
        messages = tuple(self.published[-1 - nth] for nth in picked if nth < len(self.published))
        if messages:
            self.do(AcknowledgeAt(consumer, messages, is_cumulative=is_cumulative))

    @rule(subscription=SUBSCRIPTIONS, place=PLACES)
    def acknowledge_all(self, subscription: str, place: int) -> None:
        """A consumer takes all that there is, and acknowledges all that it has."""
        consumer = self.consumer(subscription, place)
        self.do(ReceiveAt(consumer, 100))
        self.do(AcknowledgeAt(consumer, tuple(self.published)))

    @rule(subscription=SUBSCRIPTIONS, here=PLACES, there=PLACES)
    def fail_over(self, subscription: str, here: int, there: int) -> None:
        """A consumer leaves one cluster, and goes on at another: it is given what is left there."""
        left = self.consumers.pop((subscription, self.at(here)), None)
        if left is not None:
            self.do(LeaveAt(left))
        self.do(ReadClusters(TOPIC))
        self.do(ReceiveAt(self.consumer(subscription, there), 100))

    @rule(place=PLACES)
    def consume_what_is_not_replicated(self, place: int) -> None:
        """A subscription that no other cluster is to have."""
        if ("own", self.at(place)) not in self.consumers:
            self.join(self.at(place), "own", is_replicated=False)
        self.do(ReceiveAt(self.consumers["own", self.at(place)], 100))

    @rule(here=PLACES, there=PLACES)
    def cut(self, here: int, there: int) -> None:
        """A link is cut, in one direction."""
        if self.at(here) != self.at(there):
            self.do(CutLink(self.at(here), self.at(there)))

    @rule(here=PLACES, there=PLACES)
    def heal(self, here: int, there: int) -> None:
        """A link heals, if it was cut."""
        if self.at(here) != self.at(there):
            self.do(HealLink(self.at(here), self.at(there)))

    @rule(here=PLACES, there=PLACES, count=COUNTS)
    def outlast(self, here: int, there: int, count: int) -> None:
        """A cluster's answers do not come until the one that asked has given up; then they come."""
        if self.at(here) != self.at(there):
            self.do(CutLink(self.at(there), self.at(here)))
            self.publish_at(self.at(here), count)
            self.do(AwaitTimedOut(self.at(here)))
            self.do(HealLink(self.at(there), self.at(here)))

    @rule(place=PLACES, count=COUNTS)
    def fall_behind(self, place: int, count: int) -> None:
        """A consumer is given all that there is, time after time, and acknowledges only some of the first of it."""
        consumer = self.consumer("s0", place)
        first = len(self.published)
        for _ in range(6):
            self.publish_at(self.at(place), 1)
            self.do(ReceiveAt(consumer, 100))
        self.do(AcknowledgeAt(consumer, tuple(self.published[first : first + count]), is_cumulative=True))

    @rule(place=PLACES)
    def unload(self, place: int) -> None:
        """The topic moves within a cluster."""
        self.do(UnloadAt(self.at(place), TOPIC))
        self.gone(self.at(place))

    @rule()
    def read(self) -> None:
        """Everything is read back."""
        self.do(ReadClusters(TOPIC))

    @rule(place=PLACES)
    def catch_up(self, place: int) -> None:
        """All links heal, and the other clusters catch up with one."""
        for link in permutations(self.clusters, 2):
            self.do(HealLink(*link))
        self.do(CatchUp(self.consumer("s0", place), prefix=f"c{len(self.published)}-"))
        self.do(ReadClusters(TOPIC))

    def at(self, place: int) -> str:
        """One of the clusters that have the topic."""
        return self.clusters[place % len(self.clusters)]

    def publish_at(self, cluster: str, count: int) -> None:
        """The next messages, at a cluster."""
        first = len(self.published)
        messages = tuple(f"{cluster.lower()}{number}" for number in range(first, first + count))
        self.published += messages
        self.do(PublishAt(cluster, TOPIC, messages))

    def join(self, cluster: str, subscription: str, *, is_replicated: bool = True) -> str:
        """A consumer connects at a cluster."""
        name = f"k{self.joined}"
        self.joined += 1
        self.consumers[subscription, cluster] = name
        self.do(
            JoinAt(consumer=name, cluster=cluster, topic=TOPIC, subscription=subscription, is_replicated=is_replicated)
        )
        return name

    def consumer(self, subscription: str, place: int) -> str:
        """The consumer of a subscription at a cluster; a new one where there is none."""
        cluster = self.at(place)
        return self.consumers.get((subscription, cluster)) or self.join(cluster, subscription)

    def gone(self, cluster: str) -> None:
        """The consumers at a cluster were disconnected."""
        self.consumers = {at: name for at, name in self.consumers.items() if at[1] != cluster}


class ClustersKillsMachine(ClustersMachine):
    """Besides, clusters go away and come back."""

    @rule(place=PLACES, is_kill=st.booleans())
    def bounce(self, place: int, is_kill: bool) -> None:
        """A cluster's broker is killed, or stopped, and started again."""
        cluster = self.at(place)
        self.do(KillCluster(cluster) if is_kill else RestartCluster(cluster))
        self.gone(cluster)
