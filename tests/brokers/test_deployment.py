"""Tests of the deployment of a release: the contract of all brokers, its settings, its processes, and how it fails.

They run on the release that ``--broker`` names, if it names one.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import urllib3

from conformance.brokers.deployment import DeploymentBroker
from conformance.brokers.interface import Broker, Capability
from conformance.brokers.select import parse_broker
from conformance.ended import EndedProcesses, ProcessEnd
from conformance.harness_error import HarnessError, NotReady
from conformance.lockstep.answers import Ends
from tests.brokers.contract import BrokerContract, MakeBroker, publish, read, started
from tests.brokers.traces import Traces, all_traces, runs
from tests.waits import eventually


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest) -> str:
    """What to write for a deployment."""
    text: str = request.config.getoption("--broker")
    if text.startswith(("container:", "pulsar:", "standalone:")):
        pytest.skip("--broker names no release")
    return text


@pytest.fixture(scope="module")
def make_broker(release: str) -> MakeBroker:
    return lambda: parse_broker(release)


@pytest.fixture(scope="module")
def broker(make_broker: MakeBroker) -> Iterator[Broker]:
    with started(make_broker()) as broker:
        yield broker


class TestContract(BrokerContract):
    """A deployment is a broker."""


def test_settings_reach_the_broker_or_its_bookie(broker: Broker) -> None:
    in_force = {**configuration_of_bookie(), **runtime_configuration(broker)}
    assert broker.configuration["managedLedgerMaxEntriesPerLedger"] == "5"
    assert broker.configuration["journalFlushWhenQueueEmpty"] == "true"
    for name, value in broker.configuration.items():
        assert in_force.get(name) == value, name


def test_no_process_can_be_reached_from_another_machine(broker: Broker) -> None:
    broker.load_agents()
    assert isinstance(broker, DeploymentBroker)
    processes = [one.process.pid() for one in broker.deployment.members.all]
    listening = {
        connection.laddr.ip
        for pid in processes
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_a_kill_and_a_restart_end_only_the_broker_not_bookie_or_zookeeper(broker: Broker) -> None:
    before = traces()
    broker.kill()
    assert not any(map(runs, [before.broker]))
    broker.start()
    between = traces()
    broker.restart()
    after = traces()
    assert len({one.broker for one in (before, between, after)}) == 3
    assert {(one.zookeeper, one.bookie) for one in (before, between, after)} == {(before.zookeeper, before.bookie)}


def test_a_restart_with_a_setting_of_the_bookie_restarts_the_bookie_with_its_data(broker: Broker) -> None:
    publish(broker, "kept-by-the-bookie", ["one"])
    before = traces()
    broker.restart({"journalMaxBackups": "3"})
    between = traces()
    assert configuration_of_bookie()["journalMaxBackups"] == "3"
    broker.restart({})
    assert configuration_of_bookie()["journalMaxBackups"] != "3"
    assert between.bookie != before.bookie
    assert traces().zookeeper == before.zookeeper
    assert read(broker, "kept-by-the-bookie") == ["one"]


def test_a_paused_broker_can_be_killed(broker: Broker) -> None:
    publish(broker, "killed-while-paused", ["one"])
    broker.pause()
    broker.kill()
    broker.start()
    assert read(broker, "killed-while-paused") == ["one"]


def test_starting_a_running_broker_is_a_harness_error_and_leaves_it_running(broker: Broker) -> None:
    with pytest.raises(HarnessError, match="runs already"):
        broker.start()
    assert broker.is_alive()


def test_settings_are_overridden_by_name_and_the_agent_is_optional(release: str) -> None:
    broker = parse_broker(release, settings={"brokerDeduplicationEntriesInterval": "7"}, with_agent=False)
    with started(broker):
        assert runtime_configuration(broker)["brokerDeduplicationEntriesInterval"] == "7"
        with pytest.raises(HarnessError, match="no agent"):
            broker.load_agents()
        assert Capability.DEFECTS not in broker.capabilities


def test_a_broker_that_cannot_start_is_a_harness_error_with_the_end_of_its_log(release: str) -> None:
    broker = parse_broker(release, settings={"managedLedgerDefaultEnsembleSize": "none"})
    began = time.monotonic()
    with pytest.raises(HarnessError, match=r"ended with status 1.*\n[\s\S]*none"):
        broker.start()
    assert time.monotonic() - began < 60
    assert not broker.is_alive()


def test_a_broker_that_cannot_restart_keeps_its_data_and_addresses_for_the_next_start(release: str) -> None:
    with started(parse_broker(release)) as broker:
        addresses = broker.addresses
        publish(broker, "kept", ["a", "b"])
        with pytest.raises(HarnessError, match="ended with status 1"):
            broker.restart({"managedLedgerDefaultEnsembleSize": "none"})
        with pytest.raises(HarnessError, match="ended with status 1"):
            broker.start()
        assert not broker.is_alive()
        assert isinstance(broker, DeploymentBroker)
        broker.deployment.follow({})
        broker.start()
        assert broker.addresses == addresses
        assert read(broker, "kept") == ["a", "b"]


@pytest.mark.parametrize("who", ["zookeeper", "bookie", "broker"])
def test_a_process_that_was_killed_is_reported_and_the_next_request_is_a_harness_error(release: str, who: str) -> None:
    with EndedProcesses() as listener, started(parse_broker(release)) as broker:
        process: psutil.Process = getattr(traces(), who)
        process.kill()
        ends: list[ProcessEnd] = []

        def is_reported() -> bool:
            ends.extend(listener.new())
            return bool(ends)

        eventually(is_reported)
        assert not broker.is_alive()
        (end,) = ends
        assert (end.process, end.pid, end.status) == (who, process.pid, -signal.SIGKILL)
        assert end.log_tail
        assert Ends().told(broker) is None, "it did not end by itself"
        whole = "The broker" if who == "broker" else f"The {who} of the broker"
        with pytest.raises(HarnessError, match=rf"^{whole} \S+ is not running, it ended with status -9\."):
            broker.restart()


def test_no_process_that_the_suite_ends_is_reported(release: str) -> None:
    with EndedProcesses() as listener:
        with started(parse_broker(release)) as broker:
            broker.kill()
            broker.start()
            broker.restart()
            broker.pause()
            broker.kill()
        assert list(listener.new()) == []


def test_a_java_that_crashes_is_reported_with_what_it_wrote_about_that(release: str) -> None:
    with EndedProcesses() as listener, started(parse_broker(release)) as broker:
        traces().broker.send_signal(signal.SIGSEGV)
        eventually(lambda: broker.ended_with() is not None)
        (end,) = listener.new()
    assert (end.process, end.status) == ("broker", -signal.SIGABRT)
    assert end.log_tail.startswith("#\n# A fatal error has been detected by the Java Runtime Environment")


def test_a_java_without_memory_ends_as_its_log_says(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.brokers.processes.broker.BROKER_MEMORY", ("-Xmx24m",))
    with pytest.raises(NotReady, match=r"ended with status 3 [\s\S]*java.lang.OutOfMemoryError"):
        parse_broker(release).start()


def test_that_a_broker_ended_by_itself_is_told_once(broker: Broker) -> None:
    assert broker.ended_with() is None
    traces().broker.terminate()
    try:
        eventually(lambda: broker.ended_with() is not None)
        ends = Ends()
        assert [ends.told(broker) is not None for _ in range(2)] == [True, False]
    finally:
        broker.start()


def test_a_folder_that_is_no_distribution_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=re.escape(f"{tmp_path} is not an unpacked Pulsar distribution")):
        parse_broker(f"dist:{tmp_path}")


def traces() -> Traces:
    """What there is of the deployment that was started last."""
    return all_traces(psutil.Process())[-1]


def configuration_of_bookie() -> dict[str, str]:
    """What the bookie of the deployment that was started last was given, as it reads it: of a name, the first value."""
    (file,) = traces().folder.glob("bookie.conf")
    lines = [line.partition("=") for line in reversed(file.read_text().splitlines()) if not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in lines}


def runtime_configuration(broker: Broker) -> dict[str, str]:
    answer = urllib3.request("GET", f"{broker.addresses.admin_url}/admin/v2/brokers/configuration/runtime")
    configuration: dict[str, str] = json.loads(answer.data)
    return configuration
