"""The drivers of the suite, on a real broker: what one client sends, another receives, and the wire client sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.brokers.installation.java import find_java
from conformance.brokers.interface import Broker
from conformance.clients.driver.connect import client_info, connect, use, versions
from conformance.clients.outcomes import Receipt, ServerRefused
from conformance.drivers.catalogue import driver_of
from conformance.drivers.contract.run import run
from tests.clients.conftest import admin, namespace, topic
from tests.waits import TIMEOUT_S

__all__ = ["admin", "namespace", "topic"]

JAVA = "java:4.0.8"
PYTHON = "python:3.12.0"


def driver_or_skip(name: str) -> None:
    if name == JAVA and not Path(find_java().executable).with_name("javac").exists():
        pytest.skip("there is no javac to compile the driver of the Java client")
    use(driver_of(name, print))


@pytest.fixture(autouse=True)
def no_driver_afterwards() -> Iterator[None]:
    yield
    use(None)


@pytest.mark.parametrize("name", [JAVA, PYTHON])
def test_a_driver_sends_receives_and_passes_refusals_on(name: str, broker: Broker, topic: str) -> None:
    driver_or_skip(name)
    assert [client_info().name, client_info().version] == name.split(":")
    assert versions()[name.split(":")[0]] == name.split(":")[1]
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as client:
        producer = client.open_producer(topic, name="p", batching=True)
        tickets = producer.send_batch([(1, b"one"), (2, b"two")], keys=[("k", None), ("k", None)])
        receipts = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
        assert [isinstance(one, Receipt) and one.batch_index for one in receipts] == [0, 1]
        assert producer.last_sequence_id == 2
        consumer = client.subscribe(topic, "s", kind="Exclusive", initial="earliest", consumer_name="c")
        received = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(2)]
        assert [one and (one.payload, one.key, one.topic) for one in received] == [
            (b"one", "k", topic),
            (b"two", "k", topic),
        ]
        with pytest.raises(ServerRefused, match="ConsumerBusy"):
            client.subscribe(topic, "s", kind="Exclusive", initial="earliest")


def test_one_client_receives_the_chunks_that_another_sent(broker: Broker, topic: str) -> None:
    payload = bytes(range(256)) * 24_000
    driver_or_skip(JAVA)
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as java:
        sender = java.open_producer(topic, name="p", chunking=True)
        assert isinstance(sender.answer(sender.send(1, payload), timeout_s=TIMEOUT_S), Receipt)
    use(driver_of(PYTHON, print))
    with connect(broker.addresses.service_url, timeout_s=TIMEOUT_S) as python:
        consumer = python.subscribe(topic, "s", kind="Exclusive", initial="earliest")
        delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    assert delivery.payload == payload


def test_the_driver_of_the_java_client_keeps_its_contract() -> None:
    driver_or_skip(JAVA)
    command = driver_of(JAVA, print)
    assert [one for one in run(command.command, name=JAVA) if one.outcome != "kept"] == []
