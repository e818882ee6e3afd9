"""Runs the engine as a child process and holds it to its time, whatever it or the broker does.

The engine writes its events into a pipe; each is kept in a file at once and shown to a watcher. At the end of the
budget, and on Ctrl-C, the engine is asked to stop (SIGINT); if it does not, its process group is killed. An engine that
replays a violation which did not come back yet says so, and until when: it gets that time on top of its budget, within
the limit of ``on_top_s``. What the supervisor itself notices (a crash, output that is no event, a hang) joins the same
file as a harness error, so that the file tells the whole run. What the events mean is the verdicts' business.
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

from conformance.clients.security.service import NO_SECURITY, Security
from conformance.engine.budget import on_top_s
from conformance.events import (
    AnyEvent,
    HarnessErrorHappened,
    Phase,
    RunAsked,
    RunFinished,
    ViolationFound,
    decode,
    encode,
)

GRACE_SHARE = 0.05
"""What an engine may take to stop when its budget is used up, as a share of it: all ends within 10 % of it."""

GRACE_AT_LEAST_S = 1.0
"""Every engine gets this long to stop, in seconds, however small its budget is."""

GRACE_AT_MOST_S = 20.0
"""No engine gets longer than this to stop, in seconds, neither at the end of its budget nor after Ctrl-C."""

_NO_TESTS_COLLECTED = 5
"""``pytest.ExitCode.NO_TESTS_COLLECTED``; importing pytest for it would double what a command takes to begin."""

_TICK_S = 0.1
_LINE_AT_MOST_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1 << 16
_TAIL_LINES = 40
_TAIL_BYTES = 32 * 1024


class Ending(enum.Enum):
    """How a run of the engine came to its end."""

    BY_ITSELF = "by itself"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"


class Watcher(Protocol):
    """Who is shown a run while it goes on."""

    def take(self, event: AnyEvent) -> None:
        """Something happened."""

    def tick(self, elapsed_s: float) -> None:
        """Time has passed, in seconds since the engine was started; called several times a second."""


def supervise(
    command: Sequence[str],
    *,
    folder: Path,
    budget_s: float,
    watcher: Watcher,
    asked: RunAsked | None = None,
    security: Security = NO_SECURITY,
) -> Ending:
    """Run the engine that ``command`` starts, for at most ``budget_s`` and a short grace.

    ``asked``: what a report needs to know of the order, told first, so that the events tell the whole run.
    ``--events PATH`` and ``--lifeline FD`` are appended to the command, and ``--connection FD``, a pipe with the
    ``security``, where there is any. ``folder`` gets :func:`events_file` and :func:`output_file`. Must be called in
    the main thread, because it listens for SIGINT, SIGTERM and SIGHUP.
    """
    with (
        events_file(folder).open("wb") as kept,
        _started(command, output_file(folder), security) as engine,
        _interrupts() as interrupts,
    ):
        run = _Run(engine=engine, interrupts=interrupts, kept=kept, budget_s=budget_s, watcher=watcher)
        if asked is not None:
            run.tell(asked)
        ending = run.to_the_end()
        run.tell_what_went_wrong(ending, output_file(folder))
        return ending


def events_file(folder: Path) -> Path:
    """Where in the folder of a report the events of its run are kept, a JSON object a line."""
    return folder / "events.jsonl"


def output_file(folder: Path) -> Path:
    """Where in the folder of a report everything is that the engine printed."""
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
        """The whole lines that came, after waiting a moment for some; what is unfinished comes with the next ones."""
        if self._closed:
            time.sleep(_TICK_S)
            return []
        if not self._selector.select(_TICK_S):
            return []
        chunk = os.read(self._events, _READ_BYTES)
        self._closed = not chunk
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        if len(self._partial) > _LINE_AT_MOST_BYTES:
            lines.append(self._partial)
            self._partial = b""
        return lines

    def rest(self) -> Iterator[bytes]:
        """What is there to be read without waiting. A last line that was never ended is left out."""
        while not self._closed and self._selector.select(0):
            yield from self.lines()

    def has_ended(self) -> bool:
        """Whether its process has; it is not waited for yet, so that its process group can still be named safely."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ask_to_stop(self) -> None:
        os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Kill what is left of its process group, and return its exit status (negative: the signal that ended it)."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


@contextlib.contextmanager
def _started(command: Sequence[str], output: Path, security: Security) -> Iterator[_Engine]:
    """Start the engine in a session of its own; kill it should it still be there in the end."""
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
    """The reading end of a pipe that holds this much and no more; it fits into a pipe's buffer."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(content)
    return reading


def _environment() -> dict[str, str]:
    """This process's environment, without what would give the engine other options or plugins than its own."""
    of_pytest = {"PYTEST_ADDOPTS", "PYTEST_PLUGINS"}
    kept = {name: value for name, value in os.environ.items() if name not in of_pytest}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


