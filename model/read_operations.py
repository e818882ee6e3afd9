"""Requests of administrators and clients that only read, with their outcomes; as in :mod:`model.operations`.

A new one needs a class here, and a function for it, found by its type, in :mod:`model.example.reads` (judge),
:mod:`conformance.lockstep.reads` (perform) and :mod:`conformance.report.sentences.reads` (words). Machines draw them
from :mod:`stateful.service.reads`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from model.log import Position
from model.vocabulary import Operation, Outcome


class AnalyzeBacklog(Operation, frozen=True):
    """Have the broker count a subscription's backlog by reading all of it (PIP-187). BacklogAnalyzed."""

    request: ClassVar = "analyze backlog"

    topic: str
    subscription: str


class BacklogAnalyzed(Outcome, frozen=True, omit_defaults=True):
    """The unacknowledged entries, and the messages in them. ``is_aborted``: the broker did not read all of them."""

    entries: int
    messages: int
    is_aborted: bool = False


class ReadMessage(Operation, frozen=True):
    """Read a message by its id, through the admin API. EntryRead, or Refused.

    Without ``message``: the entry after the last one of a ledger, which does not exist.
    """

    request: ClassVar = "read message"

    topic: str
    message: str | None


class ExamineMessage(Operation, frozen=True):
    """Read the ``nth`` entry of the log from its beginning or its end, counted from 1. EntryRead, or Refused.

    The log may have fewer entries.
    """

    request: ClassVar = "examine"

    topic: str
    nth: int
    from_end: bool = False


class EntryRead(Outcome, frozen=True):
    """The position of the entry in the answer."""

    position: Position


class FindByTime(Operation, frozen=True):
    """Ask for the first message id at a time: the publish time of a message, or (None) a later one. MessageIdRead."""

    request: ClassVar = "find by time"

    topic: str
    message: str | None


class MessageIdRead(Outcome, frozen=True):
    """The answer, and the first entry with this publish time or a later one (None: there is none)."""

    position: Position
    first: Position | None


class ReadInternals(Operation, frozen=True):
    """Read a topic's internal stats, with the metadata of its ledgers. InternalsRead."""

    request: ClassVar = "read internal stats"

    topic: str


class InternalsRead(Outcome, frozen=True):
    """The number of entries, the last one, and the names of the cursors."""

    entries: int
    last: Position
    cursors: tuple[str, ...]


Subject = Literal[
    "look-up",
    "look-up by wire",
    "partitions by wire",
    "bundle",
    "schema",
    "schema versions",
    "namespace policies",
    "topic policy",
    "permissions",
    "stats",
    "subscriptions",
    "topics",
    "last message id",
    "stored state",
]
"""What an inquiry is about. By wire: with a command of the binary protocol, otherwise through the admin API."""


class Inquire(Operation, frozen=True):
    """Ask for something about a topic. Answered, or Refused (it has no schema, or no policies of its own)."""

    request: ClassVar = "inquire"

    topic: str
    about: Subject


class Answered(Outcome, frozen=True, omit_defaults=True):
    """The broker answered, with these names, or this position."""

    names: tuple[str, ...] = ()
    position: Position | None = None


ReadRequest = AnalyzeBacklog | ReadMessage | ExamineMessage | FindByTime | ReadInternals | Inquire
"""Every request that only reads."""

ReadAnswer = BacklogAnalyzed | EntryRead | MessageIdRead | InternalsRead | Answered
"""Every outcome that only these have."""
