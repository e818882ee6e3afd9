"""A driver's process: it starts it, matches answers to requests, and says in one sentence what a broken driver does.

Each request has a deadline. A driver that hangs, ends, sends what is no message of the protocol or floods the suite
fails: its process is killed, and all its requests raise :class:`DriverFailed`.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from conformance.clients.driver.protocol import (
    LONGEST_LINE_BYTES,
    MOST_EVENTS,
    PROTOCOL,
    AnyAnswer,
    AnyRequest,
    Error,
    Event,
    Hello,
    HelloAnswer,
    read_line,
    write,
)
from conformance.harness_error import HarnessError

START_TIMEOUT_S: Final = 60.0
"""How long a driver may take to start on a busy machine."""
GRACE_S: Final = 10.0
"""How much later than its deadline an answer may arrive."""
END_TIMEOUT_S: Final = 5.0
_PIECE_BYTES: Final = 1 << 16
_SHOWN_BYTES: Final = 60
_LOG_TAIL_BYTES: Final = 2000

A = TypeVar("A")


class DriverFailed(HarnessError):
    """The driver broke the protocol, ended, or could not perform a request."""


class Pending:
    """A request without an answer."""

    __slots__ = ("answer", "kind", "on_answer", "settled")

    def __init__(self, kind: str, on_answer: Callable[[AnyAnswer | DriverFailed], None] | None) -> None:
        self.kind = kind
        self.on_answer = on_answer
        self.answer: AnyAnswer | DriverFailed | None = None
        self.settled = threading.Event()

    def settle(self, answer: AnyAnswer | DriverFailed) -> None:
        self.answer = answer
        self.settled.set()
        if self.on_answer is not None:
            self.on_answer(answer)


class DriverProcess:
    """A running driver; thread-safe. ``name`` is the driver's name in sentences."""

    def __init__(
        self, command: Sequence[str], *, name: str, start_timeout_s: float = START_TIMEOUT_S, grace_s: float = GRACE_S
    ) -> None:
        """Start it and shake hands. Raises :class:`DriverFailed`."""
        self.name: Final = name
        self._command = command
        self._start_timeout_s = start_timeout_s
        self._grace_s = grace_s
        self._ids = itertools.count(1)
        self._names = itertools.count(1)
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._failure: DriverFailed | None = None
        self._events = 0
        self._is_ending = False
        self.ended_by_itself = False
        """Whether it ended when its standard input did."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,  # Ctrl-C does not reach it
            )
        except OSError as error:
            raise DriverFailed(f"the driver {name} does not start: {error.strerror or error}") from error
        threading.Thread(target=self._read, name=f"driver {name}", daemon=True).start()
        try:
            self.hello: Final = self._shake_hands(start_timeout_s)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def failure(self) -> DriverFailed | None:
        """Why it failed; None while it works."""
        return self._failure

    def another(self) -> DriverProcess:
        """Start another one of the same command. Raises :class:`DriverFailed`."""
        return DriverProcess(
            self._command, name=self.name, start_timeout_s=self._start_timeout_s, grace_s=self._grace_s
        )

    def new_id(self) -> int:
        return next(self._ids)

    def new_name(self, of: str) -> str:
        """A name for a client, producer or consumer."""
        return f"{of}{next(self._names)}"

    def submit(
        self, request: AnyRequest, on_answer: Callable[[AnyAnswer | DriverFailed], None] | None = None
    ) -> Pending:
        """Send a request. ``on_answer`` gets its answer, on another thread, or why the driver failed."""
        pending = Pending(str(request.__struct_config__.tag), on_answer)
        with self._lock:
            if self._failure is None:
                self._pending[request.id] = pending
        if self._failure is not None:
            self._settle_failed(request.id, pending)
            return pending
        try:
            assert self._process.stdin is not None
            with self._writing:
                self._process.stdin.write(write(request) + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._fail(self._end())
        return pending

    def ask(self, request: AnyRequest, expected: type[A], *, timeout_s: float) -> A:
        """Send a request, and wait for the expected answer. Raises :class:`DriverFailed`."""
        answer = self.answer(request, (expected,), timeout_s=timeout_s)
        assert isinstance(answer, expected)
        return answer

    def answer(self, request: AnyRequest, expected: tuple[type, ...], *, timeout_s: float) -> AnyAnswer:
        """Send a request, and wait for an answer of an expected type. Raises :class:`DriverFailed`."""
        return self.awaited(self.submit(request), expected, timeout_s=timeout_s)

    def awaited(self, pending: Pending, expected: tuple[type, ...], *, timeout_s: float) -> AnyAnswer:
        """Wait for the answer to a submitted request. Raises :class:`DriverFailed`."""
        if not pending.settled.wait(timeout_s + self._grace_s):
            self._fail(f"does not answer {pending.kind!r} within {timeout_s + self._grace_s:g} s")
        answer = pending.answer
        if isinstance(answer, DriverFailed):
            raise answer
        if isinstance(answer, expected):
            assert answer is not None
            return answer
        if isinstance(answer, Error):
            raise DriverFailed(f"the driver {self.name} cannot perform {pending.kind!r}: {answer.message}")
        self._fail(f"answers {pending.kind!r} with {None if answer is None else answer.__struct_config__.tag!r}")
        assert self._failure is not None
        raise self._failure

    def close(self) -> None:
        """End it: close its standard input, wait, and kill it if it stays. Safe to call twice."""
        if self._is_ending:
            return
        self._is_ending = True
        with suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S)
            self.ended_by_itself = self._process.returncode >= 0
        self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """End it as a crash does. Safe to call twice."""
        self._is_ending = True
        self._process.kill()
        self._process.wait()
        self._fail("was killed by the suite")

    def _shake_hands(self, timeout_s: float) -> HelloAnswer:
        hello = self.ask(
            Hello(id=self.new_id(), protocol=PROTOCOL), HelloAnswer, timeout_s=max(0.0, timeout_s - self._grace_s)
        )
        if hello.protocol != PROTOCOL:
            raise DriverFailed(
                f"the driver {self.name} speaks version {hello.protocol} of the protocol, and the suite {PROTOCOL}"
            )
        return hello

    def _read(self) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        unfinished = b""
        while self._failure is None:
            piece = os.read(descriptor, _PIECE_BYTES)
            if not piece:
                self._fail(self._end())
                return
            *lines, unfinished = (unfinished + piece).split(b"\n")
            for line in lines:
                self._take(line)
            if len(unfinished) > LONGEST_LINE_BYTES:
                self._fail(f"sends a line longer than {LONGEST_LINE_BYTES} bytes")

    def _take(self, line: bytes) -> None:
        try:
            message = read_line(line)
        except msgspec.ValidationError as error:
            self._fail(f"sends {_shown(line)}, which is no message of the protocol: {error}")
            return
        except msgspec.DecodeError:
            self._fail(f"prints {_shown(line)}, which is no JSON")
            return
        if isinstance(message, Event):
            self._events += 1
            if self._events > MOST_EVENTS:
                self._fail(f"floods the suite: more than {MOST_EVENTS} events without an answer")
            return
        self._events = 0
        with self._lock:
            pending = self._pending.pop(message.id, None)
        if pending is None:
            self._fail(f"answers request {message.id}, which does not wait for an answer")
        else:
            pending.settle(message)

    def _end(self) -> str:
        """How its process ended, or that it closed its output."""
        try:
            status = self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "closes its standard output, and stays"
        how = f"with status {status}" if status >= 0 else f"by signal {-status}"
        return f"ended {how}{self._last_words()}"

    def _last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_TAIL_BYTES))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        return f": {lines[-1][:200]}" if lines else ""

    def _fail(self, what: str) -> None:
        """The driver is broken: kill it, and settle all requests."""
        with self._lock:
            if self._failure is None:
                self._failure = DriverFailed(f"the driver {self.name} {what}")
            pending, self._pending = self._pending, {}
        if not self._is_ending:
            self._process.kill()
        for one in pending.values():
            one.settle(self._failure)

    def _settle_failed(self, request: int, pending: Pending) -> None:
        with self._lock:
            self._pending.pop(request, None)
        assert self._failure is not None
        pending.settle(self._failure)


def _shown(line: bytes) -> str:
    """The beginning of a line, in quotes."""
    return repr(line[:_SHOWN_BYTES].decode(errors="replace")) + ("..." if len(line) > _SHOWN_BYTES else "")
