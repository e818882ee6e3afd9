"""A broker with the machines' settings, and a topic on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.select import parse_broker
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from tests.lockstep.cursor_stage import Stage


@pytest.fixture(scope="package")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The broker named by ``--broker``, with the machines' settings."""
    broker = parse_broker(request.config.getoption("--broker"), settings=SUITE_SETTINGS)
    try:
        broker.start()
        with RunPlace(broker) as place:
            world = World(broker, place=place)
            yield world
            world.close()
    except HarnessError as harness_error:
        pytest.exit(str(harness_error), returncode=2)
    finally:
        broker.stop()


@pytest.fixture
def stage(world: World) -> Iterator[Stage]:
    """A topic whose cursors are persisted with every ack."""
    stage = Stage(world)
    yield stage
    stage.performer.close()
