"""One end of the connection between the suite and a worker: messages as lines of JSON."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from conformance.clients.outcomes import NoAnswer
from conformance.wait import Deadline

T = TypeVar("T")

_PIECE_BYTES: Final = 65536
_encoder = msgspec.json.Encoder()


class Line(Generic[T]):
    """Sends any message, and receives those that ``decode`` reads."""

    def __init__(self, sock: socket.socket, decode: Callable[[bytes], T]) -> None:
        self._socket = sock
        self._decode = decode
        self._received = bytearray()

    def fileno(self) -> int:
        """The descriptor that can be read once something has arrived."""
        return self._socket.fileno()

    @property
    def has_message(self) -> bool:
        """Whether there is something to receive: a message, perhaps a part of one, or the end."""
        return b"\n" in self._received or bool(select.select([self._socket], [], [], 0)[0])

    def send(self, message: msgspec.Struct) -> None:
        """Send a message. Does nothing if the other side is gone: the next receive reports it."""
        try:
            self._socket.sendall(_encoder.encode(message) + b"\n")
        except OSError:
            return

    def receive(self, timeout_s: float | None = None) -> T | None:
        """The next message; None if the other side is gone. Raises :class:`NoAnswer` if none arrives in time."""
        deadline = None if timeout_s is None else Deadline.after(timeout_s)
        while (end := self._received.find(b"\n")) < 0:
            self._socket.settimeout(None if deadline is None else max(0.001, deadline.left_s))
            try:
                piece = self._socket.recv(_PIECE_BYTES)
            except TimeoutError:
                raise NoAnswer("a worker process does not answer") from None
            except ConnectionResetError:
                piece = b""
            finally:
                self._socket.settimeout(None)
            if not piece:
                return None
            self._received += piece
        line, self._received = bytes(self._received[:end]), self._received[end + 1 :]
        return self._decode(line)

    def close(self) -> None:
        """Close this end; the other side then receives None."""
        self._socket.close()
