"""Consumers of a broker without batch index acks, which is Pulsar's default."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.brokers.select import parse_broker
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace
from model.events import Range
from model.log import Position
from model.vocabulary import Client
from tests.lockstep.cursor_stage import Stage

clients = pytest.mark.parametrize("client", ["wire", "official"])


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    settings = {**SUITE_SETTINGS, "acknowledgmentAtBatchIndexLevelEnabled": "false"}
    broker = parse_broker(request.config.getoption("--broker"), settings=settings)
    try:
        broker.start()
        with RunPlace(broker) as place:
            world = World(broker, place=place)
            if world.traits.acknowledges_parts:
                pytest.skip("this broker acknowledges parts of batches, and is not ours to configure")
            yield world
            world.close()
    except HarnessError as harness_error:
        pytest.exit(str(harness_error), returncode=2)
    finally:
        broker.stop()


@clients
def test_a_batch_is_acknowledged_with_its_last_message(stage: Stage, client: Client) -> None:
    at = stage.send(3, batch=2)
    stage.subscribe(client=client, queue=10)
    assert stage.take(6) == ["1", "2", "3", "4", "5", "6"]
    assert stage.acknowledge(0, 3) == []
    assert (stage.read().ranges, stage.read().unacknowledged) == ((), 6)
    assert stage.acknowledge(2) == ["3", "4"]
    read = stage.read()
    assert (read.ranges, read.backlog, read.unacknowledged) == ((Range(at[0], at[1]),), 2, 4)
    assert stage.left() == ["1", "2", "5", "6"]


@clients
def test_a_cumulative_ack_within_a_batch_acknowledges_everything_before_the_batch(stage: Stage, client: Client) -> None:
    at = stage.send(2, batch=2)
    stage.subscribe(kind="Exclusive", client=client, queue=10)
    stage.take(4)
    assert stage.acknowledge(0, cumulative=True) == []
    assert stage.read().mark_delete == Position(at[0].ledger, -1)
    assert stage.acknowledge(2, cumulative=True) == ["2"]
    assert stage.read().mark_delete == at[0]
    assert stage.acknowledge(3, cumulative=True) == ["4"]
    assert stage.read().mark_delete == at[1]
