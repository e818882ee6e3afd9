"""Tests of the container broker on a real engine: the contract of all brokers, and that no container is left behind.

Without an engine, or an image of Pulsar in it, they are skipped; ``make test-container`` sees to both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import urllib3

from conformance.brokers.container import ContainerBroker
from conformance.brokers.containers.engine import DockerClient, connect
from conformance.brokers.containers.image import IMAGE_VARIABLE, present_image
from conformance.brokers.containers.leftovers import Claim, claimed, remove_leftovers
from conformance.brokers.interface import Broker
from conformance.faults.byteman import Agent
from conformance.harness_error import HarnessError
from tests.brokers.contract import BrokerContract, MakeBroker, publish, read, started
from tests.waits import eventually

RELEASE = "4.0.8"


@pytest.fixture(scope="module")
def engine() -> DockerClient:
    """The engine; where one was promised by naming an image, its absence is an error and no reason to skip."""
    try:
        return connect()
    except HarnessError as harness_error:
        if IMAGE_VARIABLE in os.environ:
            raise
        pytest.skip(str(harness_error))


@pytest.fixture(scope="module")
def image(engine: DockerClient) -> str:
    found = os.environ.get(IMAGE_VARIABLE) or present_image(engine, RELEASE)
    return found or pytest.skip(f"The engine has no image of Pulsar {RELEASE}: make test-container gets or builds one.")


@pytest.fixture(scope="module")
def make_broker(image: str) -> MakeBroker:
    return lambda: ContainerBroker(image)


@pytest.fixture(scope="module")
def broker(make_broker: MakeBroker) -> Iterator[Broker]:
    with started(make_broker()) as broker:
        yield broker


class TestContract(BrokerContract):
    """A container broker is a broker."""


def test_settings_reach_the_broker(image: str) -> None:
    with started(ContainerBroker(image, settings={"brokerDeduplicationMaxNumberOfProducers": "7"})) as broker:
        answer = urllib3.request("GET", f"{broker.addresses.admin_url}/admin/v2/brokers/configuration/runtime").json()
    assert answer["brokerDeduplicationMaxNumberOfProducers"] == "7"
    assert answer["managedLedgerMaxEntriesPerLedger"] == broker.configuration["managedLedgerMaxEntriesPerLedger"]


def test_a_paused_broker_can_be_killed(broker: Broker) -> None:
    publish(broker, "killed-while-paused", ["one"])
    broker.pause()
    broker.kill()
    broker.start()
    assert read(broker, "killed-while-paused") == ["one"]


def test_a_crashed_broker_is_restarted_with_its_data(broker: Broker) -> None:
    publish(broker, "crashed", ["one"])
    agent = Agent(broker.load_agents()[0])
    agent.load({"crash": CRASH_ON_LOOKUP})
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", f"{broker.addresses.admin_url}/admin/v2/brokers/version", retries=False)
    broker.start()
    assert read(broker, "crashed") == ["one"]


CRASH_ON_LOOKUP = """\
RULE crash when asked for the version
CLASS org.apache.pulsar.broker.admin.impl.BrokersBase
METHOD version
AT ENTRY
IF true
DO Runtime.getRuntime().halt(137)
ENDRULE
"""


def test_the_ports_are_open_only_to_this_machine(broker: Broker, engine: DockerClient) -> None:
    bindings = [
        (binding["HostIp"], f"{binding['HostPort']}/tcp" == inside)
        for container in engine.containers.list(filters={"label": "pulsar-conformance.claim"})
        for inside, published in container.attrs["NetworkSettings"]["Ports"].items()
        for binding in published or ()
    ]
    assert set(bindings) == {("127.0.0.1", True)}


def test_a_missing_image_is_one_clear_sentence(engine: DockerClient) -> None:
    with pytest.raises(HarnessError, match="There is no image localhost/no-such-image:1 here, and it cannot be pulled"):
        ContainerBroker("localhost/no-such-image:1").start()
    assert engine


def test_killing_the_suite_leaves_no_container(image: str, engine: DockerClient) -> None:
    with running(WITH_A_BROKER, image) as (suite, claim):
        assert claimed(engine, claim)
        suite.kill()
        eventually(lambda: not claimed(engine, claim))


def test_containers_left_by_a_killed_janitor_are_removed_by_the_next_run(image: str, engine: DockerClient) -> None:
    with running(WITH_A_CONTAINER, image) as (suite, claim):
        for janitor in psutil.Process(suite.pid).children():
            janitor.kill()
        suite.kill()
    assert claimed(engine, claim)
    remove_leftovers(engine)
    assert not claimed(engine, claim)


def test_a_container_in_use_by_another_run_is_not_removed(image: str, engine: DockerClient) -> None:
    with running(WITH_A_CONTAINER, image) as (_, claim):
        remove_leftovers(engine)
        assert claimed(engine, claim)
    eventually(lambda: not claimed(engine, claim))


def test_containers_of_an_unreachable_engine_are_left_to_the_next_run(
    image: str, engine: DockerClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as gone:
        gone.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
        claim = Claim()  # whose janitor knows no other engine
    engine.containers.create(image, "true", labels=dict(claim.labels))
    claim.release()
    assert claimed(engine, claim.name)
    remove_leftovers(engine)
    assert not claimed(engine, claim.name)


WITH_A_BROKER = """
import sys
from conformance.brokers.container import ContainerBroker
from conformance.brokers.startup.probe import Probe
broker = ContainerBroker(sys.argv[1])
broker.start()
[cluster] = Probe(broker.addresses.admin_url).clusters()
print(cluster.removeprefix("conformance-"), flush=True)
sys.stdin.read()
"""

WITH_A_CONTAINER = """
import sys
from conformance.brokers.containers.engine import connect
from conformance.brokers.containers.leftovers import Claim
claim = Claim()
connect().containers.create(sys.argv[1], "true", labels=dict(claim.labels))
print(claim.name, flush=True)
sys.stdin.read()
"""


@contextmanager
def running(script: str, image: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a script that stands for the suite until it has a container; yields its process and its claim's name."""
    with subprocess.Popen(
        [sys.executable, "-c", script, image], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        claim = process.stdout.readline().strip()
        assert claim, "the script ended before it had a container"
        yield process, claim
