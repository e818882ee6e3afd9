"""A namespace with retention and deduplication on the session's broker, and a new topic in it for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import NamespacePolicies, Retention
from conformance.clients.wire.client import WireClient
from tests.waits import TIMEOUT_S


@pytest.fixture(scope="session")
def admin(broker: Broker) -> Iterator[Admin]:
    """The broker's admin interface."""
    with Admin(broker.addresses.admin_url) as admin:
        yield admin


@pytest.fixture(scope="session")
def namespace(admin: Admin) -> str:
    """A namespace of this session."""
    namespace = f"public/systems-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace, NamespacePolicies(retention=Retention(), deduplication=True))
    return namespace


@pytest.fixture
def topic(admin: Admin, namespace: str) -> str:
    """An existing, empty topic."""
    topic = f"persistent://{namespace}/{uuid.uuid4().hex[:8]}"
    admin.create_topic(topic)
    return topic


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    """A wire client."""
    client = WireClient.connect(broker.addresses.service_url, timeout_s=TIMEOUT_S)
    yield client
    client.abort()


@pytest.fixture
def another(broker: Broker) -> Iterator[WireClient]:
    """Another one, as if in another process."""
    client = WireClient.connect(broker.addresses.service_url, timeout_s=TIMEOUT_S)
    yield client
    client.abort()
