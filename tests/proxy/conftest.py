"""A proxy in front of the session's broker, and both clients through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.clients.driver.client import OfficialClient
from conformance.clients.wire.client import WireClient
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.proxy import Proxy
from tests.clients.conftest import admin, client, namespace, topic
from tests.waits import TIMEOUT_S

__all__ = ["admin", "client", "namespace", "topic"]


@pytest.fixture
def events() -> EventBuffer:
    """The events that the proxy recorded."""
    return EventBuffer()


@pytest.fixture
def proxy(broker: Broker, events: EventBuffer) -> Iterator[Proxy]:
    """A proxy that records events, with digests."""
    with Proxy(broker.addresses.service_url, record=events, with_digests=True) as proxy:
        yield proxy


@pytest.fixture
def wire(proxy: Proxy) -> Iterator[WireClient]:
    """The wire client, through the proxy."""
    client = WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)
    yield client
    client.abort()


@pytest.fixture
def official(proxy: Proxy) -> Iterator[OfficialClient]:
    """pulsar-client, through the proxy."""
    with OfficialClient(proxy.url, timeout_s=TIMEOUT_S) as client:
        yield client
        proxy.stop()  # before the client: one that has reconnected may take 20 s to shut down otherwise
