"""Fixtures of the tests of faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from tests.faults.bench import Bench


@pytest.fixture
def bench(broker: Broker) -> Iterator[Bench]:
    """A topic of this test's own."""
    made = Bench(broker)
    try:
        yield made
    finally:
        made.close()
