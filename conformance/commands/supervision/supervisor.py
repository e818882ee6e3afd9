"""Runs the engine as a child process, and ends it in time.

The engine writes its events into a pipe; the supervisor stores each in a file and passes it to a watcher. At the end of
the budget, and on Ctrl-C, it interrupts the engine (SIGINT), and later kills its process group. An engine that still
replays a violation announces until when; it gets that time on top of its budget, up to ``on_top_s``. A crash, a hang or
output that is no event is stored in the same file as a harness error. So is each process of the run that ended although
the suite did not end it (:mod:`conformance.ended`). The events are interpreted elsewhere.
"""

from __future__ import annotations

import contextlib
import enum
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Protocol

import msgspec

from conformance.brokers.installation.cache import cache_folder
from conformance.clients.security.service import NO_SECURITY, Security
from conformance.ended import EndedProcesses, how_it_ended, killed_by
from conformance.engine.budget import on_top_s
from conformance.events import (
    AnyEvent,
    HarnessErrorHappened,
    LoadMeasured,
    Phase,
    ProcessEnded,
    RunAsked,
    RunFinished,
    RunStarted,
    RunStopped,
    ViolationFound,
    decode,
    encode,
)
from conformance.load import LoadMeter

GRACE_SHARE = 0.05
"""The grace at the end of the budget, as a share of it: a run ends within 10 % of a budget that is not short."""

GRACE_AT_LEAST_S = 15.0
"""The shortest grace, in seconds: an operation ends that was begun in time, and a run removes its tenant, on a busy
machine or a slow cluster."""

GRACE_AT_MOST_S = 20.0
"""The longest grace, in seconds, also after Ctrl-C."""

LOAD_EVERY_S = 2.0
"""How often the load of the machine is recorded, and before each violation."""

_NO_TESTS_COLLECTED = 5
"""``pytest.ExitCode.NO_TESTS_COLLECTED``; importing pytest for it would double what a command takes to begin."""

_TICK_S = 0.1
LINE_AT_MOST_BYTES = 64 * 1024 * 1024
"""The longest event."""

_READ_BYTES = 1 << 16
_TAIL_LINES = 40
_TAIL_BYTES = 32 * 1024


class Ending(enum.Enum):
    """How a run of the engine ended."""

    BY_ITSELF = "by itself"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"


class RunWatcher(Protocol):
    """Receives the events of a run while it is in progress."""

    def take(self, event: AnyEvent) -> None:
        """Show an event."""

    def tick(self, elapsed_s: float) -> None:
        """Show the time since the engine was started, in seconds; called several times a second."""


def supervise(
    command: Sequence[str],
    *,
    folder: Path,
    budget_s: float,
    watcher: RunWatcher,
    asked: RunAsked | None = None,
    security: Security = NO_SECURITY,
) -> Ending:
    """Run the engine that ``command`` starts, for at most ``budget_s`` and a short grace.

    ``asked``: the first event, with the facts of the order that a report needs.
    ``--events PATH`` and ``--lifeline FD`` are appended to the command, and ``--connection FD``, a pipe with the
    ``security``, if there is one. ``folder`` gets :func:`events_file` and :func:`output_file`. Must be called in
    the main thread, because it listens for SIGINT, SIGTERM and SIGHUP.
    """
    with (
        events_file(folder).open("wb") as kept,
        EndedProcesses() as ended,
        LoadMeter() as meter,
        _started(command, output_file(folder), security) as engine,
        _interrupts() as interrupts,
    ):
        run = _EngineRun(
            engine=engine,
            interrupts=interrupts,
            ended=ended,
            meter=meter,
            kept=kept,
            budget_s=budget_s,
            watcher=watcher,
        )
        if asked is not None:
            run.record(asked)
        ending = run.to_the_end()
        run.record_failure(ending, output_file(folder))
        return ending


def events_file(folder: Path) -> Path:
    """The file of a report's folder with the events of the run, a JSON object a line."""
    return folder / "events.jsonl"


def output_file(folder: Path) -> Path:
    """The file of a report's folder with the output of the engine."""
    return folder / "engine.log"


