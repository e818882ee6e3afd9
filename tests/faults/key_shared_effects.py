"""The effect of each seeded defect of Key_Shared (document 004); see ``effects``.

The names of the consumers decide which hashes each of them gets: ``a`` is there first and has all of them, then ``b``
joins and takes some over. Messages are numbered from 1 in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, starmap

import pytest
from packaging.version import Version

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.types import ConsumerStats
from conformance.clients.outcomes import ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import KeyShared, PartOfBatch, WireConsumer
from conformance.faults.failpoints import Fault, armed
from model.key_shared.hashing import STICKY_HASHES, sticky_hash
from model.log import Position
from model.vocabulary import HashRange
from tests.faults.cursor_effects import all_received, position_of
from tests.faults.effect_fixtures import Bench
from tests.faults.effects import Effect, Observation
from tests.polling import TIMEOUT_S, eventually

FIRST = Version("4.0")
"""The first release with draining hashes."""
PERMITS = 100
ROUNDS = 5
"""How often a race is tried before it counts as absent."""


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

    def __init__(self, bench: Bench, *, name: str = "") -> None:
        if Version(bench.broker.version) < FIRST:
            pytest.skip(f"{bench.broker.name} is from before document 004")
        self.bench = bench
        self.topic = bench.topic + name
        self._producer = bench.producer(topic=self.topic)
        self._positions: list[Position] = []

    def send(self, *keys: str) -> None:
        """Send a message of each key, one after the other."""
        for key in keys:
            ticket = self._producer.send(len(self._positions) + 1, b"", partition_key=key)
            self._positions.append(position_of(self.bench.answer(self._producer, ticket)))

    def send_batch(self, key: str, size: int) -> Position:
        """Send a batch of messages of one key, each with its own number; return its position."""
        first = len(self._positions) + 1
        batch = [(number, b"") for number in range(first, first + size)]
        ticket = self._producer.send_batch(batch, metadata=pb.MessageMetadata(partition_key=key))
        position = position_of(self.bench.answer(self._producer, ticket))
        self._positions += [position] * size
        return position

    def join(self, name: str, *, permits: int = PERMITS, client: WireClient | None = None) -> WireConsumer:
        """A consumer joins, from the beginning of the topic; with ``client``, one of another client."""
        consumer = self._subscribe(name, "s", client or self.bench.client)
        consumer.flow(permits)
        return consumer

    def ack(self, consumer: WireConsumer, *numbers: int) -> None:
        """Acknowledge messages by their numbers."""
        consumer.ack([self._positions[number - 1] for number in numbers])

    def fail(self, consumer: WireConsumer, *numbers: int) -> None:
        """Nack messages by their numbers."""
        consumer.redeliver([self._positions[number - 1] for number in numbers])

    def stats(self) -> ConsumerStats:
        """The broker's stats of ``a``."""
        consumers = self.bench.admin.stats(self.topic).subscriptions["s"].consumers
        return next(consumer for consumer in consumers if consumer.consumer_name == "a")

    def draining(self) -> int:
        """How many hashes ``a`` is draining, in the broker's stats."""
        return self.stats().draining_hashes_count

    def has_replay_queue(self) -> bool:
        """Whether a message is in the replay queue while the broker waits for a new one."""
        cursor = self.bench.admin.internal_stats(self.topic).cursors["s"]
        return cursor.waiting_read_op and self.bench.admin.stats(self.topic).subscriptions["s"].in_replay > 0

    def keys(self, owner: str, number: int) -> list[str]:
        """The first keys that belong to this consumer once ``a`` and ``b`` are connected."""
        ranges = self.ranges()[owner]
        return list(islice((key for key in numbered_keys() if hash_of(key) in ranges), number))

    def ranges(self) -> dict[str, Hashes]:
        """Which hashes each consumer has once ``a`` and ``b`` are connected, as another subscription shows."""
        probes = [self._subscribe(name, "probe", self.bench.client) for name in ("a", "b")]
        consumers = self.bench.admin.stats(self.topic).subscriptions["probe"].consumers
        for probe in probes:
            probe.close(timeout_s=TIMEOUT_S)
        return {each.consumer_name: Hashes(tuple(starmap(HashRange, each.key_hash_ranges or ()))) for each in consumers}

    def claim(self, name: str, first: int, last: int) -> WireConsumer:
        """A consumer joins that claims these hashes."""
        consumer = self._subscribe(name, "s", self.bench.client, KeyShared(sticky_ranges=((first, last),)))
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


