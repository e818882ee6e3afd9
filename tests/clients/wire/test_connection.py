"""The wire client with a peer that does what no broker should: it reports that in time, and never hangs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.connection import Connection
from conformance.clients.wire.consumer import WireConsumer
from conformance.clients.wire.frames import MalformedFrame, encode_frame
from conformance.clients.wire.producer import WireProducer
from conformance.clients.wire.pump import Pump, SecondAnswer, pump_of_this_thread
from conformance.harness_error import HarnessError
from conformance.wait import Deadline
from model.log import Position
from tests.clients.wire.peer import Peer, peer
from tests.waits import eventually

TOPIC = "persistent://public/default/t"
_Type = pb.BaseCommand
PING = encode_frame(pb.BaseCommand(type=_Type.PING, ping=pb.CommandPing()))
PONG = encode_frame(pb.BaseCommand(type=_Type.PONG, pong=pb.CommandPong()))


def receipt(producer_id: int, sequence_id: int, entry: int) -> bytes:
    """A broker's receipt."""
    message_id = pb.MessageIdData(ledger_id=7, entry_id=entry)
    body = pb.CommandSendReceipt(producer_id=producer_id, sequence_id=sequence_id, message_id=message_id)
    return encode_frame(pb.BaseCommand(type=_Type.SEND_RECEIPT, send_receipt=body))


def refusal(producer_id: int, sequence_id: int) -> bytes:
    """A broker's refusal."""
    body = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence_id, error=2, message="disk")
    return encode_frame(pb.BaseCommand(type=_Type.SEND_ERROR, send_error=body))


@pytest.fixture
def other() -> Iterator[Peer]:
    """The scripted peer."""
    with peer() as it:
        yield it


@pytest.fixture
def client(other: Peer) -> Iterator[WireClient]:
    """A client that is connected to it."""
    client = WireClient.connect(other.service_url, timeout_s=5)
    yield client
    client.abort()


@pytest.fixture
def opened(other: Peer, client: WireClient) -> tuple[WireProducer, int]:
    """A producer on it, and its number."""
    numbers: list[int] = []
    serving = threading.Thread(target=lambda: numbers.append(other.serve_producer()))
    serving.start()
    producer = client.open_producer(TOPIC, name="p", timeout_s=5)
    serving.join()
    return producer, numbers[0]


def test_connecting_to_a_closed_port_is_a_lost_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionLost, match="cannot connect"):
        WireClient.connect(f"pulsar://127.0.0.1:{port}", timeout_s=5)


def test_the_first_answer_counts_and_a_second_one_is_kept_apart(other: Peer, client: WireClient) -> None:
    def answer_twice() -> None:
        request_id = other.receive().command.partitioned_metadata.request_id
        response = pb.CommandPartitionedTopicMetadataResponse(request_id=request_id, partitions=3)
        error = pb.CommandError(request_id=request_id, error=pb.MetadataError, message="no batch size")
        first = pb.BaseCommand(type=_Type.PARTITIONED_METADATA_RESPONSE, partitioned_metadata_response=response)
        other.send(encode_frame(first) + encode_frame(pb.BaseCommand(type=_Type.ERROR, error=error)))

    take = pump_of_this_thread().take_second_answers
    take()
    serving = threading.Thread(target=answer_twice)
    serving.start()
    assert client.partitions(TOPIC, timeout_s=5) == 3
    serving.join()
    client.pump()
    assert take() == (SecondAnswer(f"asking for the partitions of {TOPIC}", "MetadataError", "no batch size"),)
    assert not take()


