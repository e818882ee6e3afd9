"""The wire client's producers, on a real broker."""

from __future__ import annotations

import pytest

from conformance.clients import protocol_pb2 as pb
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import ConnectionLost, Lost, Receipt, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import SendTicket, WireProducer
from conformance.clients.wire.read_log import read_log
from model.log import Position
from tests.waits import TIMEOUT_S, eventually


def opened(client: WireClient, topic: str, name: str | None = "p") -> WireProducer:
    """A producer on a topic."""
    return client.open_producer(topic, name=name, timeout_s=TIMEOUT_S)


def confirmed(producer: WireProducer, *tickets: SendTicket) -> list[Position | None]:
    """Where the broker says to have stored these, None for duplicates; the test fails on anything else."""
    positions = []
    for ticket in tickets:
        outcome = producer.answer(ticket, timeout_s=TIMEOUT_S)
        assert isinstance(outcome, Receipt), outcome
        assert outcome.sequence_id == ticket.sequence_id
        positions.append(outcome.position)
    return positions


def test_sequence_id_zero_is_a_valid_sequence_id(client: WireClient, topic: str) -> None:
    producer = opened(client, topic)
    assert producer.last_sequence_id == -1
    (stored,) = confirmed(producer, producer.send(0, b"first"))
    assert stored is not None
    assert confirmed(producer, producer.send(0, b"again")) == [None]
    producer.close(timeout_s=TIMEOUT_S)
    assert opened(client, topic).last_sequence_id == 0


def test_a_producer_learns_the_last_sequence_id_of_its_name(client: WireClient, topic: str) -> None:
    producer = opened(client, topic)
    confirmed(producer, producer.send(3, b"a"), producer.send(17, b"b"))
    producer.close(timeout_s=TIMEOUT_S)
    assert not producer.is_open
    assert opened(client, topic).last_sequence_id == 17
    assert opened(client, topic, "q").last_sequence_id == -1


def test_a_producer_without_a_name_gets_one_from_the_broker(client: WireClient, topic: str) -> None:
    assert opened(client, topic, None).name


def test_many_sends_in_flight_are_stored_in_order(client: WireClient, topic: str) -> None:
    producer = opened(client, topic)
    positions = confirmed(producer, *[producer.send(i, str(i).encode()) for i in range(200)])
    entries = read_log(client, topic, timeout_s=TIMEOUT_S)
    assert [entry.position for entry in entries] == positions
    assert [entry.messages for entry in entries] == [((i, str(i).encode()),) for i in range(200)]


def test_two_sends_in_flight_with_one_id_are_stored_once(client: WireClient, topic: str) -> None:
    producer = opened(client, topic)
    tickets = [producer.send(1, b"a"), producer.send(1, b"b")]
    outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
    stored = [o.position for o in outcomes if isinstance(o, Receipt) and o.position is not None]
    assert [entry.position for entry in read_log(client, topic, timeout_s=TIMEOUT_S)] == stored
    assert len(stored) == 1
    assert producer.unexpected == []


def test_a_batch_is_one_entry_with_a_first_and_a_last_id(client: WireClient, topic: str) -> None:
    producer = opened(client, topic)
    ticket = producer.send_batch([(4, b"a"), (6, b""), (9, b"c")])
    outcome = producer.answer(ticket, timeout_s=TIMEOUT_S)
    (entry,) = read_log(client, topic, timeout_s=TIMEOUT_S)
    assert outcome == Receipt(4, 9, entry.position)
    assert (entry.producer_name, entry.sequence_id, entry.highest_sequence_id) == ("p", 4, 9)
    assert entry.messages == ((4, b"a"), (6, b""), (9, b"c"))
    producer.close(timeout_s=TIMEOUT_S)
    assert opened(client, topic).last_sequence_id == 9


def test_metadata_reaches_the_log_unchanged(client: WireClient, topic: str) -> None:
    producer = opened(client, topic)
    chunk = pb.MessageMetadata(
        uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=9, ordering_key=b"\xff"
    )
    ticket = producer.send(
        1, b"part", highest_sequence_id=2, properties={"a": "1", "b": "ü"}, partition_key="k", metadata=chunk
    )
    confirmed(producer, ticket)
    (entry,) = read_log(client, topic, timeout_s=TIMEOUT_S)
    told = entry.metadata
    assert {item.key: item.value for item in told.properties} == {"a": "1", "b": "ü"}
    assert (told.partition_key, told.ordering_key, told.highest_sequence_id) == ("k", b"\xff", 2)
    assert (told.uuid, told.chunk_id, told.num_chunks_from_msg, told.total_chunk_msg_size) == ("u", 0, 2, 9)


def test_a_producer_name_in_use_is_refused_to_another_client_at_once(
    client: WireClient, another: WireClient, topic: str
) -> None:
    holder = opened(client, topic)
    with pytest.raises(ServerRefused) as refused:
        another.open_producer(topic, name="p", timeout_s=3)
    assert refused.value.code == "ProducerBusy"
    assert holder.is_open


def test_a_crashed_client_frees_its_producer_name(client: WireClient, another: WireClient, topic: str) -> None:
    holder = opened(client, topic)
    ticket = holder.send(1, b"a")
    client.abort()
    assert isinstance(holder.answer(ticket, timeout_s=TIMEOUT_S), Lost)

    def taken() -> bool:
        try:
            return opened(another, topic).is_open
        except ServerRefused as refused:
            if refused.code != "ProducerBusy":
                raise
            return False

    eventually(taken)


def test_an_unload_closes_the_producer_and_leaves_the_connection_open(
    client: WireClient, admin: Admin, topic: str
) -> None:
    producer = opened(client, topic)
    confirmed(producer, producer.send(1, b"a"))
    admin.unload(topic)
    eventually(lambda: not producer.is_open)
    assert isinstance(producer.send(2, b"b").outcome, Lost)
    again = opened(client, topic)
    assert again.last_sequence_id == 1
    assert confirmed(again, again.send(1, b"a"), again.send(2, b"b"))[0] is None


def test_unanswered_sends_at_an_unload_are_lost_or_confirmed_and_the_log_agrees(
    client: WireClient, another: WireClient, admin: Admin, topic: str
) -> None:
    # Release 2.11 closes the whole connection when sends come in for a producer that it just closed.
    producer = opened(client, topic)
    tickets = [producer.send(i, b"x") for i in range(1, 200)]
    admin.unload(topic)
    outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
    logged = {entry.position for entry in read_log(another, topic, timeout_s=TIMEOUT_S)}
    told = {outcome.position for outcome in outcomes if isinstance(outcome, Receipt)}
    assert told <= logged
    assert all(isinstance(outcome, Receipt | Lost) for outcome in outcomes)


def test_closing_a_client_closes_its_producers_and_consumers(
    client: WireClient, another: WireClient, topic: str
) -> None:
    producer = opened(client, topic)
    client.close()
    assert not producer.is_open
    assert opened(another, topic).name == "p"
    with pytest.raises(ConnectionLost):
        client.lookup(topic, timeout_s=1)


def test_the_number_of_partitions_can_be_read_over_the_wire(client: WireClient, admin: Admin, topic: str) -> None:
    admin.create_topic(f"{topic}-parts", partitions=3)
    assert client.partitions(f"{topic}-parts", timeout_s=TIMEOUT_S) == 3
    assert client.partitions(topic, timeout_s=TIMEOUT_S) == 0
