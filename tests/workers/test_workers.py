"""Workers: their reports arrive, and none outlives the suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conformance.clients.outcomes import NoAnswer
from conformance.clients.security.service import Service
from conformance.ended import EndedProcesses, ProcessEnd
from conformance.harness_error import HarnessError
from conformance.workers.protocol import Close, Ended, GaveUp, ProduceOrder, Report, read_report
from conformance.workers.starter import Starter, Worker
from tests.waits import descendants, eventually

MODULE = "tests.workers.scripted_worker"
ROOT = Path(__file__).parents[2]
WAITING = GaveUp("waiting")
TIMEOUT_S = 30.0


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter[Report]]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the tests, which no process finds by itself
    starter = Starter(MODULE, read_report)
    yield starter
    starter.close()


def started(starter: Starter[Report], what: str, name: str = "") -> Worker[Report]:
    return starter.run(ProduceOrder(Service.of("pulsar://localhost"), what, name, 1.0))


def processes_of(pid: int) -> list[psutil.Process]:
    return [one for one, command in descendants(psutil.Process(pid)) if MODULE in command]


def test_reports_and_orders_arrive_and_a_worker_ends_when_asked(starter: Starter[Report]) -> None:
    worker = started(starter, "close")
    assert worker.receive(TIMEOUT_S) == WAITING
    worker.send(Close())
    assert worker.receive(TIMEOUT_S) == Ended(0)
    worker.await_end()


def test_a_worker_with_a_bug_is_a_harness_error_with_its_traceback(starter: Starter[Report]) -> None:
    with pytest.raises(HarnessError, match="ValueError: a bug"):
        started(starter, "crash").receive(TIMEOUT_S)


def test_a_silent_worker_times_out_and_one_that_does_not_end_is_a_harness_error(starter: Starter[Report]) -> None:
    worker = started(starter, "never")
    assert worker.receive(TIMEOUT_S) == WAITING
    with pytest.raises(NoAnswer):
        worker.receive(0.01)
    with pytest.raises(HarnessError, match="did not end"):
        worker.await_end(0.01)


def test_closing_leaves_no_process_and_no_folder(starter: Starter[Report]) -> None:
    assert started(starter, "never").receive(TIMEOUT_S) == WAITING
    folder, processes = starter.folder, processes_of(os.getpid())
    assert folder.is_dir()
    assert len(processes) == 2, "the one that is forked, and the worker"
    starter.close()
    eventually(lambda: not folder.exists() and not any(one.is_running() for one in processes))


def test_workers_may_write_after_the_suite_was_killed_and_then_end(tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = (
        "import threading\n"
        "from tests.workers.test_workers import *\n"
        "starter = Starter(MODULE, read_report)\n"
        f"workers = [started(starter, 'late', {str(written)!r}), started(starter, 'never')]\n"
        "[worker.receive(TIMEOUT_S) for worker in workers]\nprint('ready', flush=True)\nthreading.Event().wait()\n"
    )
    suite = subprocess.Popen(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    assert suite.stdout is not None
    assert suite.stdout.readline() == "ready\n"
    processes = processes_of(suite.pid)
    assert len(processes) == 3
    suite.send_signal(signal.SIGKILL)
    suite.wait()
    eventually(lambda: not any(one.is_running() for one in processes))
    assert written.read_text() == "written"


def test_a_worker_that_a_signal_ended_is_reported_and_one_that_was_asked_to_end_is_not(
    starter: Starter[Report],
) -> None:
    with EndedProcesses() as listener:
        for what in ("close", "never"):
            worker = started(starter, what)
            assert worker.receive(TIMEOUT_S) == WAITING
            before, *others = (one for one in processes_of(os.getpid()) if one.ppid() != os.getpid())
            assert not others
            if what == "close":
                worker.send(Close())
                worker.await_end()
            else:
                before.kill()
        ends: list[ProcessEnd] = []

        def has_heard() -> bool:
            ends.extend(listener.new())
            return bool(ends)

        eventually(has_heard)
    (end,) = ends
    assert (end.process, end.pid, end.status, end.is_of_release) == ("worker", before.pid, -signal.SIGKILL, False)


def test_a_starter_that_was_killed_is_reported_once(starter: Starter[Report]) -> None:
    with EndedProcesses() as listener:
        assert started(starter, "close").receive(TIMEOUT_S) == WAITING
        (process,) = (one for one in processes_of(os.getpid()) if one.ppid() == os.getpid())
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(HarnessError, match="is gone"):
            started(starter, "close")
        starter.close()
        (end,) = listener.new()
    assert (end.process, end.pid, end.status) == (f"starter of {MODULE}", process.pid, -signal.SIGKILL)