@pytest.mark.parametrize("is_batch_first", [True, False])
def test_the_receipt_of_a_batch_is_told_from_that_of_a_message_with_its_first_id(
    other: Peer, opened: tuple[WireProducer, int], is_batch_first: bool
) -> None:
    producer, number = opened
    single, batch = producer.send(2, b"a"), producer.send_batch([(2, b"b"), (3, b"c")])
    stored = pb.MessageIdData(ledger_id=7, entry_id=0)
    of_single = pb.CommandSendReceipt(producer_id=number, sequence_id=2, message_id=stored)
    of_batch = pb.CommandSendReceipt(producer_id=number, sequence_id=2, highest_sequence_id=3)
    for receipt in (of_batch, of_single) if is_batch_first else (of_single, of_batch):
        other.send(encode_frame(pb.BaseCommand(type=_Type.SEND_RECEIPT, send_receipt=receipt)))
    assert producer.answer(batch, timeout_s=5) == Receipt(2, 3, None)
    assert producer.answer(single, timeout_s=5) == Receipt(2, 0, Position(7, 0))


@pytest.mark.parametrize("url", ["localhost:6650", "pulsar://localhost", "pulsar://h:x", "http://h:1", "pulsar://:1"])
def test_an_invalid_address_is_refused_in_one_sentence(url: str) -> None:
    with pytest.raises(HarnessError, match="not a service address"):
        WireClient.connect(url, timeout_s=5)


def test_a_peer_that_does_not_shake_hands_times_out() -> None:
    with peer(shakes_hands=False) as other:
        started = time.monotonic()
        with pytest.raises(NoAnswer, match="connecting"):
            WireClient.connect(other.service_url, timeout_s=0.2)
        assert time.monotonic() - started < 20, "it timed out by its own deadline"


def test_a_request_without_an_answer_times_out(client: WireClient) -> None:
    started = time.monotonic()
    with pytest.raises(NoAnswer, match="looking up"):
        client.lookup(TOPIC, timeout_s=0.2)
    assert time.monotonic() - started < 20, "it timed out by its own deadline"


def test_an_error_is_raised_with_its_name_in_the_protocol(other: Peer, client: WireClient) -> None:
    def answer() -> None:
        request_id = other.receive().command.lookup.request_id
        error = pb.CommandError(request_id=request_id, error=6, message="later")
        other.send(encode_frame(pb.BaseCommand(type=_Type.ERROR, error=error)))

    threading.Thread(target=answer).start()
    with pytest.raises(ServerRefused) as refused:
        client.lookup(TOPIC, timeout_s=5)
    assert (refused.value.code, refused.value.message) == ("ServiceNotReady", "later")


def test_an_error_with_an_unknown_code_is_raised(other: Peer, client: WireClient) -> None:
    def answer() -> None:
        request_id = other.receive().command.lookup.request_id
        error = pb.CommandError(request_id=request_id, error=99, message="new")
        other.send(encode_frame(pb.BaseCommand(type=_Type.ERROR, error=error)))

    threading.Thread(target=answer).start()
    with pytest.raises(ServerRefused, match="ServerError99"):
        client.lookup(TOPIC, timeout_s=5)


def test_circular_look_ups_end(other: Peer, client: WireClient) -> None:
    def answer() -> None:
        for _ in range(10):
            response = pb.CommandLookupTopicResponse(
                broker_service_url=other.service_url,
                response=pb.CommandLookupTopicResponse.Redirect,
                request_id=other.receive().command.lookup.request_id,
            )
            other.send(encode_frame(pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_response=response)))

    threading.Thread(target=answer).start()
    with pytest.raises(HarnessError, match="more than 10 times"):
        client.lookup(TOPIC, timeout_s=5)


def test_a_ping_is_answered_while_the_caller_waits_for_something_else(other: Peer, client: WireClient) -> None:
    other.send(PING)
    with pytest.raises(NoAnswer):
        client.lookup(TOPIC, timeout_s=0.2)
    assert {other.receive().command.type, other.receive().command.type} == {_Type.LOOKUP, _Type.PONG}


def test_a_ping_is_answered_while_the_caller_is_idle(other: Peer, client: WireClient) -> None:
    other.send(PING)
    assert other.receive().command.type == _Type.PONG


