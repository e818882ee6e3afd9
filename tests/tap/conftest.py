"""A tap before the session's broker, both clients through it, and the topics of the tests of systems."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.systems.official import OfficialClient
from conformance.systems.wire import WireClient
from conformance.tap.ring import Ring
from conformance.tap.tap import Tap
from tests.polling import TIMEOUT_S
from tests.systems.conftest import admin, client, namespace, topic

__all__ = ["admin", "client", "namespace", "topic"]


@pytest.fixture
def ring() -> Ring:
    """What the tap told."""
    return Ring()


@pytest.fixture
def tap(broker: Broker, ring: Ring) -> Iterator[Tap]:
    """A tap that records, with digests."""
    with Tap(broker.addresses.service_url, record=ring, with_digests=True) as tap:
        yield tap


@pytest.fixture
def wire(tap: Tap) -> Iterator[WireClient]:
    """The wire client, through the tap."""
    client = WireClient.connect(tap.url, timeout_s=TIMEOUT_S)
    yield client
    client.abort()


@pytest.fixture
def official(tap: Tap) -> Iterator[OfficialClient]:
    """pulsar-client, through the tap."""
    with OfficialClient(tap.url, timeout_s=TIMEOUT_S) as client:
        yield client
        tap.stop()  # before the client: one that has reconnected may take 20 s to shut down otherwise
