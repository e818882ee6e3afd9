"""What a broker did that no operation asks for: internal errors, silence, closed connections.

A step of a history has these beside its outcome. They are observations like any other: whether there is a reason for
one is decided in :mod:`model.service.judging`. ``topic`` and ``actor`` are names of the history, where they are known.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Interface = Literal["binary", "admin"]
"""What was asked: Pulsar's binary protocol, or its admin API."""

INTERNAL_ERRORS: Final = frozenset({"UnknownError", "MetadataError", "PersistenceError"})
"""Codes of ServerError for a failure in the broker itself, as opposed to a refusal."""


class ErrorAnswer(Struct, frozen=True, tag=True, omit_defaults=True):
    """A request was answered with an error that is not part of the operation's outcome.

    ``code``: the name of a ServerError, or an HTTP status. ``is_last``: the request was not made again, or it was
    refused until the time for that was over.
    """

    interface: Interface
    request: str
    code: str
    message: str
    topic: str | None = None
    is_last: bool = True


class Silence(Struct, frozen=True, tag=True, omit_defaults=True):
    """A request had no answer in time, or its connection ended before there was one. ``why``: which, in words."""

    interface: Interface
    request: str
    why: str
    topic: str | None = None


class Closed(Struct, frozen=True, tag=True, omit_defaults=True):
    """The broker closed a producer, a consumer or its connection, and no operation of the step explains it."""

    actor: str
    why: str
    topic: str | None = None


class Overdue(Struct, frozen=True, tag=True, omit_defaults=True):
    """Something that a broker does by itself did not happen in time.

    ``rule``: which rule says that it has to: clients come back (SERVE-02), stats follow what was done (SERVE-04).
    """

    rule: Literal["SERVE-02", "SERVE-03", "SERVE-04"]
    what: str
    topic: str | None = None


Unexpected = ErrorAnswer | Silence | Closed | Overdue
"""Everything of that kind."""