class _Engine:
    """The engine's process and our ends of its pipes."""

    def __init__(self, process: subprocess.Popen[bytes], events: int) -> None:
        self.process = process
        self._events = events
        self._selector = selectors.DefaultSelector()
        self._selector.register(events, selectors.EVENT_READ)
        self._partial = b""
        self._closed = False

    def lines(self) -> list[bytes]:
        """The whole lines that arrive within a moment; an unfinished one is returned later."""
        if self._closed:
            time.sleep(_TICK_S)
            return []
        if not self._selector.select(_TICK_S):
            return []
        chunk = os.read(self._events, _READ_BYTES)
        self._closed = not chunk
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if len(self._partial) > LINE_AT_MOST_BYTES:
            lines.append(self._partial)
            self._partial = b""
        return lines

    def rest(self) -> Iterator[bytes]:
        """The lines that can be read without waiting, except an unfinished one."""
        while not self._closed and self._selector.select(0):
            yield from self.lines()

    def has_ended(self) -> bool:
        """Whether its process has ended; it is not reaped yet, so that its process group keeps its id."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ask_to_stop(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Kill the rest of its process group; returns the exit status (negative: the signal that ended it)."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@contextlib.contextmanager
def _started(command: Sequence[str], output: Path, security: Security) -> Iterator[_Engine]:
    """Start the engine in a session of its own, and kill it at the end."""
    events, its_events = os.pipe()
    its_lifeline, lifeline = os.pipe()
    its_own = [its_events, its_lifeline]
    connection: tuple[str, ...] = ()
    if security != NO_SECURITY:
        its_own.append(_pipe_with(msgspec.json.encode(security)))
        connection = ("--pulsar-connection", str(its_own[-1]))
    try:
        with output.open("wb") as printed:
            process = subprocess.Popen(
                [*command, "--pulsar-events", f"/dev/fd/{its_events}", "--lifeline", str(its_lifeline), *connection],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                pass_fds=its_own,
                start_new_session=True,
            )
    finally:
        for descriptor in its_own:
            os.close(descriptor)
    engine = _Engine(process, events)
    try:
        yield engine
    finally:
        engine.end()
        os.close(events)
        os.close(lifeline)


def _pipe_with(content: bytes) -> int:
    """The reading end of a pipe with this content, which fits into a pipe's buffer."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(content)
    return reading


