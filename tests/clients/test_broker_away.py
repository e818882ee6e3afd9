"""The clients while the broker is paused, killed and restarted: they time out, and no send outcome is lost."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conformance.brokers.interface import Broker, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from model.log import Position
from tests.waits import TIMEOUT_S


def need(broker: Broker, capability: Capability) -> None:
    """Skip the test if the broker lacks the capability."""
    if capability not in broker.capabilities:
        pytest.skip(f"this broker cannot {capability.value}")


def logged(client: WireClient, topic: str) -> set[Position]:
    """The positions of the stored entries."""
    return {entry.position for entry in read_log(client, topic, timeout_s=TIMEOUT_S)}


def test_requests_to_a_paused_broker_time_out_and_succeed_once_it_resumes(
    broker: Broker, client: WireClient, admin: Admin, topic: str
) -> None:
    need(broker, Capability.PAUSE)
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    broker.pause()
    try:
        started = time.monotonic()
        ticket = producer.send(1, b"x")
        with pytest.raises(NoAnswer):
            producer.answer(ticket, timeout_s=0.2)
        with pytest.raises(NoAnswer):
            client.open_producer(topic, name="q", timeout_s=0.2)
        with Admin(broker.addresses.admin_url, timeout_s=0.2) as hurried, pytest.raises(NoAnswer):
            hurried.stats(topic)
        assert time.monotonic() - started < TIMEOUT_S, "they timed out by their own deadline"
    finally:
        broker.resume()
    outcome = producer.answer(ticket, timeout_s=TIMEOUT_S)
    assert isinstance(outcome, Receipt)
    assert logged(client, topic) == {outcome.position}
    # The client that gave up opening "q" closed it, so that its name is free.
    assert client.open_producer(topic, name="q", timeout_s=TIMEOUT_S).name == "q"


def test_messages_confirmed_before_a_kill_are_stored(
    broker: Broker, client: WireClient, another: WireClient, topic: str
) -> None:
    need(broker, Capability.KILL)
    producer = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    tickets = [producer.send(i, b"x") for i in range(300)]
    first = producer.answer(tickets[0], timeout_s=TIMEOUT_S)
    assert isinstance(first, Receipt)
    broker.kill()
    outcomes = [producer.answer(ticket, timeout_s=TIMEOUT_S) for ticket in tickets]
    assert all(isinstance(outcome, Receipt | Lost) for outcome in outcomes)
    with pytest.raises(ConnectionLost):
        client.lookup(topic, timeout_s=1)
    broker.start()
    told = {outcome.position for outcome in outcomes if isinstance(outcome, Receipt)}
    # The same client reconnects: it is a process that outlives its broker.
    assert told <= logged(another, topic)
    again = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    assert again.last_sequence_id >= max(i for i, outcome in enumerate(outcomes) if isinstance(outcome, Receipt))


def test_a_lost_connection_says_nothing_about_a_request_that_may_exist() -> None:
    """Old releases answer OPTIONS with an error, and then close the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in (b"", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        with ThreadPoolExecutor(1) as serving:
            served = serving.submit(serve)
            with Admin(f"http://127.0.0.1:{server.getsockname()[1]}") as admin:
                assert not admin.has_request("persistent://t/n/topic", "path")
            served.result(TIMEOUT_S)
