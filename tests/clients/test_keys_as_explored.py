"""Shortest counterexamples of the Key_Shared explorations, step by step on a real broker: what each release does."""

from __future__ import annotations

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import DrainingHashStats
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import KeyShared, WireConsumer
from conformance.clients.wire.producer import WireProducer
from model.key_shared.hashes import AUTO_SPLIT_HASHES, HASHES_OF_3_3, keys_of, sticky_hash
from model.key_shared.ranges import moves
from model.key_shared.selectors import Ring, assignments_of, joined
from tests.waits import TIMEOUT_S, eventually


@pytest.fixture
def is_classic(admin: Admin) -> bool:
    """Whether the broker has no draining hashes."""
    return int(admin.broker_version().partition(".")[0]) < 4


def key_that_moves(*, had: str, joins: str, others: str = "", is_classic: bool) -> str:
    """A key that moves from one consumer to another one when that joins."""
    ring = Ring(hashes=HASHES_OF_3_3 if is_classic else AUTO_SPLIT_HASHES)
    for name in (*others, had):
        ring = joined(ring, name, name=name)
    moved = moves(assignments_of(ring), assignments_of(joined(ring, joins, name=joins)))
    return next(
        key
        for key in keys_of(ring.hashes, within=ring.hashes)
        if any(move.had == had and sticky_hash(key.encode(), ring.hashes) in move.hashes for move in moved)
    )


def subscribed(client: WireClient, topic: str, name: str, *, permits: int) -> WireConsumer:
    consumer = client.subscribe(
        topic,
        "s",
        kind="Key_Shared",
        initial="earliest",
        consumer_name=name,
        key_shared=KeyShared(),
        timeout_s=TIMEOUT_S,
    )
    if permits:
        consumer.flow(permits)
    return consumer


def send(producer: WireProducer, sequence_id: int, key: str) -> None:
    ticket = producer.send(sequence_id, b"x", partition_key=key)
    assert isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt)


def got(consumer: WireConsumer) -> list[int]:
    return [delivery.sequence_id for delivery in consumer.pending()]


def draining_at(admin: Admin, topic: str, name: str) -> tuple[DrainingHashStats, ...]:
    consumers = admin.stats(topic).subscriptions["s"].consumers
    return next(one.draining_hashes or () for one in consumers if one.consumer_name == name)


def test_only_the_classic_implementation_replays_a_pending_key_to_a_joining_consumer(
    client: WireClient, admin: Admin, topic: str, is_classic: bool
) -> None:
    key = key_that_moves(others="A", had="B", joins="C", is_classic=is_classic)
    subscribed(client, topic, "A", permits=100)
    holder = subscribed(client, topic, "B", permits=1)
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    send(producer, 1, key)
    send(producer, 2, key)
    eventually(lambda: got(holder) == [1] and admin.stats(topic).subscriptions["s"].in_replay == 1)
    newcomer = subscribed(client, topic, "C", permits=100)
    if is_classic:
        eventually(lambda: got(newcomer) == [2])  # KEY-01 is broken: message 1 is pending at the holder
        return
    eventually(lambda: any(one.blocked_attempts for one in draining_at(admin, topic, "B")))
    assert got(newcomer) == []
    holder.ack([delivery.position for delivery in holder.pending()])
    eventually(lambda: got(newcomer) == [2])


def test_a_hash_that_returned_and_moved_again_drains_to_its_end(
    client: WireClient, admin: Admin, topic: str, is_classic: bool
) -> None:
    if is_classic:
        pytest.skip("the broker has no draining hashes")
    key = key_that_moves(had="A", joins="B", is_classic=is_classic)
    holder = subscribed(client, topic, "A", permits=1)
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    send(producer, 1, key)
    eventually(lambda: got(holder) == [1])
    subscribed(client, topic, "B", permits=0).close(timeout_s=TIMEOUT_S)
    newcomer = subscribed(client, topic, "B", permits=100)
    assert [one.unacked_messages for one in draining_at(admin, topic, "A")] == [1]
    send(producer, 2, key)
    holder.ack([delivery.position for delivery in holder.pending()])
    eventually(lambda: got(newcomer) == [2])