def _environment() -> dict[str, str]:
    """This process's environment, without variables that give pytest other options or plugins.

    Hypothesis would read and write its caches in the working directory.
    """
    of_pytest = {"PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
    kept = {name: value for name, value in os.environ.items() if name not in of_pytest}
    storage = {"HYPOTHESIS_STORAGE_DIRECTORY": str(cache_folder("hypothesis"))}
    return {**storage, **kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class _Interrupts:
    """Counts the user's interrupts."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, _signal: int, _frame: FrameType | None) -> None:
        self.count += 1


@contextlib.contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    interrupts = _Interrupts()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupts.take) for number in numbers}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _EngineRun:
    """A run of the engine, until all its output is read."""

    def __init__(
        self,
        *,
        engine: _Engine,
        interrupts: _Interrupts,
        ended: EndedProcesses,
        meter: LoadMeter,
        kept: BinaryIO,
        budget_s: float,
        watcher: RunWatcher,
    ) -> None:
        self._engine = engine
        self._interrupts = interrupts
        self._ended = ended
        self._meter = meter
        self._kept = kept
        self._budget_s = budget_s
        self._until_s = budget_s
        self._watcher = watcher
        self._began = time.monotonic()
        self._started = False
        self._finished = False
        self._is_explained = False
        """Whether an event says why the run failed or was stopped."""
        self._violations = 0
        self._asked = False
        """Whether the engine was asked to stop, on which it ends with another status."""
        self._killed = False
        self._exit_status = 0
        self._garbage: list[bytes] = []

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def to_the_end(self) -> Ending:
        """Read the engine's output until it has ended."""
        ending = Ending.BY_ITSELF
        grace_s, ask_at_s, kill_at_s = 0.0, float("inf"), float("inf")
        while not self._engine.has_ended():
            for line in self._engine.lines():
                self._take(line)
            self._take_ended()
            if self._meter.seconds >= LOAD_EVERY_S:
                self._record_load()
            self._watcher.tick(self.elapsed_s)
            if ending is Ending.BY_ITSELF:
                ending = self._why_stop()
                if ending is not Ending.BY_ITSELF:
                    grace_s, ask_at_s = self._grace_s(ending), self.elapsed_s
                    kill_at_s = ask_at_s + grace_s
            elif ending is Ending.OUT_OF_TIME and self.elapsed_s < self._until_s:  # replays were announced since
                ending, ask_at_s, kill_at_s = Ending.BY_ITSELF, float("inf"), float("inf")
            if self.elapsed_s >= ask_at_s:
                self._engine.ask_to_stop()
                self._asked = True
                ask_at_s += grace_s / 2  # again, because a library may have caught the first one
            if self.elapsed_s > kill_at_s or self._interrupts.count > 1:
                self._killed = True
                break
        self._exit_status = self._engine.end()
        for line in self._engine.rest():
            self._take(line)
        self._take_ended()
        return ending

    def _record_load(self) -> None:
        self.record(LoadMeasured(at_s=self.elapsed_s, load=self._meter.take()))

    def _take_ended(self) -> None:
        """Record the processes that ended although the suite did not end them."""
        for one in self._ended.new():
            self._is_explained = self._is_explained or not one.is_of_release
            self.record(
                ProcessEnded(
                    at_s=self.elapsed_s,
                    process=one.process,
                    is_of_release=one.is_of_release,
                    pid=one.pid,
                    status=one.status,
                    sentence=one.sentence(self._ended.memory_kills),
                    log_tail=one.log_tail,
                )
            )

    def _why_stop(self) -> Ending:
        if self._interrupts.count:
            self.record(Phase(at_s=self.elapsed_s, what="Interrupted: stopping (once more to stop at once)"))
            return Ending.INTERRUPTED
        return Ending.OUT_OF_TIME if self.elapsed_s >= self._until_s else Ending.BY_ITSELF

    def _grace_s(self, ending: Ending) -> float:
        if ending is Ending.INTERRUPTED:
            return GRACE_AT_MOST_S
        return max(GRACE_AT_LEAST_S, min(GRACE_AT_MOST_S, GRACE_SHARE * self._budget_s))

    def _take(self, line: bytes) -> None:
        try:
            event = decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._garbage.append(line[:80])
            return
        self._started = self._started or isinstance(event, RunStarted)
        self._finished = self._finished or isinstance(event, RunFinished)
        self._is_explained = self._is_explained or isinstance(event, HarnessErrorHappened | RunStopped)
        if isinstance(event, ViolationFound):
            self._violations += 1
            self._record_load()
        if isinstance(event, Phase) and event.until_s is not None:
            until_s = self.elapsed_s + event.until_s - event.at_s  # the engine's clock began a little later than ours
            self._until_s = max(self._until_s, min(until_s, self._budget_s + on_top_s(self._budget_s)))
        self.record(event)

    def record(self, event: AnyEvent) -> None:
        """Store an event and show it."""
        self._kept.write(encode(event))
        self._kept.flush()
        self._watcher.take(event)

    def record_failure(self, ending: Ending, output: Path) -> None:
        """Record why the run ended early, or a harness error if the engine failed in a way that it did not report."""
        if self._garbage:
            first = self._garbage[0].decode(errors="replace")
            sentence = f"The engine wrote {len(self._garbage)} lines that are no events; the first begins {first!r}."
            self.record(HarnessErrorHappened(at_s=self.elapsed_s, sentence=sentence))
        if (stopped := self._why_stopped(ending)) is not None:
            self.record(stopped)
            return
        failure = self._how_it_failed(ending)
        if failure is not None:
            what = f"{failure} Its output is in {output.name}."
            self.record(HarnessErrorHappened(at_s=self.elapsed_s, sentence=what, log_tail=_tail(output)))

    def _why_stopped(self, ending: Ending) -> RunStopped | None:
        if ending is Ending.INTERRUPTED:
            sentence = f"The run was interrupted after {self.elapsed_s:.0f} s."
            return RunStopped(at_s=self.elapsed_s, why="interrupted", sentence=sentence)
        if ending is Ending.OUT_OF_TIME and not (self._started or self._is_explained or self._killed):
            sentence = (
                f"The budget of {self._budget_s:g} s ended before the broker was ready, so nothing was checked. "
                "Give the run a longer --budget."
            )
            return RunStopped(at_s=self.elapsed_s, why="too-short", sentence=sentence)
        return None

    def _how_it_failed(self, ending: Ending) -> str | None:
        status = self._exit_status
        who = f"The engine (process {self._engine.process.pid})"
        if not self._finished and ending is Ending.OUT_OF_TIME:
            on_top = round(self._until_s - self._budget_s)
            how = "did not stop either and was killed" if self._killed else "stopped only when it was asked to"
            allowed = f"{self._budget_s:g} s" + (f" and {on_top:g} s on top of it" if on_top else "")
            return f"The engine was not finished at the end of its budget of {allowed}, and {how}."
        if status == _NO_TESTS_COLLECTED:
            return "The engine found no machine to run: none has that name, or none decides what was asked for."
        if not self._finished and status == -signal.SIGKILL and not self._killed:
            return f"{who} {how_it_ended(status)} before it was finished. {killed_by(self._ended.memory_kills)}"
        if not self._finished and not self._is_explained:
            return f"{who} {how_it_ended(status)} before it was finished."
        explained = status == 0 or (status == 1 and self._violations) or self._is_explained or self._asked
        if ending is Ending.BY_ITSELF and not explained:
            return f"{who} {how_it_ended(status)}, which none of its events explains."
        return None


def _tail(output: Path) -> str:
    with output.open("rb") as printed:
        printed.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        lines = printed.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
