"""The events of a long history: what happened, one flat value each.

A history on Parquet is a set of these, from any number of writers; ``docs/histories.md`` says what each field means for
each kind. This module is the vocabulary, without files: ``parquet.py`` writes it, ``conformance.pipeline`` judges it.
Nothing here is tied to one rule.
"""

from __future__ import annotations

import enum
import hashlib

import msgspec

VERSION = 1
"""The version of this schema. It rises when a field changes its meaning or goes; a field that is added keeps it."""

ADDED = frozenset({"replicated", "replicated_from"})
"""The fields that files of this version may lack, because they were added later: nobody told them there."""


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
    """The consumer gives the message back, by a negative acknowledgment or because its time was up."""
    REDELIVER = "redeliver"
    """The consumer gives back everything that it holds."""
    SUBSCRIBE = "subscribe"
    """A consumer joins."""
    UNSUBSCRIBE = "unsubscribe"
    """A consumer leaves: it closes, or its connection is gone."""
    BEGIN = "begin"
    """A subscription is made; ``position`` is the mark-delete that it begins with."""
    SEEK = "seek"
    """A subscription is set to ``position``, which is the first to be delivered from then on."""
    SKIP = "skip"
    """An administrator, or an expiry, leaves out everything up to ``position``."""
    FAULT = "fault"
    LOG = "log"
    """A message as it was read back from the log."""
    LOG_END = "log-end"
    """The log was read back from its first entry to ``position``, its last."""
    CURSOR = "cursor"
    """A subscription's mark-delete as it was read."""
    PASSED_ON = "passed-on"
    """A cluster's replicators said that what its log has up to ``position`` has been sent to all other clusters."""
    DRAINED = "drained"
    """The broker said that a subscription has nothing left up to ``position``, and everything sent had arrived."""


class Outcome(enum.StrEnum):
    """What is known of how a call ended."""

    OK = "ok"
    DUPLICATE = "duplicate"
    """Confirmed, but not stored again."""
    FAILED = "failed"
    """It did not take effect."""
    UNKNOWN = "unknown"
    """It may have taken effect."""


KILL = "kill"
"""The fault that ends a broker at once: what it had not persisted is lost. Others (unload, pause, cut) lose nothing."""

UNLOAD = "unload"
RESTART = "restart"

GRACEFUL_MOVES = frozenset({UNLOAD, RESTART})
"""The faults after which a topic is reloaded, everything being persisted: graceful unload or shutdown."""

MOVES = GRACEFUL_MOVES | {KILL}
"""The faults after which a topic is reloaded."""

FIRST_OF_ALL = (-1, -1)
"""The ledger and entry of a mark-delete before every entry."""


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One event. What a kind has no use for is None; a message that stands alone in its entry has batch index -1."""

    run: str
    lane: str
    """Who recorded it: a worker of the run."""
    cluster: str = ""
    topic: str | None = None
    """The topic, partitions by their own names; None where the whole cluster is meant (a fault)."""
    kind: Kind
    outcome: Outcome = Outcome.OK
    deduplication: bool | None = None
    replicated: bool | None = None
    """Of a topic: its messages are replicated between this cluster and the others of the run that say so as well. Of a
    subscription that begins: its state is replicated with it."""
    producer: str | None = None
    sequence_id: int | None = None
    highest_sequence_id: int | None = None
    replicated_from: str | None = None
    """In a log: the cluster in which the message was first stored, by its name in ``cluster``; None for this one."""
    subscription: str | None = None
    subscription_type: str | None = None
    consumer: str | None = None
    redeliveries: int | None = None
    ledger: int | None = None
    entry: int | None = None
    batch_index: int = -1
    key: str | None = None
    chunk_uuid: str | None = None
    chunk_id: int | None = None
    chunks: int | None = None
    digest: int | None = None
    """The payload's, by :func:`digest`."""
    size_bytes: int | None = None
    fault: str | None = None
    invoked_ns: int | None
    """When it began; for a dispatch, when the broker sent it as the proxy saw it, or None where nobody did."""
    completed_ns: int
    """When it ended; all times of a run are on one monotonic clock."""


def digest(payload: bytes) -> int:
    """The digest of a payload: the first 8 bytes of its BLAKE2b, as a signed number, so that it compares quickly."""
    return int.from_bytes(hashlib.blake2b(payload, digest_size=8).digest(), "big", signed=True)
