"""Tests of the distribution broker: the contract of all brokers, its settings, and how it fails.

They run on the release that ``--broker`` names, if it names one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import urllib3

from conformance.brokers.distribution import DistributionBroker
from conformance.brokers.interface import Broker, Capability
from conformance.brokers.release import Release
from conformance.brokers.select import parse_broker
from conformance.harness_error import HarnessError
from tests.brokers.contract import BrokerContract, MakeBroker, started
from tests.brokers.processes import all_traces
from tests.polling import eventually


@pytest.fixture(scope="module")
def distribution(request: pytest.FixtureRequest) -> str:
    """What to write for a distribution broker."""
    text: str = request.config.getoption("--broker")
    if text.startswith(("container:", "pulsar:")):
        pytest.skip("--broker names no distribution")
    return text


@pytest.fixture(scope="module")
def make_broker(distribution: str) -> MakeBroker:
    return lambda: parse_broker(distribution)


@pytest.fixture(scope="module")
def broker(make_broker: MakeBroker) -> Iterator[Broker]:
    with started(make_broker()) as broker:
        yield broker


class TestContract(BrokerContract):
    """A distribution broker is a broker."""


def test_its_settings_reach_the_broker_and_its_bookie(broker: Broker) -> None:
    of_broker = runtime_configuration(broker)
    of_bookie = broker.log_tail(lines=100_000)  # which writes its configuration to the log when it starts
    assert broker.configuration["managedLedgerMaxEntriesPerLedger"] == "5"
    for name, value in broker.configuration.items():
        assert of_broker.get(name) == value or f'"{name}" : "{value}"' in of_bookie, name


def test_starting_one_that_runs_is_harness_error_and_leaves_it_running(broker: Broker) -> None:
    with pytest.raises(HarnessError, match="runs already"):
        broker.start()
    assert broker.is_alive()


def test_settings_are_overridden_by_name_and_the_agent_may_be_left_out(distribution: str) -> None:
    broker = parse_broker(distribution, settings={"brokerDeduplicationEntriesInterval": "7"}, with_agent=False)
    with started(broker):
        assert runtime_configuration(broker)["brokerDeduplicationEntriesInterval"] == "7"
        assert broker.agent is None
        assert Capability.DEFECTS not in broker.capabilities


def test_a_broker_that_cannot_start_is_harness_error_at_once_with_the_end_of_its_log(distribution: str) -> None:
    broker = parse_broker(distribution, settings={"managedLedgerDefaultEnsembleSize": "none"})
    began = time.monotonic()
    with pytest.raises(HarnessError, match=r"ended with status 1.*\n[\s\S]*none"):
        broker.start()
    assert time.monotonic() - began < 30
    assert not broker.is_alive()


def test_a_broker_that_ended_by_itself_is_harness_error_for_whoever_asks_something_of_it(distribution: str) -> None:
    with started(parse_broker(distribution)) as broker:
        all_traces(psutil.Process())[-1].java.kill()
        eventually(lambda: "ended with status -9" in complaint(broker.resume))
        assert not broker.is_alive()


def test_a_folder_that_is_no_distribution_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=re.escape(f"{tmp_path} is not an unpacked Pulsar distribution")):
        parse_broker(f"dist:{tmp_path}")


@pytest.mark.parametrize(("version", "can_be_killed"), [("2.11.0", False), ("3.1.3", False), ("3.2.0", True)])
def test_releases_before_3_2_are_not_killed_because_they_do_not_come_back(version: str, can_be_killed: bool) -> None:
    broker = DistributionBroker(Release(folder=Path("nowhere"), version=version))
    assert (Capability.KILL in broker.capabilities) == can_be_killed
    with pytest.raises(HarnessError, match="not been started" if can_be_killed else "does not come back after a kill"):
        broker.kill()


def complaint(operation: Callable[[], None]) -> str:
    """Return what it is failing on, if it is."""
    try:
        operation()
    except HarnessError as harness_error:
        return str(harness_error)
    return ""


def runtime_configuration(broker: Broker) -> dict[str, str]:
    answer = urllib3.request("GET", f"{broker.addresses.admin_url}/admin/v2/brokers/configuration/runtime")
    configuration: dict[str, str] = json.loads(answer.data)
    return configuration
