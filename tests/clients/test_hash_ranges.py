"""The model's hashes and ranges of Key_Shared, compared with a real broker's."""

from __future__ import annotations

from itertools import islice

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import KeyShared, WireConsumer
from model.key_shared.hashes import (
    AUTO_SPLIT_HASHES,
    HASHES_OF_3_3,
    NO_KEY,
    STICKY_HASHES,
    key_of_message,
    keys_of,
    keys_that_share_a_hash,
    sticky_hash,
)
from model.key_shared.ranges import Assigned, Assignments, joined_up, owner_of, ranges_of
from model.key_shared.selectors import RangesRefused, Ring, assignments_of, claimed, joined, left
from model.vocabulary import HashRange
from tests.waits import TIMEOUT_S, eventually

Held = list[tuple[str, list[HashRange]]]


@pytest.fixture
def is_before_4(admin: Admin) -> bool:
    """Whether the broker splits all possible hashes."""
    return int(admin.broker_version().partition(".")[0]) < 4


@pytest.fixture
def ring(is_before_4: bool) -> Ring:
    """The ring of this broker, without consumers."""
    return Ring(hashes=HASHES_OF_3_3 if is_before_4 else AUTO_SPLIT_HASHES)


def subscribed(client: WireClient, topic: str, name: str, *claims: tuple[int, int]) -> WireConsumer:
    return client.subscribe(
        topic,
        "s",
        kind="Key_Shared",
        initial="earliest",
        consumer_name=name,
        key_shared=KeyShared(sticky_ranges=claims),
        timeout_s=TIMEOUT_S,
    )


def in_stats(admin: Admin, topic: str) -> Held:
    """Each consumer's name and ranges, according to the broker's stats; 3.3.6 lists adjacent ranges separately."""
    consumers = admin.stats(topic).subscriptions["s"].consumers
    pieces = {(number, one.consumer_name): sorted(one.hash_ranges) for number, one in enumerate(consumers)}
    return sorted(
        (name, [assigned.hashes for assigned in joined_up(Assigned(HashRange(*piece), name) for piece in ranges)])
        for (_, name), ranges in pieces.items()
    )


def in_model(assignments: Assignments, names: dict[str, str]) -> Held:
    """The same, according to the model."""
    return sorted((name, list(ranges_of(assignments, consumer))) for consumer, name in names.items())


def test_joining_and_leaving_consumers_have_the_ranges_of_the_model(
    client: WireClient, admin: Admin, topic: str, ring: Ring
) -> None:
    consumers: dict[str, WireConsumer] = {}
    for consumer, name in (("1", "ada"), ("2", "bob"), ("3", "ada"), ("4", "cyd")):
        consumers[consumer] = subscribed(client, topic, name)
        ring = joined(ring, consumer, name=name)
        assert in_stats(admin, topic) == on(ring)
    for consumer in ("1", "4"):
        consumers[consumer].close(timeout_s=TIMEOUT_S)
        ring = left(ring, consumer)
        assert in_stats(admin, topic) == on(ring)
    subscribed(client, topic, "ada")
    assert in_stats(admin, topic) == on(joined(ring, "5", name="ada"))


def on(ring: Ring) -> Held:
    return in_model(assignments_of(ring), {member.consumer: member.name for member in ring.members})


def test_every_message_goes_to_the_consumer_of_the_model(
    client: WireClient, topic: str, ring: Ring, is_before_4: bool
) -> None:
    names = ("ada", "bob", "cyd")
    consumers = {name: subscribed(client, topic, name) for name in names}
    for name in names:
        ring = joined(ring, name, name=name)
        consumers[name].flow(1000)
    assignments = assignments_of(ring)
    alike = keys_that_share_a_hash(2, within=ring.hashes) if not is_before_4 else ("k1",)
    keys = [*alike, *(f"k{n}" for n in range(60)), None, None, None]
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    expected: dict[str, list[int]] = {name: [] for name in names}
    for n, key in enumerate(keys, start=1):
        producer.answer(producer.send(n, b"x", partition_key=key), timeout_s=TIMEOUT_S)
        of_none = NO_KEY if is_before_4 else key_of_message(producer="p", sequence_id=n)
        owner = owner_of(assignments, sticky_hash(of_none if key is None else key.encode(), ring.hashes))
        assert owner is not None
        expected[owner].append(n)
    eventually(lambda: sum(len(consumer.pending()) for consumer in consumers.values()) == len(keys))
    got = {name: [delivery.sequence_id for delivery in consumer.pending()] for name, consumer in consumers.items()}
    assert got == expected


def test_claimed_ranges_leave_gaps_and_overlaps_are_refused_like_in_the_model(
    client: WireClient, admin: Admin, topic: str
) -> None:
    low, high = HashRange(0, 19999), HashRange(30000, 65535)
    claims = claimed(claimed((), "ada", (low,)), "bob", (high,))
    consumers = {
        name: subscribed(client, topic, name, (one.first, one.last)) for name, one in (("ada", low), ("bob", high))
    }
    assert in_stats(admin, topic) == in_model(claims, {"ada": "ada", "bob": "bob"})
    with pytest.raises(RangesRefused):
        claimed(claims, "cyd", (HashRange(19999, 20005),))
    with pytest.raises(ServerRefused):
        subscribed(client, topic, "cyd", (19999, 20005))
    gap = next(keys_of(HashRange(20000, 29999), within=STICKY_HASHES))
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    for n, key in enumerate((gap, *islice(keys_of(low, within=STICKY_HASHES), 3)), start=1):
        producer.answer(producer.send(n, b"x", partition_key=key), timeout_s=TIMEOUT_S)
    for consumer in consumers.values():
        consumer.flow(100)
    eventually(lambda: len(consumers["ada"].pending()) == 3)
    heir = subscribed(client, topic, "cyd", (20000, 29999))
    heir.flow(100)
    eventually(lambda: [delivery.sequence_id for delivery in heir.pending()] == [1])
    assert not consumers["bob"].pending()