class _Interrupts:
    """How often the user asked for an end."""

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


class _Run:
    """One engine's run, from its start until nothing more comes of it."""

    def __init__(
        self, *, engine: _Engine, interrupts: _Interrupts, kept: BinaryIO, budget_s: float, watcher: Watcher
    ) -> None:
        self._engine = engine
        self._interrupts = interrupts
        self._kept = kept
        self._budget_s = budget_s
        self._until_s = budget_s
        self._watcher = watcher
        self._began = time.monotonic()
        self._finished = False
        self._with_harness_error = False
        self._violations = 0
        self._killed = False
        self._exit_status = 0
        self._garbage: list[bytes] = []

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def to_the_end(self) -> Ending:
        """Follow the engine until it has ended and everything that it wrote is read."""
        ending = Ending.BY_ITSELF
        grace_s, ask_at_s, kill_at_s = 0.0, float("inf"), float("inf")
        while not self._engine.has_ended():
            for line in self._engine.lines():
                self._take(line)
            self._watcher.tick(self.elapsed_s)
            if ending is Ending.BY_ITSELF:
                ending = self._why_stop()
                if ending is not Ending.BY_ITSELF:
                    grace_s, ask_at_s = self._grace_s(ending), self.elapsed_s
                    kill_at_s = ask_at_s + grace_s
            if self.elapsed_s >= ask_at_s:
                self._engine.ask_to_stop()
                ask_at_s += grace_s / 2  # once more, because a library may have swallowed the first
            if self.elapsed_s > kill_at_s or self._interrupts.count > 1:
                self._killed = True
                break
        self._exit_status = self._engine.end()
        for line in self._engine.rest():
            self._take(line)
        return ending

    def _why_stop(self) -> Ending:
        if self._interrupts.count:
            self.tell(Phase(at_s=self.elapsed_s, what="Interrupted: stopping (once more to stop at once)"))
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
        self._finished = self._finished or isinstance(event, RunFinished)
        self._with_harness_error = self._with_harness_error or isinstance(event, HarnessErrorHappened)
        self._violations += isinstance(event, ViolationFound)
        if isinstance(event, Phase) and event.until_s is not None:
            until_s = self.elapsed_s + event.until_s - event.at_s  # the engine's clock began a little later than ours
            self._until_s = max(self._until_s, min(until_s, self._budget_s + on_top_s(self._budget_s)))
        self.tell(event)

    def tell(self, event: AnyEvent) -> None:
        """Keep an event and show it."""
        self._kept.write(encode(event))
        self._kept.flush()
        self._watcher.take(event)

    def tell_what_went_wrong(self, ending: Ending, output: Path) -> None:
        """Add, as a harness error, what the engine could not tell of itself."""
        if self._garbage:
            first = self._garbage[0].decode(errors="replace")
            sentence = f"The engine wrote {len(self._garbage)} lines that are no events; the first begins {first!r}."
            self.tell(HarnessErrorHappened(at_s=self.elapsed_s, sentence=sentence))
        failure = self._how_it_failed(ending)
        if failure is not None:
            what = f"{failure} What it printed is in {output.name}."
            self.tell(HarnessErrorHappened(at_s=self.elapsed_s, sentence=what, log_tail=_tail(output)))

    def _how_it_failed(self, ending: Ending) -> str | None:
        status = self._exit_status
        if ending is Ending.INTERRUPTED:
            return f"The run was interrupted after {self.elapsed_s:.0f} s."
        if not self._finished and ending is Ending.OUT_OF_TIME:
            on_top = round(self._until_s - self._budget_s)
            how = "did not stop either and was killed" if self._killed else "stopped only when it was asked to"
            allowed = f"{self._budget_s:g} s" + (f" and {on_top:g} s on top of it" if on_top else "")
            return f"The engine was not finished at the end of its budget of {allowed}, and {how}."
        if status == _NO_TESTS_COLLECTED:
            return "The engine found no machine to run: none has that name, or none decides what was asked for."
        if not self._finished and not self._with_harness_error:
            return f"The engine ended with {_status(status)} before it was finished."
        explained = status == 0 or (status == 1 and self._violations) or self._with_harness_error
        if ending is Ending.BY_ITSELF and not explained:
            return f"The engine ended with {_status(status)}, which nothing that it told explains."
        return None


def _status(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"


def _tail(output: Path) -> str:
    with output.open("rb") as printed:
        printed.seek(max(0, output.stat().st_size - _TAIL_BYTES))
        lines = printed.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
