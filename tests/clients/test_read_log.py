"""Reading a topic back, on a real broker."""

from __future__ import annotations

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import NoAnswer, Receipt, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import WireProducer
from conformance.clients.wire.read_log import read_log
from model.log import Position
from tests.waits import TIMEOUT_S


def write(client: WireClient, topic: str, first: int, last: int) -> WireProducer:
    """Store one message for each of these ids."""
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    tickets = [producer.send(i, b"x%d" % i) for i in range(first, last + 1)]
    assert all(isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt) for ticket in tickets)
    return producer


def logged_ids(client: WireClient, topic: str) -> list[int]:
    """The sequence ids of a topic's entries."""
    return [entry.sequence_id for entry in read_log(client, topic, timeout_s=TIMEOUT_S)]


def test_an_empty_topic_has_an_empty_log(client: WireClient, admin: Admin, topic: str) -> None:
    assert logged_ids(client, topic) == []
    admin.unload(topic)
    assert logged_ids(client, topic) == []


def test_a_log_is_complete_after_an_unload(client: WireClient, admin: Admin, topic: str) -> None:
    write(client, topic, 1, 7)
    admin.unload(topic)
    assert logged_ids(client, topic) == list(range(1, 8))
    admin.unload(topic)
    assert logged_ids(client, topic) == list(range(1, 8))
    write(client, topic, 8, 9)
    assert logged_ids(client, topic) == list(range(1, 10))


def test_a_log_longer_than_a_readers_permits_is_read_completely(client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    sizes = [1 + i % 7 for i in range(700)]
    first = 1
    tickets = []
    for size in sizes:
        tickets.append(producer.send_batch([(i, b"%d" % i) for i in range(first, first + size)]))
        first += size
    assert all(isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt) for ticket in tickets)
    entries = read_log(client, topic, timeout_s=30)
    assert [len(entry.messages) for entry in entries] == sizes
    assert [i for entry in entries for i, _ in entry.messages] == list(range(1, first))


def test_positions_rise_and_every_entry_equals_that_of_the_admin_api(
    client: WireClient, admin: Admin, topic: str
) -> None:
    write(client, topic, 1, 12)
    entries = read_log(client, topic, timeout_s=TIMEOUT_S)
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    assert len({position.ledger for position in positions}) > 1
    for entry in entries:
        rest = admin.read_entry(topic, entry.position)
        assert (rest.position, rest.producer_name, rest.sequence_id) == (entry.position, "p", entry.sequence_id)
        assert rest.messages == tuple(payload for _, payload in entry.messages)


def test_a_log_is_read_to_a_known_end(client: WireClient, admin: Admin, topic: str) -> None:
    write(client, topic, 1, 7)
    admin.terminate(topic)
    admin.unload(topic)
    last = Position.parse(admin.internal_stats(topic).last_confirmed_entry)
    entries = read_log(client, topic, timeout_s=TIMEOUT_S, last=last)
    assert [entry.sequence_id for entry in entries] == list(range(1, 8))
    assert entries[-1].position == last
    shorter = read_log(client, topic, timeout_s=TIMEOUT_S, last=entries[2].position)
    assert [entry.sequence_id for entry in shorter] == [1, 2, 3]


def test_reading_leaves_no_subscription(client: WireClient, admin: Admin, topic: str) -> None:
    write(client, topic, 1, 3)
    read_log(client, topic, timeout_s=TIMEOUT_S)
    assert admin.stats(topic).subscriptions == {}


def test_a_topic_in_a_missing_namespace_is_refused(client: WireClient) -> None:
    with pytest.raises(ServerRefused):
        read_log(client, "persistent://public/not-there/t", timeout_s=1)


def test_a_deadline_that_is_too_short_is_kept(client: WireClient, topic: str) -> None:
    write(client, topic, 1, 3)
    with pytest.raises(NoAnswer):
        read_log(client, topic, timeout_s=0)
    assert logged_ids(client, topic) == [1, 2, 3]


def test_a_log_that_is_not_read_to_its_end_in_time_says_how_far_it_was_read(client: WireClient, topic: str) -> None:
    write(client, topic, 1, 2)
    beyond = Position(2**40, 0)
    with pytest.raises(NoAnswer, match="after 2 messages nothing more came"):
        read_log(client, topic, timeout_s=1.0, last=beyond)
    assert logged_ids(client, topic) == [1, 2]
