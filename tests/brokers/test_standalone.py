"""Tests of the all-in-one standalone: the contract of all brokers, and how it differs from a deployment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.brokers.interface import Broker, Capability
from conformance.brokers.release import Release
from conformance.brokers.select import parse_broker
from conformance.brokers.standalone import StandaloneBroker
from conformance.harness_error import HarnessError
from tests.brokers.contract import BrokerContract, MakeBroker, started
from tests.waits import descendants


@pytest.fixture(scope="module")
def make_broker(request: pytest.FixtureRequest) -> MakeBroker:
    text: str = request.config.getoption("--broker")
    if text.startswith(("container:", "pulsar:")):
        pytest.skip("--broker names no release")
    return lambda: parse_broker(f"standalone:{text.removeprefix('standalone:')}")


@pytest.fixture(scope="module")
def broker(make_broker: MakeBroker) -> Iterator[Broker]:
    with started(make_broker()) as broker:
        yield broker


class TestContract(BrokerContract):
    """A standalone is a broker."""


def test_a_standalone_is_one_process(broker: Broker) -> None:
    programs = [word for _, command in descendants() for word in command]
    assert "org.apache.pulsar.PulsarStandaloneStarter" in programs
    assert broker.name.startswith("standalone:")


@pytest.mark.parametrize(("version", "can_be_killed"), [("2.11.0", False), ("3.1.3", False), ("3.2.0", True)])
def test_releases_before_3_2_cannot_be_killed_because_they_do_not_restart(version: str, can_be_killed: bool) -> None:
    broker = StandaloneBroker(Release(folder=Path("nowhere"), version=version))
    assert (Capability.KILL in broker.capabilities) == can_be_killed
    with pytest.raises(HarnessError, match="not been started" if can_be_killed else "does not come back after a kill"):
        broker.kill()
