"""Tests of guarded processes, with processes that are quicker than a broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conformance.brokers.installation.cache import ENVIRONMENT_VARIABLE
from conformance.brokers.startup.runs import GuardedProcess, RunFolder, remove_stale
from conformance.ended import EndedProcesses, ProcessEnd
from conformance.harness_error import HarnessError
from tests.brokers.traces import runs
from tests.waits import eventually

SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]
LISTEN = [
    sys.executable,
    "-c",
    "import signal, socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); "
    "signal.pause()",
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[RunFolder]:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path))
    run = RunFolder()
    yield run
    run.close()


@pytest.fixture
def guarded(run: RunFolder) -> GuardedProcess:
    return GuardedProcess(run, "one")


@pytest.fixture
def another(run: RunFolder) -> GuardedProcess:
    return GuardedProcess(run, "another")


def guardian_of(run: RunFolder) -> psutil.Process:
    return next(child for child in psutil.Process().children() if str(run.path) in child.cmdline())


def ward(guarded: GuardedProcess) -> psutil.Process:
    return psutil.Process(guarded.pid())


def test_the_log_has_the_output_of_a_process_and_its_exit_status_is_known(guarded: GuardedProcess) -> None:
    guarded.start([sys.executable, "-c", "import sys; print('said'); sys.exit(3)"])
    eventually(lambda: guarded.exit_status() is not None)
    assert guarded.exit_status() == 3
    assert guarded.log.read_text() == "said\n"


def test_the_output_of_a_process_is_separate_from_that_of_the_previous_one(guarded: GuardedProcess) -> None:
    for number in ("one", "two"):
        guarded.start([sys.executable, "-c", f"print('{number}')"])
        eventually(lambda: guarded.exit_status() == 0)
        assert guarded.output() == number.encode() + b"\n"
    assert guarded.log.read_text() == "one\ntwo\n"


def test_a_process_can_be_restarted_in_the_same_folder(run: RunFolder, guarded: GuardedProcess) -> None:
    for count in (1, 2):
        guarded.start([sys.executable, "-c", "open('kept', 'a').write('x')"])
        eventually(lambda: guarded.exit_status() == 0)
        assert (run.path / "kept").read_text() == "x" * count


def test_two_processes_of_one_name_never_run_at_once(guarded: GuardedProcess) -> None:
    guarded.start(SLEEP)
    with pytest.raises(HarnessError, match="still running"):
        guarded.start(SLEEP)


def test_processes_of_a_run_have_separate_logs_and_exit_statuses(
    guarded: GuardedProcess, another: GuardedProcess
) -> None:
    guarded.start(SLEEP)
    another.start([sys.executable, "-c", "import sys; print('said'); sys.exit(3)"])
    eventually(lambda: another.exit_status() == 3)
    guarded.send_signal(signal.SIGKILL)
    eventually(lambda: guarded.exit_status() == -signal.SIGKILL)
    assert another.exit_status() == 3
    assert (guarded.log.read_text(), another.last_lines(1)) == ("", "said\n")


def test_a_missing_command_is_a_harness_error(guarded: GuardedProcess) -> None:
    with pytest.raises(HarnessError, match="no-such-command"):
        guarded.start(["no-such-command"])


def test_signals_reach_the_process_and_one_that_ended_gets_none(guarded: GuardedProcess) -> None:
    guarded.start(SLEEP)
    guarded.send_signal(signal.SIGSTOP)
    eventually(lambda: ward(guarded).status() == psutil.STATUS_STOPPED)
    guarded.send_signal(signal.SIGKILL)
    eventually(lambda: guarded.exit_status() == -signal.SIGKILL)
    guarded.send_signal(signal.SIGKILL)


def test_only_the_ports_of_the_process_itself_are_listed(guarded: GuardedProcess) -> None:
    assert guarded.listening_ports() == frozenset()
    with subprocess.Popen(LISTEN, stdout=subprocess.PIPE) as somebody_else:
        assert somebody_else.stdout is not None
        other = int(somebody_else.stdout.readline())
        guarded.start(LISTEN)
        eventually(lambda: guarded.log.read_text().endswith("\n"))
        assert guarded.listening_ports() == {int(guarded.log.read_text())} - {other}
        somebody_else.kill()


def test_closing_ends_even_a_frozen_process_and_can_be_repeated(
    run: RunFolder, guarded: GuardedProcess, another: GuardedProcess
) -> None:
    guarded.start(SLEEP)
    another.start(SLEEP)
    processes = [guardian_of(run), ward(guarded), ward(another)]
    guarded.send_signal(signal.SIGSTOP)
    run.close()
    run.close()
    assert not any(map(runs, processes))
    assert not run.path.exists()


def test_a_killed_guardian_is_a_harness_error_and_closing_cleans_up_for_it(
    run: RunFolder, guarded: GuardedProcess, another: GuardedProcess
) -> None:
    guarded.start(SLEEP)
    another.start(SLEEP)
    wards = [ward(guarded), ward(another)]
    guardian_of(run).kill()
    eventually(lambda: not any(map(runs, wards)))
    with pytest.raises(HarnessError, match="guards the broker is gone"):
        guarded.exit_status()
    run.close()
    assert not run.path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_guardian_cleans_up_before_it_ends(
    run: RunFolder, guarded: GuardedProcess, another: GuardedProcess, number: signal.Signals
) -> None:
    guarded.start(SLEEP)
    another.start(SLEEP)
    wards = [ward(guarded), ward(another)]
    guardian_of(run).send_signal(number)
    eventually(lambda: not any(map(runs, wards)) and not run.path.exists())


def test_a_child_of_the_suite_that_inherited_the_pipes_keeps_nothing_alive(tmp_path: Path) -> None:
    suite = (
        "import os, time\n"
        "from conformance.brokers.startup.runs import GuardedProcess, RunFolder\n"
        f"guarded = GuardedProcess(RunFolder(), 'one'); guarded.start({SLEEP!r})\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(600)\n"
        "print(child, flush=True); time.sleep(600)\n"
    )
    environment = os.environ | {ENVIRONMENT_VARIABLE: str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", suite], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
        process.wait()
        assert runs(child)
        eventually(lambda: list((tmp_path / "runs").iterdir()) == [])
        child.kill()


def test_only_folders_without_a_guardian_are_stale(run: RunFolder) -> None:
    stale = run.path.with_name("of-a-run-before")
    (stale / "data").mkdir(parents=True)
    remove_stale(run.path.parent)
    assert not stale.exists()
    assert run.path.exists()


@pytest.fixture
def listener() -> Iterator[EndedProcesses]:
    with EndedProcesses() as listener:
        yield listener


def awaited(listener: EndedProcesses) -> list[ProcessEnd]:
    """What is reported next."""
    ends: list[ProcessEnd] = []

    def has_heard() -> bool:
        ends.extend(listener.new())
        return bool(ends)

    eventually(has_heard)
    return ends


def heard(listener: EndedProcesses) -> list[tuple[str, int | None]]:
    return [(end.process, end.status) for end in listener.new()]


def test_a_process_that_somebody_else_kills_is_reported_once_with_the_end_of_its_log(
    listener: EndedProcesses, run: RunFolder, guarded: GuardedProcess
) -> None:
    guarded.start([sys.executable, "-c", "import signal; print('said', flush=True); signal.pause()"])
    eventually(lambda: guarded.log.exists() and guarded.log.read_text() == "said\n")
    pid = guarded.pid()
    ward(guarded).kill()
    ends = awaited(listener)
    assert [(end.process, end.status, end.pid, end.log_tail) for end in ends] == [("one", -signal.SIGKILL, pid, "said")]
    assert ends[0].is_of_release
    run.close()
    assert heard(listener) == []


def test_a_process_that_somebody_else_kills_is_reported_even_if_nothing_is_requested_any_more(
    listener: EndedProcesses, run: RunFolder, guarded: GuardedProcess
) -> None:
    guarded.start(SLEEP)
    process = ward(guarded)
    process.kill()
    eventually(lambda: not runs(process))
    run.close()
    assert heard(listener) == [("one", -signal.SIGKILL)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_the_suite_ends_is_not_reported(
    listener: EndedProcesses, run: RunFolder, guarded: GuardedProcess, another: GuardedProcess, number: signal.Signals
) -> None:
    for process in (guarded, another):
        process.start(SLEEP)
        process.expect(must_run=True)
    guarded.send_signal(number)
    eventually(lambda: guarded.exit_status() == -number)
    guarded.start(SLEEP)
    run.close()
    assert heard(listener) == []


STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "
    "[signal.pause() for _ in range(9)]",
]
ENDS_WHEN_ASKED = [
    sys.executable,
    "-c",
    "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3)); print('ready', flush=True); "
    "signal.pause()",
]


def test_a_kill_by_somebody_else_is_reported_although_the_suite_had_asked_the_process_to_end(
    listener: EndedProcesses, guarded: GuardedProcess
) -> None:
    guarded.start(STUBBORN)
    eventually(lambda: guarded.output() == b"ready\n")
    guarded.send_signal(signal.SIGTERM)
    ward(guarded).kill()
    eventually(lambda: guarded.exit_status() is not None)
    assert heard(listener) == [("one", -signal.SIGKILL)]


def test_a_process_may_end_by_itself_until_it_must_run(listener: EndedProcesses, guarded: GuardedProcess) -> None:
    guarded.start([sys.executable, "-c", "import sys; sys.exit(3)"])
    eventually(lambda: guarded.exit_status() == 3)
    assert heard(listener) == []
    for must_run in (True, False):
        guarded.start(ENDS_WHEN_ASKED)
        eventually(lambda: guarded.output() == b"ready\n")
        guarded.expect(must_run=must_run)
        ward(guarded).send_signal(signal.SIGUSR1)
        eventually(lambda: guarded.exit_status() == 3)
        assert heard(listener) == ([("one", 3)] if must_run else [])


def test_a_frozen_process_may_end_by_itself(listener: EndedProcesses, guarded: GuardedProcess) -> None:
    guarded.start(ENDS_WHEN_ASKED)
    eventually(lambda: guarded.output() == b"ready\n")
    guarded.expect(must_run=True)
    guarded.send_signal(signal.SIGSTOP)
    ward(guarded).send_signal(signal.SIGUSR1)
    guarded.send_signal(signal.SIGCONT)
    eventually(lambda: guarded.exit_status() == 3)
    assert heard(listener) == []


def test_a_killed_guardian_is_reported_as_a_process_of_the_suite(
    listener: EndedProcesses, run: RunFolder, guarded: GuardedProcess
) -> None:
    guarded.start(SLEEP)
    pid = guardian_of(run).pid
    guardian_of(run).kill()
    with pytest.raises(HarnessError, match="guards the broker is gone"):
        guarded.exit_status()
    run.close()
    (end,) = listener.new()
    assert (end.pid, end.status, end.is_of_release) == (pid, -signal.SIGKILL, False)
    assert end.sentence(None).startswith("The suite's guardian of the broker's processes")


def test_a_guardian_that_was_killed_while_nothing_was_requested_is_reported_when_its_folder_is_closed(
    listener: EndedProcesses, run: RunFolder
) -> None:
    guardian = guardian_of(run)
    guardian.kill()
    eventually(lambda: not runs(guardian))
    run.close()
    assert [end.status for end in listener.new()] == [-signal.SIGKILL]
