"""The relay, between clients and a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.systems.admin import Admin
from conformance.systems.outcomes import ConnectionLost
from conformance.systems.relay import Relay
from conformance.systems.wire import WireClient
from tests.polling import eventually
from tests.systems.test_wire_consumer import subscribed, take, write

TIMEOUT_S = 10.0


@pytest.fixture
def relay(broker: Broker) -> Iterator[Relay]:
    """A relay to the broker."""
    relay = Relay(broker.addresses.service_url)
    yield relay
    relay.cut()


def test_what_goes_through_a_relay_is_what_was_sent(relay: Relay, admin: Admin, client: WireClient, topic: str) -> None:
    through = WireClient.connect(relay.url, timeout_s=TIMEOUT_S)
    write(through, topic, 3)
    assert [delivery.payload for delivery in take(subscribed(through, topic, permits=3), 3)] == [b"1", b"2", b"3"]
    (consumer,) = admin.stats(topic).subscriptions["s"].consumers
    assert relay.carries(consumer.address)
    subscribed(client, topic)
    assert sum(relay.carries(one.address) for one in admin.stats(topic).subscriptions["s"].consumers) == 1
    through.abort()


def test_a_relay_that_is_cut_cuts_its_clients_off(relay: Relay, admin: Admin, topic: str) -> None:
    through = WireClient.connect(relay.url, timeout_s=TIMEOUT_S)
    consumer = subscribed(through, topic)
    relay.cut()
    eventually(lambda: not admin.stats(topic).subscriptions["s"].consumers)
    with pytest.raises(ConnectionLost):
        consumer.receive(timeout_s=TIMEOUT_S)
    with pytest.raises(ConnectionLost):
        WireClient.connect(relay.url, timeout_s=TIMEOUT_S)


def test_a_relay_to_nobody_lets_nobody_in() -> None:
    relay = Relay("pulsar://127.0.0.1:1")
    with pytest.raises(ConnectionLost):
        WireClient.connect(relay.url, timeout_s=TIMEOUT_S)
    relay.cut()
