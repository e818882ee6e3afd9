"""The wire client's consumers, on a real broker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import ConnectionLost, Receipt, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import KeyShared, Kind, PartOfBatch, WireConsumer, WireDelivery
from conformance.harness_error import HarnessError
from model.log import Position
from tests.waits import TIMEOUT_S, eventually


def write(client: WireClient, topic: str, count: int, *, key: str | None = None) -> list[Position]:
    """Store messages 1, 2, 3…; return their positions."""
    producer = client.open_producer(topic, name=None, timeout_s=TIMEOUT_S)
    tickets = [producer.send(i, b"%d" % i, partition_key=key) for i in range(1, count + 1)]
    outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
    producer.close(timeout_s=TIMEOUT_S)
    return [outcome.position for outcome in outcomes if isinstance(outcome, Receipt) and outcome.position is not None]


def subscribed(client: WireClient, topic: str, kind: Kind = "Shared", *, permits: int = 0) -> WireConsumer:
    """A consumer from the beginning of the topic."""
    consumer = client.subscribe(topic, "s", kind=kind, initial="earliest", timeout_s=TIMEOUT_S)
    if permits:
        consumer.flow(permits)
    return consumer


def take(consumer: WireConsumer, count: int) -> list[WireDelivery]:
    """The next deliveries; the test fails if they do not arrive."""
    taken: list[WireDelivery] = []
    while len(taken) < count:
        delivery = consumer.receive(timeout_s=TIMEOUT_S)
        assert delivery is not None, f"only {len(taken)} of {count} messages arrived"
        taken.append(delivery)
    return taken


def payloads(deliveries: Sequence[WireDelivery]) -> list[bytes]:
    """Their payloads."""
    return [delivery.payload for delivery in deliveries]


def test_a_consumer_receives_as_many_messages_as_it_permitted(client: WireClient, topic: str) -> None:
    positions = write(client, topic, 5)
    consumer = subscribed(client, topic)
    assert consumer.receive(timeout_s=0.1) is None
    consumer.flow(2)
    assert [delivery.position for delivery in take(consumer, 2)] == positions[:2]
    assert consumer.receive(timeout_s=0.1) is None
    consumer.flow(10)
    assert payloads(take(consumer, 3)) == [b"3", b"4", b"5"]


def test_a_receive_without_a_message_returns_none_however_short_its_timeout(client: WireClient, topic: str) -> None:
    consumer = subscribed(client, topic)
    assert {consumer.receive(timeout_s=nanoseconds / 1e9) for nanoseconds in range(10_000)} == {None}


def test_messages_in_the_queue_can_be_listed_and_still_received(client: WireClient, topic: str) -> None:
    write(client, topic, 3)
    consumer = subscribed(client, topic, permits=3)
    eventually(lambda: len(consumer.pending()) == 3)
    assert payloads(consumer.pending()) == payloads(take(consumer, 3))
    assert consumer.pending() == ()


def test_an_ack_is_in_the_cursor_once_its_receipt_arrived(client: WireClient, admin: Admin, topic: str) -> None:
    positions = write(client, topic, 5)
    consumer = subscribed(client, topic, permits=5)
    take(consumer, 5)
    consumer.ack([positions[0], positions[2]])
    cursor = admin.internal_stats(topic).cursors["s"]
    assert cursor.mark_delete_position == str(positions[0])
    assert [ranged.last for ranged in cursor.acknowledged_ranges] == [positions[2]]
    consumer.ack([positions[3]], cumulative=False, with_receipt=False)
    eventually(lambda: admin.stats(topic).subscriptions["s"].backlog == 2)


def test_a_cumulative_ack_covers_everything_before_it(client: WireClient, admin: Admin, topic: str) -> None:
    positions = write(client, topic, 7)
    consumer = subscribed(client, topic, "Exclusive", permits=7)
    take(consumer, 7)
    consumer.ack([positions[5]], cumulative=True)
    assert admin.stats(topic).subscriptions["s"].backlog == 1


def test_a_redelivery_request_redelivers_its_messages_and_counts_them(client: WireClient, topic: str) -> None:
    positions = write(client, topic, 4)
    consumer = subscribed(client, topic, permits=10)
    assert [delivery.redelivery_count for delivery in take(consumer, 4)] == [0, 0, 0, 0]
    consumer.redeliver([positions[1], positions[3]])
    again = take(consumer, 2)
    assert [(d.position, d.redelivery_count) for d in again] == [(positions[1], 1), (positions[3], 1)]
    assert consumer.receive(timeout_s=0.1) is None


def test_a_redelivery_request_for_no_message_redelivers_none(client: WireClient, topic: str) -> None:
    write(client, topic, 2)
    consumer = subscribed(client, topic, permits=10)
    take(consumer, 2)
    consumer.redeliver([])
    assert consumer.receive(timeout_s=0.1) is None
    consumer.redeliver()
    assert payloads(take(consumer, 2)) == [b"1", b"2"]


def test_the_rest_of_a_batch_is_redelivered_without_its_acknowledged_messages(client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    producer.answer(producer.send_batch([(i, b"%d" % i) for i in range(70)]), timeout_s=TIMEOUT_S)
    consumer = subscribed(client, topic, permits=200)
    batch = take(consumer, 70)
    assert [delivery.batch_index for delivery in batch] == list(range(70))
    assert [delivery.sequence_id for delivery in batch] == list(range(70))
    left = frozenset({1, 63, 64, 69})
    consumer.ack([PartOfBatch(position=batch[0].position, batch_size=70, still_unacknowledged=left)])
    consumer.redeliver()
    again = take(consumer, 4)
    assert [delivery.batch_index for delivery in again] == sorted(left)
    assert [delivery.is_first_of_entry for delivery in again] == [True, False, False, False]
    assert all(delivery.ack_set and delivery.batch_size == 70 for delivery in again)
    consumer.ack([PartOfBatch(position=batch[0].position, batch_size=70, still_unacknowledged=frozenset())])
    consumer.redeliver()
    assert consumer.receive(timeout_s=0.1) is None


def test_an_exclusive_subscription_refuses_a_second_consumer(
    client: WireClient, another: WireClient, topic: str
) -> None:
    subscribed(client, topic, "Exclusive")
    with pytest.raises(ServerRefused) as refused:
        subscribed(another, topic, "Exclusive")
    assert refused.value.code == "ConsumerBusy"


def test_a_failover_consumer_learns_that_it_is_active(client: WireClient, another: WireClient, topic: str) -> None:
    consumers = [subscribed(it, topic, "Failover") for it in (client, another)]
    eventually(lambda: {consumer.is_active for consumer in consumers} == {True, False})
    active, other = consumers if consumers[0].is_active else reversed(consumers)
    active.close()
    eventually(lambda: other.is_active)


def test_messages_of_a_closed_consumer_are_redelivered_to_the_others(
    client: WireClient, another: WireClient, topic: str
) -> None:
    write(client, topic, 3)
    first = subscribed(client, topic, permits=3)
    take(first, 3)
    second = subscribed(another, topic, permits=10)
    assert second.receive(timeout_s=0.1) is None
    client.abort()
    assert sorted(payloads(take(second, 3))) == [b"1", b"2", b"3"]


def test_sticky_ranges_decide_which_consumer_receives_a_key(
    client: WireClient, another: WireClient, topic: str
) -> None:
    low, high = KeyShared(sticky_ranges=((0, 32767),)), KeyShared(sticky_ranges=((32768, 65535),))
    first = client.subscribe(topic, "s", kind="Key_Shared", key_shared=low, initial="earliest", timeout_s=TIMEOUT_S)
    second = another.subscribe(topic, "s", kind="Key_Shared", key_shared=high, initial="earliest", timeout_s=TIMEOUT_S)
    first.flow(100)
    second.flow(100)
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    for i in range(1, 41):
        producer.answer(producer.send(i, b"x", partition_key=f"k{i % 10}"), timeout_s=TIMEOUT_S)
    eventually(lambda: len(first.pending()) + len(second.pending()) == 40)
    keys = [{delivery.key for delivery in consumer.pending()} for consumer in (first, second)]
    assert all(keys)
    assert not keys[0] & keys[1]
    with pytest.raises(ServerRefused):
        client.subscribe(topic, "s", kind="Key_Shared", key_shared=low, timeout_s=TIMEOUT_S)


def test_auto_split_consumers_share_no_key(client: WireClient, another: WireClient, topic: str) -> None:
    consumers = [subscribed(it, topic, "Key_Shared", permits=100) for it in (client, another)]
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    for i in range(1, 41):
        producer.answer(producer.send(i, b"x", partition_key=f"k{i % 10}"), timeout_s=TIMEOUT_S)
    eventually(lambda: sum(len(consumer.pending()) for consumer in consumers) == 40)
    keys = [{delivery.key for delivery in consumer.pending()} for consumer in consumers]
    assert not keys[0] & keys[1]


def test_a_seek_closes_the_consumer_and_moves_the_cursor_back(client: WireClient, topic: str) -> None:
    positions = write(client, topic, 5)
    consumer = subscribed(client, topic, "Exclusive", permits=5)
    consumer.ack([delivery.position for delivery in take(consumer, 5)])
    consumer.seek(positions[2])
    eventually(lambda: not consumer.is_open)
    with pytest.raises(ConnectionLost, match="the broker closed the consumer"):
        consumer.flow(1)
    again = subscribed(client, topic, "Exclusive", permits=5)
    assert payloads(take(again, 3)) == [b"3", b"4", b"5"]


def test_a_reader_starts_after_the_position_it_names(client: WireClient, topic: str) -> None:
    positions = write(client, topic, 7)
    reader = client.subscribe(
        topic, "r", kind="Exclusive", durable=False, start_after=positions[4], timeout_s=TIMEOUT_S
    )
    reader.flow(10)
    assert payloads(take(reader, 2)) == [b"6", b"7"]
    assert reader.last_message_id() == positions[6]


def test_a_reader_can_start_after_the_last_entry_of_a_ledger_or_of_the_topic(client: WireClient, topic: str) -> None:
    positions = write(client, topic, 12)
    for index, position in enumerate(positions):
        reader = client.subscribe(
            topic, f"r{index}", kind="Exclusive", durable=False, start_after=position, timeout_s=TIMEOUT_S
        )
        reader.flow(20)
        assert [delivery.position for delivery in take(reader, 11 - index)] == positions[index + 1 :]
        assert reader.pending() == ()


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_from_latest_delivers_no_old_message(client: WireClient, topic: str, durable: bool) -> None:
    write(client, topic, 3)
    consumer = client.subscribe(topic, "s", kind="Exclusive", durable=durable, initial="latest", timeout_s=TIMEOUT_S)
    consumer.flow(10)
    assert consumer.receive(timeout_s=0.1) is None
    (position,) = write(client, topic, 1)
    assert [delivery.position for delivery in take(consumer, 1)] == [position]


def test_an_empty_topic_has_no_last_message(client: WireClient, topic: str) -> None:
    assert subscribed(client, topic).last_message_id() is None


def test_unsubscribing_removes_the_subscription(client: WireClient, admin: Admin, topic: str) -> None:
    consumer = subscribed(client, topic)
    assert set(admin.stats(topic).subscriptions) == {"s"}
    consumer.unsubscribe()
    assert not consumer.is_open
    assert admin.stats(topic).subscriptions == {}


def test_a_closed_consumer_keeps_its_subscription_and_its_queue(client: WireClient, admin: Admin, topic: str) -> None:
    write(client, topic, 1)
    consumer = subscribed(client, topic, permits=1)
    eventually(consumer.pending)
    consumer.close()
    assert payloads(take(consumer, 1)) == [b"1"]
    with pytest.raises(ConnectionLost):
        consumer.receive(timeout_s=1)
    assert admin.stats(topic).subscriptions["s"].consumers == ()


def test_an_unload_closes_the_consumer(client: WireClient, admin: Admin, topic: str) -> None:
    consumer = subscribed(client, topic, permits=1)
    admin.unload(topic)
    eventually(lambda: not consumer.is_open)
    with pytest.raises(HarnessError):
        consumer.ack([Position(0, 0)])


def test_a_consumer_learns_the_end_of_a_terminated_topic(client: WireClient, admin: Admin, topic: str) -> None:
    (position,) = write(client, topic, 1)
    consumer = subscribed(client, topic, "Exclusive", permits=10)
    take(consumer, 1)
    assert admin.terminate(topic) == position
    consumer.ack([position])
    consumer.flow(1)
    eventually(lambda: consumer.reached_end)
