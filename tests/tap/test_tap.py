"""An application that nobody changed is recorded through the tap, and its history is judged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pulsar
import pytest

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.security.service import Service
from conformance.faults.catalogue import broker_defects, defects
from conformance.faults.defects import switched
from conformance.faults.wire import WireDefect
from conformance.harness_error import HarnessError
from conformance.history.recorded import CallOutcome, Kind, Recorded
from conformance.pipeline.topic import VerificationSetting
from conformance.proxy.proxy import Proxy
from conformance.tap.request import TapRequest, TapResult
from conformance.tap.run import Tap
from tests.cli.command_line import start
from tests.pipeline.histories import random_histories
from tests.tap import application
from tests.waits import TIMEOUT_S, eventually

HOST = "127.0.0.1"


def recorded(
    broker: Broker, folder: Path, topic: str, *application: str, service_url: str | None = None, with_admin: bool = True
) -> tuple[TapResult, list[Recorded], list[str]]:
    """What the tap records of an application, and what it says."""
    said: list[str] = []
    asked = TapRequest(
        host=HOST,
        port=0,
        service=broker.addresses.service if service_url is None else Service(service_url),
        admin=Service(broker.addresses.admin_url) if with_admin else None,
        history=folder,
    )
    tap = Tap(asked, say=said.append)
    try:
        command = [sys.executable, "-m", "tests.tap.application", tap.url, topic, *application]
        subprocess.run(command, check=True, timeout=4 * TIMEOUT_S)
    finally:
        result = tap.stop()
    return result, random_histories.read(folder), said


def judged(events: list[Recorded]) -> dict[str, tuple[int, int]]:
    return random_histories.judged(events, setting=VerificationSetting(), rows_of_a_batch=1000)


def exercised(results: dict[str, tuple[int, int]]) -> set[str]:
    return {name for name, (times, _) in results.items() if times}


@pytest.fixture
def tap(broker: Broker, tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts the command with these options; the process, and what clients connect to."""
    with ExitStack() as stack:

        def started(*options: str) -> tuple[subprocess.Popen[str], str]:
            words = ("--listen", f"{HOST}:0", "--broker", broker.addresses.service_url, "--history", "history")
            process = stack.enter_context(start("tap", "tap", *words, *options, folder=tmp_path))
            stack.callback(process.kill)
            assert process.stderr is not None
            return process, process.stderr.readline().split()[3]

        yield started


@pytest.fixture
def topic(admin: Admin, namespace: str) -> str:
    """The name of a topic that the application creates."""
    return f"persistent://{namespace}/tapped-{uuid.uuid4().hex[:8]}"


BOTH = {"lost", "missed", "stored twice", "out of order", "sent by nobody", "delivered otherwise", "positions rise"}
"""What is exercised in all subscriptions."""

APPLICATIONS = {
    ("Shared",): BOTH | {"shared one at a time", "redelivered without request", "mark delete over a hole"},
    ("Shared", "chunks"): BOTH | {"chunked missed by all", "chunks agree", "delivered whole", "stored once in order"},
    ("Key_Shared",): BOTH | {"one consumer at a time", "keys in order"},
    ("Key_Shared", "batches"): (BOTH - {"stored twice", "out of order"}) | {"one consumer at a time", "keys in order"},
    ("Failover", "chunks"): BOTH | {"chunked missed", "given in order"},
    ("Exclusive",): BOTH | {"given in order"},
}
"""What applications do, and what is exercised by it."""


@pytest.mark.parametrize("does", APPLICATIONS, ids=" ".join)
def test_an_application_is_recorded_and_breaks_no_rule(
    does: tuple[str, ...], broker: Broker, topic: str, tmp_path: Path
) -> None:
    result, events, _ = recorded(broker, tmp_path, topic, *does)
    results = judged(events)
    assert random_histories.broken_in(results) == set()
    assert exercised(results) >= APPLICATIONS[does]
    assert result.not_judged == {}
    kinds = Counter((event.kind, event.outcome) for event in events)
    assert kinds[Kind.SEND, CallOutcome.OK] == application.MESSAGES
    assert kinds[Kind.DRAINED, CallOutcome.OK] == 1


