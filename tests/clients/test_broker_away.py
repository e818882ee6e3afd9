"""The clients while the broker hangs, is killed and comes back: in time, and nothing known of a send is lost."""

from __future__ import annotations

import time

import pytest

from conformance.brokers.interface import Broker, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from model.log import Position
from tests.polling import TIMEOUT_S


def need(broker: Broker, capability: Capability) -> None:
    """Skip the test where the broker cannot be asked for that."""
    if capability not in broker.capabilities:
        pytest.skip(f"this broker cannot {capability.value}")


def logged(client: WireClient, topic: str) -> set[Position]:
    """Where something is stored."""
    return {entry.position for entry in read_log(client, topic, timeout_s=TIMEOUT_S)}


def test_a_broker_that_hangs_is_given_up_in_time_and_answers_when_it_goes_on(
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
        assert time.monotonic() - started < TIMEOUT_S, "they gave up after their own deadline"
    finally:
        broker.resume()
    outcome = producer.answer(ticket, timeout_s=TIMEOUT_S)
    assert isinstance(outcome, Receipt)
    assert logged(client, topic) == {outcome.position}
    # Whoever gave up opening "q" took it back, so that its name is free.
    assert client.open_producer(topic, name="q", timeout_s=TIMEOUT_S).name == "q"


def test_what_was_confirmed_before_a_kill_is_known_and_stored(
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
    # The same client connects again: it is a process that outlives its broker.
    assert told <= logged(another, topic)
    again = client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    assert again.last_sequence_id >= max(i for i, outcome in enumerate(outcomes) if isinstance(outcome, Receipt))
