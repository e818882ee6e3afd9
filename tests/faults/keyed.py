"""A topic of keyed messages on a real broker, and the consumers of one Key_Shared subscription on it.

The names of the consumers decide which hashes each of them gets: ``a`` is there first and has all of them, then ``b``
joins and takes some over. Messages are numbered from 1 in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice, starmap

import pytest
from packaging.version import Version

from conformance.clients.admin.types import ConsumerStats
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import KeyShared, WireConsumer
from model.key_shared.hashes import sticky_hash
from model.log import Position
from model.vocabulary import HashRange
from tests.faults.topic_fixture import TopicFixture
from tests.waits import TIMEOUT_S

FIRST = Version("4.0")
"""The first release with draining hashes."""
PERMITS = 100


def numbered_keys() -> Iterator[str]:
    """An endless sequence of keys, always the same."""
    return map("k{}".format, count())


def hash_of(key: str) -> int:
    """The hash of a key on a Key_Shared subscription."""
    return sticky_hash(key.encode())


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes of one consumer, in ranges."""

    ranges: tuple[HashRange, ...]

    def __contains__(self, hashed: int) -> bool:
        return any(hashed in each for each in self.ranges)


class Keyed:
    """A topic of keyed messages, and the consumers of one Key_Shared subscription on it."""

    def __init__(self, fixture: TopicFixture, *, name: str = "") -> None:
        if Version(fixture.broker.version) < FIRST:
            pytest.skip(f"{fixture.broker.name} is from before document 004")
        self.fixture = fixture
        self.topic = fixture.topic + name
        self._producer = fixture.producer(topic=self.topic)
        self._positions: list[Position] = []

    def send(self, *keys: str) -> None:
        """Send a message of each key, one after the other."""
        for key in keys:
            ticket = self._producer.send(len(self._positions) + 1, b"", partition_key=key)
            self._positions.append(position_of(self.fixture.answer(self._producer, ticket)))

    def join(self, name: str, *, permits: int = PERMITS, client: WireClient | None = None) -> WireConsumer:
        """A consumer joins, from the beginning of the topic; with ``client``, one of another client."""
        consumer = self._subscribe(name, "s", client or self.fixture.client)
        consumer.flow(permits)
        return consumer

    def ack(self, consumer: WireConsumer, *numbers: int) -> None:
        """Acknowledge messages by their numbers."""
        consumer.ack([self._positions[number - 1] for number in numbers])

    def stats(self) -> ConsumerStats:
        """The broker's stats of ``a``."""
        consumers = self.fixture.admin.stats(self.topic).subscriptions["s"].consumers
        return next(consumer for consumer in consumers if consumer.consumer_name == "a")

    def draining(self) -> int:
        """How many hashes ``a`` is draining, in the broker's stats."""
        return self.stats().draining_hashes_count

    def keys(self, owner: str, number: int) -> list[str]:
        """The first keys that belong to this consumer once ``a`` and ``b`` are connected."""
        ranges = self.ranges()[owner]
        return list(islice((key for key in numbered_keys() if hash_of(key) in ranges), number))

    def ranges(self) -> dict[str, Hashes]:
        """Which hashes each consumer has once ``a`` and ``b`` are connected, as another subscription shows."""
        probes = [self._subscribe(name, "probe", self.fixture.client) for name in ("a", "b")]
        consumers = self.fixture.admin.stats(self.topic).subscriptions["probe"].consumers
        for probe in probes:
            probe.close(timeout_s=TIMEOUT_S)
        return {each.consumer_name: Hashes(tuple(starmap(HashRange, each.key_hash_ranges or ()))) for each in consumers}

    def claim(self, name: str, first: int, last: int) -> WireConsumer:
        """A consumer joins that claims these hashes."""
        consumer = self._subscribe(name, "s", self.fixture.client, KeyShared(sticky_ranges=((first, last),)))
        consumer.flow(PERMITS)
        return consumer

    def _subscribe(
        self, name: str, subscription: str, client: WireClient, key_shared: KeyShared | None = None
    ) -> WireConsumer:
        return client.subscribe(
            self.topic,
            subscription,
            kind="Key_Shared",
            initial="earliest",
            consumer_name=name,
            key_shared=key_shared,
            timeout_s=TIMEOUT_S,
        )


def position_of(outcome: object) -> Position:
    assert isinstance(outcome, Receipt)
    assert outcome.position is not None
    return outcome.position


def _next_number(consumer: WireConsumer) -> int:
    delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    return delivery.sequence_id


def all_received(consumer: WireConsumer, *, at_least: int = 0) -> list[int]:
    """The numbers of the messages that a consumer receives: it waits for ``at_least``, and accepts more."""
    given = [_next_number(consumer) for _ in range(at_least)]
    while (delivery := consumer.receive(timeout_s=0.5)) is not None:
        given.append(delivery.sequence_id)
    return given
