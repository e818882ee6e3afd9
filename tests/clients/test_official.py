"""pulsar-client on a real broker, with the interface of the wire client."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient, client_version
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from conformance.harness_error import HarnessError
from model.log import Position
from tests.waits import eventually

TIMEOUT_S = 10.0


@pytest.fixture
def official(broker: Broker) -> Iterator[OfficialClient]:
    """A client of pulsar-client."""
    with OfficialClient(broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        yield client


def test_the_client_reports_its_release() -> None:
    assert client_version() == version("pulsar-client")


def test_a_send_is_stored_and_its_repetition_is_a_duplicate(
    official: OfficialClient, client: WireClient, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    assert (producer.name, producer.last_sequence_id) == ("p", -1)
    stored = producer.answer(producer.send(5, b"x", properties={"a": "b"}, partition_key="k"), timeout_s=TIMEOUT_S)
    (entry,) = read_log(client, topic, timeout_s=TIMEOUT_S)
    assert stored == Receipt(5, 0, entry.position)
    assert (entry.sequence_id, entry.metadata.partition_key) == (5, "k")
    assert producer.answer(producer.send(5, b"x"), timeout_s=TIMEOUT_S) == Receipt(5, 0, None)
    producer.close()
    assert official.open_producer(topic, name="p").last_sequence_id == 5


def test_sequence_id_zero_is_refused_because_the_client_would_ignore_it(official: OfficialClient, topic: str) -> None:
    with pytest.raises(HarnessError, match="sequence id 0"):
        official.open_producer(topic, name="p").send(0, b"x")


def test_messages_sent_as_a_batch_are_one_entry(official: OfficialClient, client: WireClient, topic: str) -> None:
    producer = official.open_producer(topic, name="p", batching=True)
    tickets = producer.send_batch([(5, b"a"), (6, b"b"), (9, b"c")])
    outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
    (entry,) = read_log(client, topic, timeout_s=TIMEOUT_S)
    assert outcomes == [Receipt(i, 0, entry.position, index) for index, i in enumerate((5, 6, 9))]
    assert entry.messages == ((5, b"a"), (6, b"b"), (9, b"c"))


def test_a_message_that_is_too_large_is_refused_and_not_stored(
    official: OfficialClient, client: WireClient, topic: str, broker: Broker
) -> None:
    producer = official.open_producer(topic, name="p")
    too_large = b"x" * (int(broker.configuration["maxMessageSize"]) + 1)
    outcome = producer.answer(producer.send(1, too_large), timeout_s=TIMEOUT_S)
    assert isinstance(outcome, SendError)
    assert outcome.code == "MessageTooBig"
    assert read_log(client, topic, timeout_s=TIMEOUT_S) == []


def test_the_client_resends_by_itself_after_an_unload(
    official: OfficialClient, client: WireClient, admin: Admin, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    tickets = [producer.send(i, b"x") for i in range(1, 50)]
    admin.unload(topic)
    tickets += [producer.send(i, b"x") for i in range(50, 60)]
    outcomes = [producer.answer(ticket, timeout_s=30) for ticket in tickets]
    assert all(isinstance(outcome, Receipt) for outcome in outcomes)
    assert [entry.sequence_id for entry in read_log(client, topic, timeout_s=TIMEOUT_S)] == list(range(1, 60))
    assert producer.is_connected


def test_messages_in_flight_are_lost_when_the_client_crashes(official: OfficialClient, topic: str) -> None:
    producer = official.open_producer(topic, name="p", batching=True)
    ticket = producer.send(1, b"held back for a batch")
    with pytest.raises(NoAnswer):
        producer.answer(ticket, timeout_s=0.05)
    official.abort()
    assert isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Lost)


def test_a_producer_name_in_use_by_a_wire_client_is_refused(
    official: OfficialClient, client: WireClient, topic: str
) -> None:
    holder = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    with pytest.raises(ServerRefused) as refused:
        official.open_producer(topic, name="p")
    assert refused.value.code == "ProducerBusy"
    assert holder.is_open, "it answers the broker's ping while its user is busy elsewhere"


def test_connecting_to_a_closed_port_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        OfficialClient(f"pulsar://127.0.0.1:{port}", timeout_s=1) as client,
        pytest.raises((NoAnswer, ConnectionLost)),
    ):
        client.open_producer("persistent://public/default/t", name="p")


def test_a_consumer_receives_acknowledges_and_nacks(official: OfficialClient, admin: Admin, topic: str) -> None:
    producer = official.open_producer(topic, name="p")
    stored = [producer.answer(producer.send(i, b"%d" % i), timeout_s=TIMEOUT_S) for i in (1, 2, 3)]
    consumer = official.subscribe(topic, "s", kind="Shared", initial="earliest", nack_delay_s=0.05)
    deliveries = [consumer.receive(timeout_s=TIMEOUT_S) for _ in stored]
    assert [delivery and Receipt(i, 0, delivery.position) for i, delivery in enumerate(deliveries, 1)] == stored
    first, second, third = (delivery for delivery in deliveries if delivery is not None)
    assert (second.payload, second.producer_name, second.batch_index) == (b"2", "p", -1)
    consumer.nack(second)
    again = consumer.receive(timeout_s=TIMEOUT_S)
    assert again is not None
    assert (again.position, again.redelivery_count) == (second.position, 1)
    for delivery in (first, third):
        consumer.ack(delivery)
    consumer.close()
    assert admin.stats(topic).subscriptions["s"].backlog == 1
    with pytest.raises(ConnectionLost):
        consumer.receive(timeout_s=1)


def test_redelivery_of_all_unacknowledged_messages_can_be_requested(official: OfficialClient, topic: str) -> None:
    producer = official.open_producer(topic, name="p")
    producer.answer(producer.send(1, b"x"), timeout_s=TIMEOUT_S)
    consumer = official.subscribe(topic, "s", kind="Failover", initial="earliest")
    first = consumer.receive(timeout_s=TIMEOUT_S)
    consumer.redeliver_all()
    again = consumer.receive(timeout_s=TIMEOUT_S)
    assert first is not None
    assert again is not None
    assert again.position == first.position
    consumer.ack_cumulative(again)
    assert consumer.receive(timeout_s=0.05) is None
    consumer.unsubscribe()


def test_a_closed_client_opens_no_producer(official: OfficialClient, topic: str) -> None:
    official.close()
    with pytest.raises(ConnectionLost):
        official.open_producer(topic, name="p")


def test_the_clients_log_goes_to_its_file_and_nowhere_else(broker: Broker, topic: str, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from conformance.clients.driver.client import OfficialClient\n"
        "client = OfficialClient(sys.argv[1], timeout_s=5, log_file=Path(sys.argv[3]))\n"
        "client.open_producer(sys.argv[2], name='p'); client.close()\n"
    )
    log = tmp_path / "client.log"
    command = [sys.executable, "-c", script, broker.addresses.service_url, topic, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert (done.stdout, done.stderr) == ("", "")
    eventually(lambda: topic in log.read_text())


def test_positions_equal_those_of_the_wire_client(official: OfficialClient, client: WireClient, topic: str) -> None:
    producer = client.open_producer(topic, name="w", timeout_s=TIMEOUT_S)
    outcome = producer.answer(producer.send_batch([(1, b"a"), (2, b"b")]), timeout_s=TIMEOUT_S)
    consumer = official.subscribe(topic, "s", kind="Exclusive", initial="earliest")
    found = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(2)]
    assert isinstance(outcome, Receipt)
    places = [(one.position, one.batch_index) for one in found if one is not None]
    assert places == [(outcome.position, 0), (outcome.position, 1)]
    assert isinstance(outcome.position, Position)
