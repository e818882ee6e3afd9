"""Seeding a defect of the wire, in front of a real broker. What each of them breaks is shown in ``tests/replays``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt
from conformance.faults.seeded_defect import SeededWireDefect, seed_defect
from conformance.harness_error import HarnessError
from tests.faults.topic_fixture import TopicFixture
from tests.waits import TIMEOUT_S

LARGE = b"0123456789" * 2500
"""A message of three chunks."""


@pytest.fixture
def seeded(broker: Broker) -> Iterator[SeededWireDefect]:
    """A wire that loses chunks."""
    made = seed_defect(broker, "wire-chunk-lost")
    assert isinstance(made, SeededWireDefect)
    yield made
    made.close()


def is_delivered(fixture: TopicFixture, seeded: SeededWireDefect, name: str) -> bool:
    """Whether a large message on a topic of its own arrives, before a small one that is sent after it."""
    topic = f"{fixture.topic}-{name}"
    fixture.admin.set_namespace_deduplication(fixture.namespace, False)
    with OfficialClient(seeded.service, timeout_s=TIMEOUT_S) as client:
        consumer = client.subscribe(topic, "s", kind="Exclusive", initial="earliest")
        producer = client.open_producer(topic, name="p", chunking=True)
        for ticket in [producer.send(1, LARGE), producer.send(2, b"small")]:
            assert isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt)
        first = consumer.receive(timeout_s=TIMEOUT_S)
        assert first is not None
        return first.payload == LARGE


def test_a_defect_is_on_the_wire_except_while_it_is_taken_out(
    fixture: TopicFixture, broker: Broker, seeded: SeededWireDefect
) -> None:
    assert not is_delivered(fixture, seeded, "defective")
    with seeded.taken_out():
        assert is_delivered(fixture, seeded, "sound")
    seeded.give(broker)  # like every start of the broker
    assert not is_delivered(fixture, seeded, "defective-again")


def test_a_defect_that_no_client_met_is_a_harness_error(seeded: SeededWireDefect) -> None:
    with pytest.raises(HarnessError, match="no client came through the proxy"), seeded.taken_out():
        pass