@pytest.mark.parametrize(
    ("defect", "does", "found"),
    [
        ("hash-with-two-consumers", "Key_Shared", "one consumer at a time"),
        ("nack-redelivers-all", "Shared", "redelivered without request"),
    ],
)
def test_a_defect_of_the_broker_is_found(
    defect: str, does: str, found: str, broker: Broker, topic: str, tmp_path: Path
) -> None:
    (named,) = [one for one in broker_defects() if one.name == defect]
    (agent,) = broker.load_agents()
    with switched(agent, named):
        _, events, _ = recorded(broker, tmp_path, topic, does)
    assert found in random_histories.broken_in(judged(events))


WITHOUT_LOG = {"positions rise", "read before sent", "one consumer at a time", "redelivered without request"}
"""What is exercised in a Key_Shared subscription without the log."""


@pytest.mark.parametrize(
    ("defect", "found"),
    [
        ("wire-chunk-corrupted", "delivered whole"),
        ("wire-chunk-repeated", "stored once in order"),
        ("wire-chunk-corrupted-before-storing", "delivered whole"),
    ],
)
def test_a_defect_on_the_wire_is_found(defect: str, found: str, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The defect is between the tap and the broker, as if the broker had it."""
    (named,) = [one for one in defects() if one.name == defect]
    assert isinstance(named, WireDefect)
    with Proxy(broker.addresses.service_url) as defective:
        for fault in named.faults:
            defective.inject(fault)
        _, events, _ = recorded(broker, tmp_path, topic, "Failover", "chunks", service_url=defective.url)
    assert found in random_histories.broken_in(judged(events))


def test_without_an_admin_api_nothing_is_judged_that_needs_the_log(broker: Broker, topic: str, tmp_path: Path) -> None:
    _, events, _ = recorded(broker, tmp_path, topic, "Key_Shared", with_admin=False)
    results = judged(events)
    assert random_histories.broken_in(results) == set()
    assert exercised(results) - {"events"} == WITHOUT_LOG


def test_a_port_in_use_is_one_sentence(broker: Broker, tmp_path: Path) -> None:
    with Proxy(broker.addresses.service_url) as other:
        port = int(other.url.rpartition(":")[2])
        asked = TapRequest(host=HOST, port=port, service=broker.addresses.service, admin=None, history=tmp_path)
        with pytest.raises(HarnessError, match="cannot listen on port"):
            Tap(asked, say=print)


def test_the_command_records_until_it_is_interrupted(
    broker: Broker, tap: Callable[..., tuple[subprocess.Popen[str], str]], topic: str, tmp_path: Path
) -> None:
    process, url = tap("--admin", broker.addresses.admin_url)
    subprocess.run([sys.executable, "-m", "tests.tap.application", url, topic, "Exclusive"], check=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, "Traceback" in err) == (0, False), err
    number = application.MESSAGES
    assert f"1 topic: {number} messages sent, {number} dispatched, {number} in the logs" in " ".join(out.split())
    assert random_histories.broken_in(judged(random_histories.read(tmp_path / "history"))) == set()


def test_what_was_written_before_a_kill_can_be_judged(
    tap: Callable[..., tuple[subprocess.Popen[str], str]], topic: str, tmp_path: Path
) -> None:
    process, url = tap()
    client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    producer = client.create_producer(topic)

    def is_written() -> bool:
        producer.send(b"x")
        return any(tmp_path.rglob("*.parquet"))

    eventually(is_written)
    process.kill()
    process.communicate()
    client.close()
    events = random_histories.read(tmp_path / "history")
    assert {event.kind for event in events} == {Kind.SEND}
    assert random_histories.broken_in(judged(events)) == set()
