"""Unexpected behavior of a broker: internal errors, missing answers, closed connections.

A step of a history contains these apart from its outcome. :mod:`model.service.reasons` decides whether a fault explains
them. ``topic`` and ``actor`` are names of the history, if known.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

NOT_REGISTERED: Final = "is not registered"
"""In the words of an overdue return: a broker that lost its session has no other one, or not for long enough."""

STALE_OWNER: Final = "for the owner of a topic that it lost"
"""The same of a broker that has another session, and did not notice that others took over its topics."""

NOT_REPLICATED: Final = "are not replicated within"
"""In the words of what is overdue: replicators are connected now and then, and do not replicate."""

NOT_CONNECTED: Final = "do not connect"
"""In the words of what is overdue: replicators never connect."""

ANSWERED: Final = "(already answered)"
"""In the request of an error that is a second answer."""

Interface = Literal["binary", "admin"]
"""The interface of a request: Pulsar's binary protocol or its admin API."""

INTERNAL_ERRORS: Final = frozenset({"UnknownError", "MetadataError", "PersistenceError"})
"""Codes of ServerError for a failure in the broker itself, as opposed to a refusal."""


REPEATED: Final = frozenset({"ServiceNotReady", "TooManyRequests", "412", "503"})
"""Codes with which a broker says that it cannot serve yet: clients repeat the request until a wait ends."""


class ErrorAnswer(Struct, frozen=True, tag=True, omit_defaults=True):
    """A request was answered with an error that is not part of the operation's outcome.

    ``code``: the name of a ServerError, or an HTTP status. ``is_last``: no retry followed, or all retries failed.
    ``is_of_several``: the broker that answered is one of several.
    """

    interface: Interface
    request: str
    code: str
    message: str
    topic: str | None = None
    is_last: bool = True
    is_of_several: bool = False


class Silence(Struct, frozen=True, tag=True, omit_defaults=True):
    """A request had no answer in time, or its connection ended first. ``why``: which of these, in words."""

    interface: Interface
    request: str
    why: str
    topic: str | None = None


class Closed(Struct, frozen=True, tag=True, omit_defaults=True):
    """The broker closed a producer, a consumer or its connection, and no operation of the step explains it."""

    actor: str
    why: str
    topic: str | None = None


class BeyondPermits(Struct, frozen=True, tag=True, omit_defaults=True):
    """A consumer of the wire client was sent an entry without a permit: with ``permits`` left for messages, at most 0.

    ``entries``: those left if each permit was for an entry. Both are the lowest of several entries.
    """

    actor: str
    permits: int
    entries: int
    topic: str | None = None


class Overdue(Struct, frozen=True, tag=True, omit_defaults=True):
    """Something that must happen without a request did not happen in time.

    ``rule``: the rule that requires it: clients reconnect (SERVE-02), stats follow operations (SERVE-04).
    """

    rule: Literal["SERVE-02", "SERVE-03", "SERVE-04"]
    what: str
    topic: str | None = None


Unexpected = ErrorAnswer | Silence | Closed | BeyondPermits | Overdue
"""Everything of that kind."""