def joining_while_pending(bench: Bench) -> Observation:
    """``b`` takes over a key with a message pending at ``a``; send one more: what b receives; what is draining."""
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(key)
    assert all_received(first, at_least=1) == [1]
    second = keyed.join("b")
    keyed.send(key)
    return all_received(second), keyed.draining()


def acknowledging_one_after_the_other(bench: Bench) -> Observation:
    """The same with two pending messages: what ``b`` gets when one and when both are acknowledged; what is draining.

    A message of another key stays unacknowledged, so that mark-delete does not advance: that triggers a read, too.
    """
    keyed = Keyed(bench)
    [stays], [key] = keyed.keys("a", 1), keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(stays, key, key)
    assert all_received(first, at_least=3) == [1, 2, 3]
    second = keyed.join("b")
    keyed.send(key)
    given = []
    for number in (2, 3):
        keyed.ack(first, number)
        given.append(all_received(second))
    return *given, keyed.draining()


def nacking_one(bench: Bench) -> Observation:
    """``b`` takes over a key with two messages pending at ``a``, and ``a`` nacks the second.

    What ``b`` receives, what is draining, and what ``b`` receives when the first is acknowledged.
    """
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(key, key)
    assert all_received(first, at_least=2) == [1, 2]
    second = keyed.join("b")
    keyed.fail(first, 2)
    early, draining = all_received(second), keyed.draining()
    keyed.ack(first, 1)
    return early, draining, all_received(second)


def leaving(bench: Bench) -> Observation:
    """``b`` takes over a key with three messages pending at ``a``, and ``a`` leaves: what ``b`` receives."""
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(key, key, key)
    assert all_received(first, at_least=3) == [1, 2, 3]
    second = keyed.join("b")
    first.close(timeout_s=TIMEOUT_S)
    return all_received(second)


def leaving_while_a_read_is_slow(bench: Bench) -> Observation:
    """``a`` leaves with a pending message of a key while the next one of that key is being read: what ``b`` receives.

    A correct 4.0.8 puts both into the replay queue, and replays them when something else triggers a read, such as
    permits.
    """
    keyed = Keyed(bench)
    [key] = keyed.keys("a", 1)
    first, second = keyed.join("a"), keyed.join("b")
    keyed.send(key)
    assert all_received(first, at_least=1) == [1]

    def has_received_both() -> bool:
        second.flow(1)
        return len(second.pending()) == 2

    with armed(bench.agent, Fault("read-slow", topic=keyed.topic, delay_ms=500)) as fault:
        keyed.send(key)
        eventually(lambda: fault.fired() == 1)
        first.close(timeout_s=TIMEOUT_S)
        eventually(has_received_both)
    return all_received(second)


def sending_to_the_remaining_consumer(bench: Bench) -> Observation:
    """``a`` leaves; send a message of one of its keys: what ``b`` receives."""
    keyed = Keyed(bench)
    [key] = keyed.keys("a", 1)
    first, second = keyed.join("a"), keyed.join("b")
    first.close(timeout_s=TIMEOUT_S)
    keyed.send(key)
    return all_received(second)


def joining_while_sending(bench: Bench) -> Observation:
    """``b`` joins right after a message, several times: whether a key was ever pending at both consumers."""

    def is_with_both(keyed: Keyed) -> bool:
        [key] = keyed.keys("b", 1)
        first = keyed.join("a")
        keyed.send(key)
        second = keyed.join("b")
        keyed.send(key)
        return bool(all_received(second) and all_received(first))

    return any(is_with_both(Keyed(bench, name=f"-{number}")) for number in range(ROUNDS))


