"""The drivers of the suite, on a real broker: what one client sends, another receives, and the wire client sees."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import psutil
import pytest
from rich.console import Console

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.interface import Broker
from conformance.clients.driver.connect import DriverCommand, client_info, connect, libraries, use, versions
from conformance.clients.driver.interface import ReleasedClient
from conformance.clients.driver.remote import RemoteClient
from conformance.clients.outcomes import ConnectionLost, Lost, Receipt, ServerRefused
from conformance.commands.driver_contract import driver_test
from conformance.drivers.catalogue import driver_of
from conformance.harness_error import HarnessError
from tests.clients.conftest import admin, namespace, topic
from tests.waits import TIMEOUT_S

__all__ = ["admin", "namespace", "topic"]

JAVA = "java:4.0.8"
PYTHON = "python:3.12.0"
GO = "go:0.19.0"
RUST = "rust:6.9.1"
A_WEEK = pytest.mark.weekly
"""Of the Rust client a hundred libraries are compiled, for minutes."""
COMPILED = {JAVA: "javac", GO: "go", RUST: "cargo"}


def driver_or_skip(name: str) -> DriverCommand:
    """Use this driver from now on; skip the test if the compiler is missing."""
    if name in COMPILED and which(COMPILED[name]) is None:
        pytest.skip(f"the driver of {name} is compiled with {COMPILED[name]}, which is not installed")
    command = driver_of(name, print)
    use(command)
    return command


@pytest.fixture(autouse=True)
def no_driver_afterwards() -> Iterator[None]:
    yield
    use(None)


@pytest.mark.parametrize("name", [JAVA, PYTHON, GO, pytest.param(RUST, marks=A_WEEK)])
def test_a_driver_sends_receives_and_passes_refusals_on(name: str, broker: Broker, topic: str) -> None:
    driver_or_skip(name)
    assert [client_info().name, client_info().version] == name.split(":")
    assert versions()[name.split(":")[0]] == name.split(":")[1]
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        producer = client.open_producer(topic, name="p", batching=True)
        tickets = producer.send_batch([(1, b"one"), (2, b"two")], keys=[("k", None), ("k", None)])
        receipts = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
        assert [isinstance(one, Receipt) and one.batch_index for one in receipts] == [0, 1]
        last = {GO: 1, RUST: -1}.get(name, 2)
        assert producer.last_sequence_id == last, "the Go client knows the first of a batch, the Rust client none"
        consumer = client.subscribe(topic, "s", kind="Exclusive", initial="earliest", consumer_name="c")
        received = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(2)]
        assert [one and (one.payload, one.key, one.topic) for one in received] == [
            (b"one", "k", topic),
            (b"two", "k", topic),
        ]
        with pytest.raises(ServerRefused, match="ConsumerBusy"):
            client.subscribe(topic, "s", kind="Exclusive", initial="earliest")


def sent_in_chunks(sends: str, receives: str, broker: Broker, topic: str) -> tuple[bytes, bytes]:
    """A payload that one client sent in chunks, and what another received."""
    payload = bytes(range(256)) * 240
    driver_or_skip(sends)
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        sender = client.open_producer(topic, name="p", chunking=True)
        assert isinstance(sender.answer(sender.send(1, payload), timeout_s=TIMEOUT_S), Receipt)
    driver_or_skip(receives)
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        consumer = client.subscribe(topic, "s", kind="Exclusive", initial="earliest")
        delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    return payload, delivery.payload


@pytest.mark.parametrize(("sends", "receives"), [(JAVA, PYTHON), (JAVA, GO), (PYTHON, JAVA), (GO, PYTHON)])
def test_one_client_receives_the_chunks_that_another_sent(
    sends: str, receives: str, broker: Broker, topic: str
) -> None:
    sent, received = sent_in_chunks(sends, receives, broker, topic)
    assert received == sent


def test_several_clients_of_a_run_are_chosen_by_name_and_share_a_subscription(broker: Broker, topic: str) -> None:
    java, go = driver_or_skip(JAVA), driver_or_skip(GO)
    use(java, go, None)
    assert [one.partition(":")[0] for one in libraries()] == ["java", "go", "pulsar-client"]
    assert versions().keys() == {"wire", "java", "go", "official"}
    assert client_info("java:3.3.6").library == JAVA, "another version takes the place of one that is not there"
    with pytest.raises(HarnessError, match=r"^the client rust:6\.4\.1 is not among those of this run: java"):
        connect(broker.addresses.service_url, timeout_s=TIMEOUT_S, library="rust:6.4.1")

    def client(library: str) -> ReleasedClient:
        return connect(broker.addresses.service_url, timeout_s=TIMEOUT_S, library=library)

    with client(GO) as one, client("pulsar-client:0") as other, client(JAVA) as sends:
        consumers = [by.subscribe(topic, "s", kind="Key_Shared", initial="earliest") for by in (one, other)]
        producer = sends.open_producer(topic, name="p")
        keys = [f"k{number}" for number in range(20)]
        for number, key in enumerate(keys, start=1):
            ticket = producer.send(number, key.encode(), partition_key=key)
            assert isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt)
        received: list[list[str]] = [[], []]
        while sum(map(len, received)) < len(keys):
            for at, consumer in zip(received, consumers, strict=True):
                if (delivery := consumer.receive(timeout_s=0.2)) is not None:
                    at.append(delivery.payload.decode())
        assert all(received)
        assert sorted(received[0] + received[1]) == sorted(keys)


def test_the_go_client_delivers_only_the_last_chunk_of_the_python_client(broker: Broker, topic: str) -> None:
    """Since 0.15 it reads the assembled buffer only if the metadata has ``uncompressed_size``, which C++ leaves out."""
    sent, received = sent_in_chunks(PYTHON, GO, broker, topic)
    assert len(received) < len(sent)
    assert sent.endswith(received)


def test_a_client_that_cannot_abort_has_a_process_of_its_own_which_is_killed(broker: Broker, topic: str) -> None:
    driver_or_skip(GO)
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as other:
        client = connect(broker.addresses.service_url, timeout_s=TIMEOUT_S)
        assert isinstance(client, RemoteClient)
        producer = client.open_producer(topic, name="p")
        client.abort()
        assert not psutil.pid_exists(client.driver.pid)
        lost = producer.send(1, b"after the end")
        assert isinstance(producer.answer(lost, timeout_s=TIMEOUT_S), Lost)
        with pytest.raises(ConnectionLost):
            producer.close()
        again = other.open_producer(topic, name="p")
        assert isinstance(again.answer(again.send(1, b"x"), timeout_s=TIMEOUT_S), Receipt)


@pytest.mark.parametrize(
    ("name", "known"),
    [(JAVA, None), (GO, "known_failing_of_go.txt"), pytest.param(RUST, None, marks=A_WEEK)],
)
def test_a_driver_of_the_suite_keeps_its_contract_but_for_known_failures_of_its_client(
    name: str, known: str | None
) -> None:
    command = driver_or_skip(name)
    file = None if known is None else Path(__file__).with_name(known)
    out = Console(file=io.StringIO(), width=200)
    assert driver_test(command.command, out, known_failing=file) == 0, out.file


@pytest.mark.parametrize("name", [GO, RUST])
def test_a_compiler_that_is_missing_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessError, match=rf"is compiled with {COMPILED[name]}, which is not on the path\.$"):
        driver_of(name, print)
