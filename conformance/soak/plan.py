"""What a soak consists of: topics, subscriptions, clients, faults, all derived from one seed.

Topics are of five kinds in turn, so that each soak has every type of subscription. The timing between clients is not
planned, and differs from run to run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Final, Literal

from msgspec import Struct

from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Kind
from conformance.history.about import About
from conformance.workers.client_plan import ClientPlan, ConsumerRole, FaultOfLinks, ProducerRole, TopicKind

FaultOfBroker = Literal["kill", "restart", "pause", "unload"]
FaultBetween = Literal["cut-link", "hold-link", "failover"]
"""Faults of several clusters: a link in one direction is cut or holds messages; a subscription's consumers move to
another cluster."""
FaultName = Literal[FaultOfBroker, FaultOfLinks, FaultBetween]


_SUBSCRIPTIONS: Final[dict[TopicKind, tuple[tuple[Kind, int], ...]]] = {
    TopicKind.BATCHES: (("Exclusive", 1), ("Shared", 3)),
    TopicKind.ORDERED: (("Failover", 2), ("Key_Shared", 3)),
    TopicKind.KEYED: (("Key_Shared", 3), ("Shared", 2)),
    TopicKind.CHUNKS: (("Exclusive", 1), ("Failover", 2)),
    TopicKind.PIECES: (("Exclusive", 1), ("Failover", 2)),
}
"""The types of the subscriptions of a topic, and how many consumers each has."""

LATER: Final = 2
"""How many replicated subscriptions of a topic are created late, where there are several clusters."""
LATER_TYPE: Final[Kind] = "Exclusive"

PRODUCERS: Final = 2
"""How many producers a topic has."""


class TopicPlan(Struct, frozen=True, kw_only=True):
    """A topic with its subscriptions (name and type).

    ``clusters`` have it; where there are several, its first subscription is replicated among them, and its consumers
    are at ``home`` when all begins. Each cluster has the others for itself.
    """

    name: str
    kind: TopicKind
    subscriptions: tuple[tuple[str, Kind], ...]
    clusters: tuple[str, ...] = ("",)
    home: str = ""

    @property
    def replicated(self) -> str | None:
        """The subscription that is replicated."""
        return self.subscriptions[0][0] if len(self.clusters) > 1 else None

    def clusters_of(self, subscription: str) -> tuple[str, ...]:
        """Where a subscription is made, and has its consumers."""
        return (self.home,) if subscription == self.replicated else self.clusters

    @property
    def is_deduplicated(self) -> bool:
        """Whether deduplication is on."""
        return self.kind.is_deduplicated


class Later(Struct, frozen=True, kw_only=True):
    """A replicated subscription that is made while messages flow: so many seconds after the load began, and where.

    Its one consumer stays in that cluster.
    """

    at_s: float
    topic: str
    cluster: str
    name: str


_OFTEN: Final[dict[FaultName, int]] = {
    "kill": 2,
    "restart": 1,
    "pause": 2,
    "unload": 5,
    "cut": 4,
    "hold": 2,
    "refuse": 2,
    "cut-link": 3,
    "hold-link": 2,
    "failover": 6,
}
"""How often each fault comes, relative to the others."""


class ScheduledFault(Struct, frozen=True, kw_only=True):
    """A fault: when it begins, in seconds since the load began, and how long it lasts where it has a length.

    ``choice`` picks the topic or the client that it is for.
    """

    at_s: float
    name: FaultName
    lasts_s: float
    choice: int


def topics(namespace_of: dict[bool, str], count: int, clusters: tuple[str, ...] = ("",)) -> tuple[TopicPlan, ...]:
    """Plan so many topics, in the namespace with and the one without deduplication.

    None with chunks where there are several clusters: replicators leave out whatever is nearly too large for an entry,
    because what they add to it makes it too large, and chunks are (``docs/soak.md``).
    """
    return tuple(_topic(namespace_of, number, clusters) for number in range(count))


def _topic(namespace_of: dict[bool, str], number: int, clusters: tuple[str, ...]) -> TopicPlan:
    kinds = [kind for kind in TopicKind if len(clusters) == 1 or not kind.is_chunked]
    kind = kinds[number % len(kinds)]
    namespace = namespace_of[kind.is_deduplicated]
    return TopicPlan(
        name=f"persistent://{namespace}/{kind}-{number}",
        kind=kind,
        subscriptions=tuple((type_.lower(), type_) for type_, _ in _SUBSCRIPTIONS[kind]),
        clusters=clusters,
        home=clusters[number % len(clusters)],
    )


def later(planned: tuple[TopicPlan, ...], *, seed: int, length_s: float) -> tuple[Later, ...]:
    """The subscriptions that are made while messages flow, in the order of their times: none at the very ends."""
    chance = random.Random(f"{seed}/later")
    made = [
        Later(
            at_s=round(chance.uniform(0.2, 0.8) * length_s, 1),
            topic=topic.name,
            cluster=chance.choice(topic.clusters),
            name=f"later-{number}",
        )
        for topic in planned
        if topic.replicated is not None
        for number in range(LATER)
    ]
    return tuple(sorted(made, key=lambda one: one.at_s))


def clients(
    planned: tuple[TopicPlan, ...],
    made_later: tuple[Later, ...],
    count: int,
    *,
    run: str,
    history: str,
    about: About,
    services: dict[str, Service],
    rate: float,
    seed: int,
) -> tuple[ClientPlan, ...]:
    """Spread all producers and consumers over so many clients; ``rate``: messages sent by all together, a second."""
    chance = random.Random(f"{seed}/clients")
    each = rate / (PRODUCERS * sum(len(topic.clusters) for topic in planned))
    largest_bytes = int(about.settings.get("maxMessageSize", 0))
    produces = [one for topic in planned for one in _producers(topic, each, largest_bytes, chance)]
    consumes = [one for topic in planned for one in _consumers(topic, chance)]
    consumes += [_consumer_of(one, chance) for one in made_later]
    return tuple(
        ClientPlan(
            run=run,
            lane=f"client-{number}",
            history=history,
            about=about,
            services=services,
            produces=tuple(produces[number::count]),
            consumes=tuple(consumes[number::count]),
        )
        for number in range(count)
    )


def _producers(
    topic: TopicPlan, messages_per_s: float, largest_bytes: int, chance: random.Random
) -> Iterator[ProducerRole]:
    may_be_large = topic.replicated is not None and topic.kind.has_keys  # of a batch all count together
    for cluster, number in product(topic.clusters, range(PRODUCERS)):
        yield ProducerRole(
            cluster=cluster,
            topic=topic.name,
            name=_named(_local(topic), cluster, f"p{number}"),
            topic_kind=topic.kind,
            messages_per_s=messages_per_s,
            largest_bytes=largest_bytes if may_be_large else 0,
            seed=chance.getrandbits(32),
        )


def _consumers(topic: TopicPlan, chance: random.Random) -> Iterator[ConsumerRole]:
    is_chunked = topic.kind.is_chunked  # what pulsar-client does with those that are given back is known
    for type_, count in _SUBSCRIPTIONS[topic.kind]:
        for cluster, number in product(topic.clusters_of(type_.lower()), range(count)):
            yield ConsumerRole(
                cluster=cluster,
                is_replicated=type_.lower() == topic.replicated,
                is_later=False,
                topic=topic.name,
                subscription=type_.lower(),
                kind=type_,
                name=_named(_local(topic), type_.lower(), cluster, f"c{number}"),
                comes_and_goes=not is_chunked,
                fails_sometimes=not is_chunked and type_ in ("Shared", "Key_Shared"),
                is_confirmed=topic.kind.has_keys and number == 0,
                seed=chance.getrandbits(32),
            )


def _consumer_of(made_later: Later, chance: random.Random) -> ConsumerRole:
    return ConsumerRole(
        cluster=made_later.cluster,
        is_replicated=True,
        is_later=True,
        topic=made_later.topic,
        subscription=made_later.name,
        kind=LATER_TYPE,
        name=f"{made_later.name}-c0",
        comes_and_goes=True,
        fails_sometimes=False,
        is_confirmed=False,
        seed=chance.getrandbits(32),
    )


def _named(*parts: str) -> str:
    return "-".join(part for part in parts if part)


def _local(topic: TopicPlan) -> str:
    return topic.name.rpartition("/")[2]


def faults(seed: int, *, every_s: float, possible: frozenset[FaultName]) -> Iterator[ScheduledFault]:
    """The faults of a soak, one after the other without end, ``every_s`` apart in the mean; none where none can be."""
    chance = random.Random(f"{seed}/faults")
    names = sorted(possible)
    weights = [_OFTEN[name] for name in names]
    at_s = 0.0
    while names:
        at_s += chance.uniform(0.5, 1.5) * every_s
        (name,) = chance.choices(names, weights)
        yield ScheduledFault(
            at_s=at_s, name=name, lasts_s=round(chance.uniform(0.5, 5.0), 1), choice=chance.getrandbits(16)
        )
