"""The loop that moves bytes while a caller waits, for all connections of one thread.

There is no reader thread: a caller that waits for an answer polls all sockets of its thread, so events have the order
of the bytes, and no thread switch is needed. But a client must stay alive while its user does something else. Before a
broker refuses a second producer of a name, it sends a PING to the first one's connection, and closes that after 5 s. So
a keeper thread polls briefly from time to time while no caller waits.
"""

from __future__ import annotations

import math
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from conformance.clients.outcomes import NoAnswer
from conformance.clients.wire.frames import MalformedFrame
from conformance.wait import Deadline

KEEPER_INTERVAL_S: Final = 0.05
"""The longest delay of a PONG while no caller waits."""

MOST_SECOND_ANSWERS: Final = 100
"""The most that are kept for a caller who never takes them."""

_READ: Final = select.POLLIN
_READ_AND_WRITE: Final = select.POLLIN | select.POLLOUT


class Pumped(Protocol):
    """A connection, for the pump."""

    def on_ready(self, *, readable: bool, writable: bool) -> None:
        """Read and write without blocking."""


class SecondAnswer(NamedTuple):
    """An answer to a request that has an answer already: its request, and an error or the name of its command."""

    request: str
    code: str
    message: str


class Pump:
    """Polls the sockets of a thread's connections.

    Every access to them holds ``lock``; the keeper does nothing while another thread holds it.
    """

    def __init__(self) -> None:
        self.lock: Final = threading.RLock()
        self._poll = select.poll()
        self._connections: dict[int, Pumped] = {}
        self._keeper: threading.Thread | None = None
        self._malformed: MalformedFrame | None = None
        self._second_answers: deque[SecondAnswer] = deque(maxlen=MOST_SECOND_ANSWERS)

    def on_second_answer(self, answer: SecondAnswer) -> None:
        """Keep an answer that no caller waits for."""
        self._second_answers.append(answer)

    def take_second_answers(self) -> Sequence[SecondAnswer]:
        """The second answers on all connections of the thread since the last call."""
        with self.lock:
            taken = tuple(self._second_answers)
            self._second_answers.clear()
        return taken

    def add(self, descriptor: int, connection: Pumped) -> None:
        with self.lock:
            self._connections[descriptor] = connection
            self._poll.register(descriptor, _READ)
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="wire-keeper", daemon=True)
                self._keeper.start()

    def remove(self, descriptor: int) -> None:
        with self.lock:
            del self._connections[descriptor]
            self._poll.unregister(descriptor)

    def watch_writes(self, descriptor: int, wanted: bool) -> None:
        """Set whether it has unwritten bytes."""
        self._poll.modify(descriptor, _READ_AND_WRITE if wanted else _READ)

    def wait(self, done: Callable[[], bool], deadline: Deadline, *, what: str) -> None:
        """Move bytes until ``done``. Raises :class:`NoAnswer`, with ``what`` was waited for, after the deadline.

        Raises :class:`MalformedFrame` if a broker on any connection of this thread violated the protocol.
        """
        with self.lock:
            while not done():
                if deadline.passed:
                    raise NoAnswer(f"no answer in time: {what}")
                self._turn(deadline.left_s)

    def turn(self, for_s: float = 0.0) -> None:
        """Read and write what is possible; with ``for_s``, for so many seconds."""
        deadline = Deadline.after(for_s)
        with self.lock:
            self._turn(0)
            while not deadline.passed:
                self._turn(deadline.left_s)

    def _turn(self, timeout_s: float) -> None:
        for descriptor, events in self._poll.poll(math.ceil(timeout_s * 1000)):
            connection = self._connections.get(descriptor)
            if connection is not None:
                connection.on_ready(readable=events != select.POLLOUT, writable=bool(events & select.POLLOUT))
        if self._malformed is not None:
            malformed, self._malformed = self._malformed, None
            raise malformed

    def _keep(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(KEEPER_INTERVAL_S)
            if not self.lock.acquire(blocking=False):
                continue
            try:
                self._turn(0)
            except MalformedFrame as malformed:
                self._malformed = malformed
            finally:
                done = not self._connections
                if done:
                    self._keeper = None
                self.lock.release()
            if done:
                return


class _OfThisThread(threading.local):
    def __init__(self) -> None:
        self.pump = Pump()


_of_this_thread: Final = _OfThisThread()


def pump_of_this_thread() -> Pump:
    """The pump that the clients of this thread share, so that waiting for one keeps all of them alive."""
    return _of_this_thread.pump
