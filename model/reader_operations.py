"""Readers, with their outcomes (ACK-20).

A reader is a consumer with a non-durable subscription of its own. Its client remembers the last message that it handed
to the application, and begins there again after a reconnect: its position is its own. A new operation needs a class
here, and a function for it, found by its type, in :mod:`model.example.readers`,
:mod:`conformance.lockstep.cursors.readers` (perform) and :mod:`conformance.report.sentences.readers` (words). Machines
draw them from :mod:`stateful.cursors.readers`.
"""

from __future__ import annotations

from typing import ClassVar

from model.log import Position
from model.traffic import Delivery
from model.vocabulary import Operation, Outcome, Start


class OpenReader(Operation, frozen=True):
    """Open a reader at the beginning or the end of a topic, or at a message, by its business id. ReaderOpened.

    ``is_inclusive``: that message is the first one to be read. ``queue``: the receiver queue size; 0: none.
    """

    request: ClassVar = "open reader"

    reader: str
    topic: str
    start: Start = "earliest"
    at: str | None = None
    is_inclusive: bool = False
    queue: int = 0


class ReaderOpened(Outcome, frozen=True):
    """The reader is open, and begins after a message: an entry, and its batch index (-1: after the whole entry)."""

    after: Position
    batch_index: int = -1


class ReadNext(Operation, frozen=True):
    """A reader reads the next ``count`` messages, fewer only if the broker has none for it. MessagesRead.

    It reconnects first if its connection was lost.
    """

    reader: str
    count: int


class MessagesRead(Outcome, frozen=True):
    """The messages, in their order."""

    messages: tuple[Delivery, ...]


class HasMessageAvailable(Operation, frozen=True):
    """Ask a reader whether a message is available: it compares the topic's last message id with its own position.

    AvailabilityRead.
    """

    request: ClassVar = "last message id"

    reader: str


class AvailabilityRead(Outcome, frozen=True):
    """The answer, and the last message id of the broker (None: there is no message)."""

    is_available: bool
    last: Position | None


class SeekReader(Operation, frozen=True):
    """A reader seeks: to a message, or (None) to the beginning; the broker then closes its consumer, and it reconnects.

    ReaderOpened.
    """

    request: ClassVar = "seek"
    may_be_cause: ClassVar = True

    reader: str
    to: str | None
    is_inclusive: bool = False


class CutReader(Operation, frozen=True):
    """Cut a reader's connection; it reconnects when it reads the next time. Done."""

    may_be_cause: ClassVar = True

    reader: str


class CloseReader(Operation, frozen=True):
    """Close a reader. Done."""

    request: ClassVar = "close"

    reader: str


ReaderOperation = OpenReader | ReadNext | HasMessageAvailable | SeekReader | CutReader | CloseReader
"""Every operation of readers."""

ReaderOutcome = ReaderOpened | MessagesRead | AvailabilityRead
"""Every outcome that only these have."""