def joining_at_a_boundary(bench: Bench) -> Observation:
    """``a`` keeps a key at the end of one of its ranges when ``b`` joins; send one more: what each receives."""
    keyed = Keyed(bench)
    ranges = keyed.ranges()
    ends = {own.last for own in ranges["a"].ranges} & {own.first - 1 for own in ranges["b"].ranges}
    key = next(key for key in numbered_keys() if hash_of(key) in ends)
    first = keyed.join("a")
    keyed.send(key)
    early = all_received(first, at_least=1)
    second = keyed.join("b")
    keyed.send(key)
    return early + all_received(first), all_received(second)


def sending_one_key(bench: Bench) -> Observation:
    """Send four messages of one key of ``a``: what each receives. The defect needs this hash."""
    keyed = Keyed(bench)
    ranges = keyed.ranges()

    def is_fit(hashed: int) -> bool:
        opposite = (hashed + 32767) % 65535 + 1
        return hashed % 4 == 0 and hashed in ranges["a"] and opposite in ranges["b"]

    key = next(key for key in numbered_keys() if is_fit(hash_of(key)))
    first, second = keyed.join("a"), keyed.join("b")
    keyed.send(key, key, key, key)
    return [len(all_received(consumer)) for consumer in (first, second)]


def joining_a_stuck_consumer(bench: Bench) -> Observation:
    """``b`` joins ``a``, which has a pending message of a key of b's and no permits; send one of another key of ``b``.

    What ``b`` receives, and what it receives when ``a`` has permits again.
    """
    keyed = Keyed(bench)
    pending, other = keyed.keys("b", 2)
    first = keyed.join("a", permits=1)
    keyed.send(pending)
    assert all_received(first, at_least=1) == [1]
    second = keyed.join("b")
    keyed.send(other)
    early = all_received(second)
    first.flow(PERMITS)
    return early, all_received(second)


def permitting_a_replayed_message(bench: Bench) -> Observation:
    """``a`` permits a message once it is in the replay queue and the broker waits for a new one: what ``a`` gets."""
    keyed = Keyed(bench)
    [own] = keyed.keys("a", 1)
    first = keyed.join("a", permits=1)
    keyed.send(own)
    assert all_received(first, at_least=1) == [1]
    keyed.join("b")
    keyed.send(own)
    eventually(keyed.has_replay_queue)
    first.flow(PERMITS)
    return all_received(first)


def going_back(bench: Bench) -> Observation:
    """``b`` joins and leaves while ``a`` has a message of its key pending; send one more: what a gets; what drains.

    An ack ends it, and all releases count that in one place.
    """
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(key)
    assert all_received(first, at_least=1) == [1]
    keyed.join("b").close(timeout_s=TIMEOUT_S)
    keyed.send(key)
    given, draining = all_received(first), keyed.draining()
    keyed.ack(first, 1)
    return given, draining


def joining_a_backlog(bench: Bench) -> Observation:
    """Send three messages of one key, and a consumer joins: what it receives."""
    keyed = Keyed(bench)
    keyed.send("k", "k", "k")
    return all_received(keyed.join("a"), at_least=3)


def sending_many_keys(bench: Bench) -> Observation:
    """Send messages of twenty keys: whether each goes to the consumer that has its hash, according to the stats."""
    keyed = Keyed(bench)
    ranges, keys = keyed.ranges(), list(islice(numbered_keys(), 20))
    consumers = {name: keyed.join(name) for name in ("a", "b")}
    keyed.send(*keys)
    given = {name: {keys[number - 1] for number in all_received(consumer)} for name, consumer in consumers.items()}
    return given == {name: {key for key in keys if hash_of(key) in ranges[name]} for name in consumers}


def waiting_for_a_blocked_message(bench: Bench) -> Observation:
    """Acknowledge the message that blocks a key of ``b``: what b receives within half a second, and what later.

    A message of another key stays unacknowledged, so that mark-delete does not advance.
    """
    keyed = Keyed(bench)
    [stays], [key] = keyed.keys("a", 1), keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(stays, key)
    assert all_received(first, at_least=2) == [1, 2]
    second = keyed.join("b")
    keyed.send(key)
    assert all_received(second) == []
    keyed.ack(first, 2)
    early = all_received(second)
    return early, early or all_received(second, at_least=1)