def test_answers_with_one_sequence_id_are_assigned_in_sending_order(
    other: Peer, opened: tuple[WireProducer, int]
) -> None:
    producer, number = opened
    first, second, third = producer.send(5, b"a"), producer.send(5, b"b"), producer.send(6, b"c")
    other.send(receipt(number, 6, 2) + receipt(number, 5, 0) + refusal(number, 5))
    assert producer.answer(third, timeout_s=5) == Receipt(6, 0, Position(7, 2))
    assert producer.answer(first, timeout_s=5) == Receipt(5, 0, Position(7, 0))
    assert producer.answer(second, timeout_s=5) == SendError("PersistenceError", "disk")
    assert producer.unexpected == []


def test_an_unexpected_answer_is_kept_separately(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, number = opened
    ticket = producer.send(1, b"a")
    other.send(receipt(number, 1, 0) + receipt(number, 1, 1) + refusal(number, 9))
    producer.answer(ticket, timeout_s=5)
    assert producer.unexpected == [Receipt(1, 0, Position(7, 1)), SendError("PersistenceError", "disk")]


def test_a_late_answer_can_be_awaited_again(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, number = opened
    ticket = producer.send(1, b"a")
    with pytest.raises(NoAnswer, match="sequence id 1 of producer p"):
        producer.answer(ticket, timeout_s=0.05)
    other.send(receipt(number, 1, 0))
    assert producer.answer(ticket, timeout_s=5) == Receipt(1, 0, Position(7, 0))


def test_answers_before_a_broken_connection_count(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, number = opened
    tickets = [producer.send(1, b"a"), producer.send(2, b"b")]
    other.send(receipt(number, 1, 0))
    other.socket.close()
    outcomes = [producer.answer(ticket, timeout_s=5) for ticket in tickets]
    assert outcomes[0] == Receipt(1, 0, Position(7, 0))
    assert isinstance(outcomes[1], Lost)
    assert not producer.is_open


def test_a_send_on_a_broken_connection_is_lost_at_once(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, _ = opened
    other.socket.close()
    eventually(lambda: not producer.is_open, deadline_s=5)
    assert isinstance(producer.send(3, b"c").outcome, Lost)


def test_a_connection_that_ends_within_a_frame_says_so(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, number = opened
    ticket = producer.send(1, b"a")
    other.send(receipt(number, 1, 0)[:-1])
    other.socket.shutdown(socket.SHUT_WR)
    outcome = producer.answer(ticket, timeout_s=5)
    assert isinstance(outcome, Lost)
    assert "within a frame" in outcome.reason


def test_a_malformed_frame_is_raised_to_the_waiting_caller(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, _ = opened
    ticket = producer.send(1, b"a")
    other.send(b"\x00\x00\x00\x00")
    with pytest.raises(MalformedFrame):
        producer.answer(ticket, timeout_s=5)
    assert isinstance(ticket.outcome, Lost)


def test_a_malformed_frame_is_raised_to_the_next_caller(
    other: Peer, client: WireClient, opened: tuple[WireProducer, int]
) -> None:
    producer, _ = opened
    other.send(b"\x00\x00\x00\x00")
    eventually(lambda: not producer.is_open, deadline_s=5)
    with pytest.raises(MalformedFrame):
        client.pump()


def test_a_broker_that_stops_reading_does_not_block_the_client(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, _ = opened
    tickets = [producer.send(i, b"x" * 1_000_000) for i in range(20)]
    with pytest.raises(NoAnswer):
        producer.answer(tickets[0], timeout_s=0.1)
    received = [other.receive().command.send.sequence_id for _ in range(2)]
    assert received == [0, 1]


def test_a_flush_waits_until_the_socket_accepts_all_bytes(
    other: Peer, client: WireClient, opened: tuple[WireProducer, int]
) -> None:
    producer, _ = opened
    for i in range(20):
        producer.send(i, b"x" * 1_000_000)
    with pytest.raises(NoAnswer):
        client.flush(timeout_s=0.1)
    reading = threading.Thread(target=lambda: [other.receive() for _ in range(20)])
    reading.start()
    client.flush(timeout_s=5)
    reading.join()


def test_an_aborted_client_is_reset_and_opens_nothing(
    other: Peer, client: WireClient, opened: tuple[WireProducer, int]
) -> None:
    producer, _ = opened
    ticket = producer.send(1, b"a")
    client.abort()
    assert isinstance(ticket.outcome, Lost)
    with pytest.raises(ConnectionLost):
        client.lookup(TOPIC, timeout_s=1)
    assert other.receive().command.type == _Type.SEND
    with pytest.raises(ConnectionResetError):
        other.socket.recv(1)


def test_a_broker_that_closes_a_producer_leaves_the_connection_open(
    other: Peer, client: WireClient, opened: tuple[WireProducer, int]
) -> None:
    producer, number = opened
    ticket = producer.send(1, b"a")
    close = pb.CommandCloseProducer(producer_id=number, request_id=2**64 - 1)
    other.send(encode_frame(pb.BaseCommand(type=_Type.CLOSE_PRODUCER, close_producer=close)))
    assert producer.answer(ticket, timeout_s=5) == Lost("the broker closed the producer")
    assert not producer.is_open
    serving = threading.Thread(target=lambda: (other.receive(), other.serve_producer()))
    serving.start()
    assert client.open_producer(TOPIC, name="p", timeout_s=5).is_open
    serving.join()


def test_commands_for_other_clients_are_ignored(other: Peer, opened: tuple[WireProducer, int]) -> None:
    producer, number = opened
    ticket = producer.send(1, b"a")
    migrated = b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x44"
    other.send(migrated + receipt(77, 1, 0) + receipt(number, 1, 0))
    assert producer.answer(ticket, timeout_s=5) == Receipt(1, 0, Position(7, 0))


@pytest.fixture
def connection(request: pytest.FixtureRequest) -> Iterator[tuple[Peer, Connection]]:
    """A connection to a peer that speaks the version of the protocol that is the test's parameter."""
    pump = Pump()
    with peer(protocol_version=request.param) as other:
        connection = Connection.open(other.service_url, pump, Deadline.after(5))
        yield other, connection
        connection.abort()


def acknowledging(connection: Connection, *, timeout_s: float = 5.0) -> threading.Thread:
    acting = threading.Thread(
        target=lambda: WireConsumer(connection, 1).ack([Position(3, 4)], timeout_s=timeout_s), daemon=True
    )
    acting.start()
    return acting


@pytest.mark.parametrize("connection", [16], indirect=True)
def test_without_receipts_an_ack_is_done_when_the_ping_after_it_is_answered(
    connection: tuple[Peer, Connection],
) -> None:
    other, opened = connection
    assert not opened.has_receipts
    acting = acknowledging(opened)
    ack = other.receive().command
    assert (ack.type, ack.ack.HasField("request_id")) == (_Type.ACK, False)
    assert other.receive().command.type == _Type.PING
    assert acting.is_alive()
    other.send(PONG)
    acting.join(5)
    assert not acting.is_alive()


@pytest.mark.parametrize("connection", [16], indirect=True)
def test_without_receipts_an_ack_that_no_pong_follows_has_no_answer(connection: tuple[Peer, Connection]) -> None:
    other, opened = connection
    with pytest.raises(NoAnswer, match="an acknowledgment"):
        WireConsumer(opened, 1).ack([Position(3, 4)], timeout_s=0.2)
    other.receive()
    other.receive()
    other.send(PONG)  # of the ack before: the next one has a number of its own
    with pytest.raises(NoAnswer):
        opened.await_done(Deadline.after(0.2), what="an acknowledgment")


@pytest.mark.parametrize("connection", [17], indirect=True)
def test_with_receipts_an_ack_is_done_when_it_is_answered(connection: tuple[Peer, Connection]) -> None:
    other, opened = connection
    assert opened.has_receipts
    acting = acknowledging(opened)
    ack = other.receive().command.ack
    response = pb.CommandAckResponse(consumer_id=1, request_id=ack.request_id)
    other.send(encode_frame(pb.BaseCommand(type=_Type.ACK_RESPONSE, ack_response=response)))
    acting.join(5)
    assert not acting.is_alive()
