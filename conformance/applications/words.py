"""What the suite and an application's process say to each other: one JSON line each, typed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from conformance.clients.outcomes import NoAnswer
from conformance.clients.security.service import Service
from model.log import Position
from model.operations import Death
from model.vocabulary import Entry


class Word(msgspec.Struct, frozen=True, tag_field="word", tag=True):
    """Something that is said."""


# ------------------------------------------------------------------------------------------- from the suite: what to be


class Produce(Word, frozen=True):
    """Be a producer of pulsar-client: open, say what was told, then send what is handed over."""

    service: Service
    topic: str
    name: str
    timeout_s: float


class Read(Word, frozen=True):
    """Be the reader of scenario 1, until the end of the topic or the death that was chosen for it."""

    service: Service
    topic: str
    database: str
    death: Death | None
    timeout_s: float


class Subscribe(Word, frozen=True):
    """Be the subscriber of scenario 2, until nothing is left or the death that was chosen for it."""

    service: Service
    admin: Service
    topic: str
    subscription: str
    database: str
    death: Death | None
    timeout_s: float


class Hand(Word, frozen=True):
    """To a producer: send this entry."""

    entry: Entry


class Close(Word, frozen=True):
    """To a producer: close in good order, and end."""


class Die(Word, frozen=True):
    """To a producer: kill yourself."""


Order = Produce | Read | Subscribe | Hand | Close | Die
"""All that the suite says."""


# --------------------------------------------------------------------------------------- from the application: what was


class Told(Word, frozen=True):
    """The producer is open, and this is the last sequence id that it was told."""

    last_sequence_id: int


class Answered(Word, frozen=True):
    """An entry, by its lowest sequence id, was confirmed, stored at a position, or not (None): a duplicate."""

    sequence_id: int
    position: Position | None


class Failed(Word, frozen=True):
    """An entry, by its lowest sequence id (None: the opening), failed; ``is_refused``: the broker said so."""

    sequence_id: int | None
    code: str
    message: str
    is_refused: bool


class Ended(Word, frozen=True):
    """The program is through, having received so many messages in this run."""

    received: int


class Dying(Word, frozen=True):
    """The program kills itself now, as it was told to, having received so many messages in this run."""

    received: int


class CouldNotGoOn(Word, frozen=True):
    """What the program waits for did not come in time, or it was refused."""

    why: str


class Broke(Word, frozen=True):
    """The program has a bug; the traceback."""

    traceback: str


Report = Told | Answered | Failed | Ended | Dying | CouldNotGoOn | Broke
"""All that an application says."""

T = TypeVar("T")

_PIECE_BYTES: Final = 65536
_encoder = msgspec.json.Encoder()


class Line(Generic[T]):
    """One end of the line between the two; it hears words of one of the two kinds."""

    def __init__(self, sock: socket.socket, decode: Callable[[bytes], T]) -> None:
        """``decode`` reads the words that are heard: :data:`read_order` or :data:`read_report`."""
        self._socket = sock
        self._decode = decode
        self._heard = bytearray()

    def say(self, word: Order | Report) -> None:
        """Say something; nobody at the other end is no hindrance, whoever listens will notice."""
        try:
            self._socket.sendall(_encoder.encode(word) + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            return

    def hear(self, timeout_s: float | None = None) -> T | None:
        """The next word; None if the other side is gone. Raises :class:`NoAnswer` if none comes in time."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (end := self._heard.find(b"\n")) < 0:
            left_s = None if deadline is None else max(0.001, deadline - time.monotonic())
            self._socket.settimeout(left_s)
            try:
                piece = self._socket.recv(_PIECE_BYTES)
            except TimeoutError:
                raise NoAnswer("an application says nothing") from None
            except ConnectionResetError:
                piece = b""
            finally:
                self._socket.settimeout(None)
            if not piece:
                return None
            self._heard += piece
        line, self._heard = bytes(self._heard[:end]), self._heard[end + 1 :]
        return self._decode(line)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


read_order: Final[Callable[[bytes], Order]] = msgspec.json.Decoder(Order).decode
read_report: Final[Callable[[bytes], Report]] = msgspec.json.Decoder(Report).decode
