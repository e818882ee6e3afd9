"""Every seeded defect of the wire, in front of a real broker: its effect is visible while it is on, and only then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.interface import Broker
from conformance.clients.security.service import Service
from conformance.faults.seeding import SeededWireDefect, seed_defect
from conformance.faults.wire import WIRE_DEFECTS, WireDefect
from conformance.harness_error import HarnessError
from tests.faults.chunking_effects import SOUND, WIRE_EFFECTS, chunked
from tests.faults.effect_fixtures import Bench
from tests.faults.effects import Observation, seen


@pytest.fixture
def seeded(request: pytest.FixtureRequest, broker: Broker) -> Iterator[SeededWireDefect]:
    """A wire with the defect of the test."""
    made = seed_defect(broker, request.getfixturevalue("defect").name)
    assert isinstance(made, SeededWireDefect)
    yield made
    made.close()


def observe(broker: Broker, service: Service) -> Observation:
    """Send and receive on a separate topic."""
    bench = Bench(broker)
    try:
        return chunked(bench, service)
    finally:
        bench.close()


def test_every_defect_has_a_documented_effect() -> None:
    assert list(WIRE_EFFECTS) == sorted(defect.name for defect in WIRE_DEFECTS)


@pytest.mark.parametrize("defect", WIRE_DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_has_its_effect_only_while_it_is_on(
    broker: Broker, defect: WireDefect, seeded: SeededWireDefect
) -> None:
    effect = WIRE_EFFECTS[defect.name]
    assert seen(effect, lambda: observe(broker, seeded.service)) == effect
    with seeded.taken_out():
        assert seen(SOUND, lambda: observe(broker, seeded.service)) == SOUND
    seeded.give(broker)  # like every start of the broker
    assert seen(effect, lambda: observe(broker, seeded.service)) == effect
    assert seen(SOUND, lambda: observe(broker, broker.addresses.service)) == SOUND, "without the proxy nothing is wrong"


@pytest.mark.parametrize("defect", WIRE_DEFECTS[:1], ids=lambda defect: defect.name)
def test_a_defect_that_no_client_met_is_a_harness_error(defect: WireDefect, seeded: SeededWireDefect) -> None:
    with pytest.raises(HarnessError, match="no client came through the proxy"), seeded.taken_out():
        pass