def requesting_redelivery_of_all(bench: Bench) -> Observation:
    """``b`` takes over a key with two messages pending at ``a``, and ``a`` requests redelivery of both: what b gets."""
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    keyed.send(key, key)
    assert all_received(first, at_least=2) == [1, 2]
    second = keyed.join("b")
    first.redeliver()
    return all_received(second)


def acknowledging_part_of_a_batch(bench: Bench) -> Observation:
    """``b`` takes over a key with a batch pending at ``a``, which acknowledges one of its messages; send one more.

    What ``b`` receives; what is draining.
    """
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    first = keyed.join("a")
    batch = keyed.send_batch(key, 2)
    assert len(all_received(first, at_least=2)) == 2
    second = keyed.join("b")
    first.ack([PartOfBatch(position=batch, batch_size=2, still_unacknowledged=frozenset({1}))])
    keyed.send(key)
    return all_received(second), keyed.draining()


def looking_at_stats(bench: Bench) -> Observation:
    """``a`` drains a hash of two messages and one of one; acknowledge those two: its stats before and after.

    The number of draining hashes, their messages, hashes cleared, and the messages of each hash in the list.
    """
    keyed = Keyed(bench)
    twice, once = keyed.keys("b", 2)
    first = keyed.join("a")
    keyed.send(twice, twice, once)
    assert all_received(first, at_least=3) == [1, 2, 3]
    keyed.join("b")
    before = draining_stats(keyed.stats())
    keyed.ack(first, 1, 2)
    return before, draining_stats(keyed.stats())


def draining_stats(stats: ConsumerStats) -> tuple[int, int, int, list[int]]:
    """A consumer's draining hashes, according to its stats."""
    return (
        stats.draining_hashes_count,
        stats.draining_hashes_unacked_messages,
        stats.draining_hashes_cleared_total,
        sorted(each.unacked_messages for each in stats.draining_hashes or ()),
    )


def joining_the_classic_implementation(bench: Bench, *, acknowledges: bool = False) -> Observation:
    """``b`` joins while messages of many keys are pending at ``a``, and maybe acknowledged then; send as many more:
    whether b receives any."""
    keyed = Keyed(bench)
    keys = list(islice(numbered_keys(), 20))
    first = keyed.join("a")
    keyed.send(*keys)
    assert len(all_received(first, at_least=20)) == 20
    second = keyed.join("b")
    if acknowledges:
        keyed.ack(first, *range(1, 21))
    keyed.send(*keys)
    return bool(all_received(second))


def permitting_in_the_classic_implementation(bench: Bench) -> Observation:
    """Two messages of a key of ``b``, which has one permit; it permits one more: what it receives then."""
    keyed = Keyed(bench)
    [key] = keyed.keys("b", 1)
    keyed.join("a")
    second = keyed.join("b", permits=1)
    keyed.send(key, key)
    assert all_received(second, at_least=1) == [1]
    second.flow(1)
    return all_received(second)


def claiming_ranges(bench: Bench) -> Observation:
    """A key of ``a``, one right before the range of ``b``, and one of b: what each receives; is an overlap refused?"""
    keyed = Keyed(bench)
    low, gap, high = sorted(islice(numbered_keys(), 3), key=lambda key: sticky_hash(key.encode(), STICKY_HASHES))
    first = keyed.claim("a", 0, sticky_hash(low.encode(), STICKY_HASHES))
    second = keyed.claim("b", sticky_hash(gap.encode(), STICKY_HASHES) + 1, STICKY_HASHES.last)
    keyed.send(low, gap, high)
    received = all_received(first, at_least=1), all_received(second, at_least=1)
    try:
        keyed.claim("c", 0, 0)
    except ServerRefused:
        return (*received, True)
    return (*received, False)


SOUND_STATS = ((2, 3, 0, [1, 2]), (1, 1, 1, [1]))

