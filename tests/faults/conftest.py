"""Fixtures of the tests of faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from tests.faults.topic_fixture import TopicFixture


@pytest.fixture
def fixture(broker: Broker) -> Iterator[TopicFixture]:
    """A topic of this test's own."""
    made = TopicFixture(broker)
    try:
        yield made
    finally:
        made.close()
