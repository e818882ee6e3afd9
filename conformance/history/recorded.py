"""The events of a long history, one flat value each.

A history on Parquet is a set of events from any number of writers; ``docs/histories.md`` defines the fields of each
kind. ``parquet.py`` writes them, ``conformance.pipeline`` judges them.
"""

from __future__ import annotations

import enum

import msgspec

VERSION = 1
"""The version of this schema. It rises when a field is removed or changes its meaning; a new field keeps it."""

ADDED = frozenset({"replicated", "replicated_from", "delayed"})
"""The fields that were added later, which files of this version may lack."""


class Kind(enum.StrEnum):
    """What happened."""

    TOPIC = "topic"
    """How a topic is set up: ``deduplication``, and whether it is ``replicated``."""
    SEND = "send"
    DISPATCH = "dispatch"
    ACK = "ack"
    ACK_CUMULATIVE = "ack-cumulative"
    """Everything up to ``position`` is acknowledged."""
    NACK = "nack"
    """The consumer nacks the message, or its ack timeout expires."""
    REDELIVER = "redeliver"
    """The consumer requests redelivery of all its unacknowledged messages."""
    SUBSCRIBE = "subscribe"
    """A consumer joins."""
    UNSUBSCRIBE = "unsubscribe"
    """A consumer leaves: it closes or loses its connection."""
    BEGIN = "begin"
    """A subscription is created; ``position`` is its first mark-delete position."""
    SEEK = "seek"
    """A subscription is set to ``position``, the first one to be delivered afterwards."""
    SKIP = "skip"
    """An administrator or an expiry skips everything up to ``position``."""
    FAULT = "fault"
    LOG = "log"
    """A message as it was read back from the log."""
    LOG_END = "log-end"
    """The log was read back from its first entry to ``position``, its last."""
    CURSOR = "cursor"
    """A subscription's mark-delete position as it was read."""
    PASSED_ON = "passed-on"
    """A cluster's replicators have sent the log up to ``position`` to all other clusters, according to their stats."""
    DRAINED = "drained"
    """A subscription has no backlog up to ``position``, by the broker's stats, and its consumers received all."""


class CallOutcome(enum.StrEnum):
    """The known outcome of a call."""

    OK = "ok"
    DUPLICATE = "duplicate"
    """Confirmed, but not stored again."""
    FAILED = "failed"
    """It did not take effect."""
    UNKNOWN = "unknown"
    """It may have taken effect."""


KILL = "kill"
"""The fault that loses state that is not persisted. Others (unload, pause, cut) lose nothing."""

UNLOAD = "unload"
RESTART = "restart"

GRACEFUL_RELOADS = frozenset({UNLOAD, RESTART})
"""The faults that persist everything before the topic is reloaded: graceful unload or shutdown."""

RELOADS = GRACEFUL_RELOADS | {KILL}
"""The faults after which a topic is reloaded."""

UNSEEN = "unseen"
"""No fault, but a time in which the recorder did not see what happened to a topic, a kill among other things."""

LOSSES = frozenset({KILL, UNSEEN})
"""The faults that may lose state that is not persisted."""

PERHAPS_RELOADS = RELOADS | {UNSEEN}
"""The faults during which a topic may be reloaded."""

FIRST_OF_ALL = (-1, -1)
"""The ledger and entry of a mark-delete before every entry."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One event. Fields that its kind does not use are None; an unbatched message has batch index -1."""

    run: str
    lane: str
    """The worker of the run that recorded it."""
    cluster: str = ""
    topic: str | None = None
    """The topic or partition; None for a fault of the whole cluster."""
    kind: Kind
    outcome: CallOutcome = CallOutcome.OK
    deduplication: bool | None = None
    replicated: bool | None = None
    """Of a topic: its messages are replicated between this cluster and the others of the run with this flag. Of a
    subscription that begins: it is a replicated subscription."""
    producer: str | None = None
    sequence_id: int | None = None
    highest_sequence_id: int | None = None
    replicated_from: str | None = None
    """In a log: the cluster of origin, by its name in ``cluster``; None for this one."""
    subscription: str | None = None
    subscription_type: str | None = None
    consumer: str | None = None
    redeliveries: int | None = None
    delayed: bool | None = None
    """Of a dispatch: the message was published with a delay, so consumers that share a subscription get it later."""
    ledger: int | None = None
    entry: int | None = None
    batch_index: int = -1
    key: str | None = None
    chunk_uuid: str | None = None
    chunk_id: int | None = None
    chunks: int | None = None
    digest: int | None = None
    """The :func:`~conformance.digest.digest` of the payload."""
    size_bytes: int | None = None
    fault: str | None = None
    invoked_ns: int | None
    """When it began; for a dispatch, when the proxy saw it, or None without a proxy."""
    completed_ns: int
    """When it ended; all times of a run are on one monotonic clock."""
