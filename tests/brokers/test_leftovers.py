"""Tests that nothing of a broker outlives the suite, however the suite ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from conformance.brokers.startup.runs import remove_stale
from tests.brokers.traces import Traces, all_traces, runs
from tests.waits import eventually

SUITE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where the tests run in the background
from conformance.brokers.select import parse_broker
broker = parse_broker("4.0.8")
broker.start()
print("ready", flush=True)
signal.pause()
"""


@contextmanager
def suite_with_a_broker(*, ready: bool = True) -> Iterator[tuple[subprocess.Popen[str], Traces]]:
    """A process of its own that starts a broker, with its traces, once it is ready or as soon as there is a process."""
    command = [sys.executable, "-c", SUITE]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as suite:
        try:
            if ready:
                assert suite.stdout is not None
                assert suite.stdout.readline() == "ready\n"
            process = psutil.Process(suite.pid)
            eventually(lambda: all_traces(process))
            yield suite, all_traces(process)[0]
        finally:
            suite.kill()


@pytest.mark.parametrize(("number", "ready"), [(signal.SIGKILL, True), (signal.SIGKILL, False), (signal.SIGINT, True)])
def test_nothing_outlives_a_suite_that_is_ended_by_a_signal(number: signal.Signals, ready: bool) -> None:
    with suite_with_a_broker(ready=ready) as (suite, traces):
        assert traces.left() == [*traces.processes, traces.folder]
        suite.send_signal(number)
        assert suite.wait(timeout=60) == -number
        eventually(lambda: traces.left() == [])


def test_all_processes_die_with_their_guardian_and_the_next_run_removes_the_folder() -> None:
    with suite_with_a_broker() as (suite, traces):
        remove_stale(traces.folder.parent)
        assert traces.left() == [*traces.processes, traces.folder]
        traces.guardian.kill()
        eventually(lambda: not any(map(runs, traces.processes)))
        suite.kill()
        suite.wait()
        assert traces.left() == [traces.folder]
        remove_stale(traces.folder.parent)
        assert traces.left() == []