KEY_EFFECTS: dict[str, Effect] = {
    "draining-not-checked": Effect(joining_while_pending, ([], 1), ([2], 1)),
    "join-registers-nothing": Effect(joining_while_pending, ([], 1), ([2], 0)),
    "draining-counts-twice": Effect(acknowledging_one_after_the_other, ([], [4], 0), ([4], [], 0)),
    "drained-hash-never-removed": Effect(acknowledging_one_after_the_other, ([], [4], 0), ([], [], 1)),
    "unblocking-never-notified": Effect(acknowledging_one_after_the_other, ([], [4], 0), ([], [], 0)),
    "draining-not-checked-on-replay": Effect(nacking_one, ([], 1, [2]), ([2], 1, [])),
    "nack-ends-draining": Effect(nacking_one, ([], 1, [2]), ([2], 0, [])),
    "nack-lost-while-draining": Effect(nacking_one, ([], 1, [2]), ([], 1, [])),
    "leave-keeps-draining": Effect(leaving, [1, 2, 3], []),
    "leave-replays-one-per-hash": Effect(leaving, [1, 2, 3], [1]),
    "replay-order-reversed": Effect(leaving, [1, 2, 3], [3, 2, 1]),
    "replay-overtaken": Effect(leaving_while_a_read_is_slow, [1, 2], [2, 1]),
    "left-consumer-still-selected": Effect(sending_to_the_remaining_consumer, [1], []),
    "join-ignored-while-sending": Effect(joining_while_sending, False, True),
    "ranges-overlap-by-one": Effect(joining_at_a_boundary, ([1, 2], []), ([1], [2])),
    "hash-with-two-consumers": Effect(sending_one_key, [4, 0], [2, 2]),
    "whole-range-blocked": Effect(joining_a_stuck_consumer, ([2], []), ([], [])),
    "stuck-consumer-blocks-all": Effect(joining_a_stuck_consumer, ([2], []), ([], [2])),
    "permits-pass-replay": Effect(permitting_a_replayed_message, [2], []),
    "return-keeps-blocking": Effect(going_back, ([2], 0), ([], 1)),
    "returned-hash-stays": Effect(going_back, ([2], 0), ([2], 1)),
    "read-order-reversed": Effect(joining_a_backlog, [1, 2, 3], [3, 2, 1]),
    "hashes-halved": Effect(sending_many_keys, True, False),
    "unblocked-late": Effect(waiting_for_a_blocked_message, ([3], [3]), ([], [3])),
    "redelivery-keeps-pending": Effect(requesting_redelivery_of_all, [1, 2], []),
    "partial-ack-counts-for-all": Effect(acknowledging_part_of_a_batch, ([], 1), ([3], 0)),
    "cleared-total-not-raised": Effect(looking_at_stats, SOUND_STATS, ((2, 3, 0, [1, 2]), (1, 1, 0, [1]))),
    "draining-messages-counted-once": Effect(looking_at_stats, SOUND_STATS, ((2, 2, 0, [1, 1]), (1, 1, 1, [1]))),
    "draining-hashes-not-listed": Effect(looking_at_stats, SOUND_STATS, ((2, 3, 0, []), (1, 1, 1, []))),
    "drained-hashes-still-counted": Effect(looking_at_stats, SOUND_STATS, ((2, 3, 0, [1, 2]), (2, 1, 1, [1]))),
    "unclaimed-hash-assigned": Effect(claiming_ranges, ([1], [3], True), ([1, 2], [3], True)),
    "claim-begins-one-early": Effect(claiming_ranges, ([1], [3], True), ([1], [2, 3], True)),
    "overlapping-claims-accepted": Effect(claiming_ranges, ([1], [3], True), ([1], [3], False)),
    "classic-recently-joined-for-ever": Effect(
        partial(joining_the_classic_implementation, acknowledges=True), True, False
    ),
    "classic-permits-trigger-no-replay": Effect(permitting_in_the_classic_implementation, [2], []),
    "classic-recently-joined-not-blocked": Effect(joining_the_classic_implementation, False, True),
}
"""For each of these defects, by its name, how its effect is observed."""
