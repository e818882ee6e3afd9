"""The answers of the admin API, with the fields that the suite uses.

Other fields are ignored, and fields that a release lacks have the defaults here. A position is the broker's text,
``ledger:entry``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from msgspec import Struct, field, json

from conformance.clients.wire.frames import decode_batch
from model.log import Position
from model.vocabulary import REPLICATOR


class AdminAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer of the admin API, with the broker's spelling of names."""


# -------------------------------------------------------------------------------------------------------------- stats


class DrainingHashStats(AdminAnswer, frozen=True):
    """A draining hash of a consumer."""

    hash: int
    unacked_messages: int = field(name="unackMsgs", default=0)
    blocked_attempts: int = 0


class ConsumerStats(AdminAnswer, frozen=True):
    """A connected consumer."""

    consumer_name: str = ""
    address: str | None = None
    """Where it connects from, as ``/host:port``."""
    available_permits: int = 0
    unacked_messages: int = 0
    message_out_counter: int = field(name="msgOutCounter", default=0)
    blocked_on_unacked_messages: bool = field(name="blockedConsumerOnUnackedMsgs", default=False)
    key_hash_ranges: tuple[tuple[int, int], ...] | None = field(name="keyHashRangeArrays", default=None)
    key_hash_ranges_in_words: tuple[str, ...] | None = field(name="keyHashRanges", default=None)
    """The same before 4.0, each as ``[FIRST, LAST]``."""
    draining_hashes_count: int = 0
    draining_hashes_cleared_total: int = 0
    draining_hashes_unacked_messages: int = 0
    draining_hashes: tuple[DrainingHashStats, ...] | None = None
    connected_since: str | None = None

    @property
    def hash_ranges(self) -> tuple[tuple[int, int], ...]:
        """Its ranges of hashes, ends included, from the field that the release has."""
        if self.key_hash_ranges is not None:
            return self.key_hash_ranges
        words = (one.strip("[]").split(", ") for one in self.key_hash_ranges_in_words or ())
        return tuple((int(first), int(last)) for first, last in words)


class SubscriptionStats(AdminAnswer, frozen=True):
    """A subscription; ``backlog`` counts entries, other fields count messages."""

    type: str | None = None
    """The kind of its last consumers; None or "None" before the first one."""
    backlog: int = field(name="msgBacklog", default=0)
    unacked_messages: int = 0
    blocked_on_unacked_messages: bool = field(name="blockedSubscriptionOnUnackedMsgs", default=False)
    in_replay: int | None = field(name="msgInReplay", default=None)
    """The number of entries in the replay queue; None if the release does not show it."""
    active_consumer_name: str | None = None
    consumers: tuple[ConsumerStats, ...] = ()
    durable: bool = field(name="isDurable", default=True)
    replicated: bool = field(name="isReplicated", default=False)
    total_expired: int = field(name="totalMsgExpired", default=0)
    draining_hashes_count: int = 0
    draining_hashes_cleared_total: int = 0
    draining_hashes_unacked_messages: int = 0
    recently_joined: dict[str, str] = field(name="consumersAfterMarkDeletePosition", default_factory=dict)
    """Classic implementation of Key_Shared: recently joined consumers, with the read position when they joined."""


class PublisherStats(AdminAnswer, frozen=True):
    """A connected producer."""

    producer_name: str | None = None
    producer_id: int = 0
    chunked_message_rate: float = 0.0
    connected_since: str | None = None

    @property
    def is_replicator(self) -> bool:
        """Whether it is another cluster's replicator, which releases 3.0 to 3.2 list among the local publishers."""
        return self.producer_name is not None and self.producer_name.startswith(REPLICATOR)


class ReplicationStats(AdminAnswer, frozen=True):
    """The replicator to one other cluster."""

    connected: bool = False
    backlog: int = field(name="replicationBacklog", default=0)

    @property
    def is_through(self) -> bool:
        """Whether it is connected and has no backlog."""
        return self.connected and not self.backlog


class TopicStats(AdminAnswer, frozen=True):
    """``GET …/stats``. Counters are immediate; rates are refreshed once a minute."""

    deduplication_status: str | None = None
    """``Enabled``, ``Disabled``, or a state in between."""
    messages_in_counter: int = field(name="msgInCounter", default=0)
    chunk_published: bool = field(name="msgChunkPublished", default=False)
    publishers: tuple[PublisherStats, ...] = ()
    subscriptions: dict[str, SubscriptionStats] = {}
    replication: dict[str, ReplicationStats] = {}
    backlog_quota_bytes: int | None = field(name="backlogQuotaLimitSize", default=None)
    """The backlog quota in force, -1 without one; None if the release does not show it."""
    backlog_quota_s: int | None = field(name="backlogQuotaLimitTime", default=None)

    @property
    def is_deduplicated(self) -> bool | None:
        """Whether the topic is deduplicated; None in between."""
        return {"Enabled": True, "Disabled": False}.get(self.deduplication_status or "")

    @property
    def chunked_message_rate(self) -> float:
        """The highest rate of a publisher, in chunks per second; 0 without publishers."""
        return max((publisher.chunked_message_rate for publisher in self.publishers), default=0.0)

    @property
    def has_passed_all_on(self) -> bool:
        """Whether no replicator has a backlog."""
        return all(one.is_through for one in self.replication.values())


# ----------------------------------------------------------------------------------------------------- internal stats


@dataclass(frozen=True, slots=True)
class AcknowledgedRange:
    """Individually acknowledged positions: those after ``after``, up to and including ``last``."""

    after: Position
    last: Position


class LedgerStats(AdminAnswer, frozen=True):
    """A ledger of a topic. The current one has 0 entries in the metadata store."""

    ledger_id: int
    entries: int = 0
    size_bytes: int = field(name="size", default=0)


DEDUPLICATION_CURSOR: Final = "pulsar.dedup"
"""The cursor whose properties are a topic's deduplication snapshot."""


class CursorStats(AdminAnswer, frozen=True):
    """A subscription's cursor in the broker's memory."""

    mark_delete_position: str
    read_position: str
    individually_deleted_messages: str = "[]"
    messages_consumed_counter: int = 0
    cursor_ledger_last_entry: int = -1
    """Grows with every write to the cursor's own ledger."""
    waiting_read_op: bool = False
    """Whether a read waits for a new entry."""
    state: str | None = None
    properties: dict[str, int] = {}
    """Of the cursor ``pulsar.dedup``: the snapshot, producer name to sequence id."""

    @property
    def written(self) -> int:
        """The number of writes to the cursor's own ledger. Until it is open, the stats show the one recovered from."""
        return 0 if self.state in {"NoLedger", "SwitchingLedger"} else self.cursor_ledger_last_entry + 1

    @property
    def acknowledged_ranges(self) -> tuple[AcknowledgedRange, ...]:
        """The individually acknowledged ranges."""
        return parse_ranges(self.individually_deleted_messages)


class InternalStats(AdminAnswer, frozen=True):
    """``GET …/internalStats``: the managed ledger of a topic."""

    last_confirmed_entry: str
    number_of_entries: int = 0
    state: str | None = None
    ledgers: tuple[LedgerStats, ...] = ()
    cursors: dict[str, CursorStats] = {}

    @property
    def last_position(self) -> Position:
        """The position of the last entry; its entry is -1 if there is none."""
        return Position.parse(self.last_confirmed_entry)


class AnalyzedBacklog(AdminAnswer, frozen=True):
    """``POST …/analyzeBacklog``: what a subscription's backlog has."""

    entries: int
    messages: int
    aborted: bool = False


class StoredPosition(AdminAnswer, frozen=True):
    """A position as two numbers."""

    ledger_id: int
    entry_id: int

    @property
    def position(self) -> Position:
        """The same in the model's type."""
        return Position(self.ledger_id, self.entry_id)


class StoredRange(AdminAnswer, frozen=True):
    """A range of acknowledged positions in the metadata store."""

    after: StoredPosition = field(name="from")
    last: StoredPosition = field(name="to")


class StoredCursor(AdminAnswer, frozen=True):
    """A cursor in the metadata store: its ledger, and its position info if stored there."""

    cursors_ledger_id: int | None = None
    mark_delete: StoredPosition | None = None
    individual_deleted_messages: tuple[StoredRange, ...] = ()


class PartitionedMetadata(AdminAnswer, frozen=True):
    """``GET …/partitions``."""

    partitions: int = 0


class InternalInfo(AdminAnswer, frozen=True):
    """``GET …/internal-info``: a topic in the metadata store."""

    ledgers: tuple[LedgerStats, ...] = ()
    cursors: dict[str, StoredCursor] = {}


# ------------------------------------------------------------------------------------------------ entries and policies


_PREFIX: Final = "x-pulsar-"
_PROPERTY: Final = "PROPERTY-"
_NO_PROPERTIES: Final = frozenset({"TOTAL-CHUNKS", "CHUNK-ID"})


class RestEntry(Struct, frozen=True, kw_only=True):
    """An entry in the REST API: its stored payload, and its metadata in headers."""

    position: Position
    payload: bytes
    headers: Mapping[str, str]
    """The headers in lower case, without ``x-pulsar-`` and without properties."""
    properties: Mapping[str, str]
    """The properties of a single message; a batch has them in its payload."""

    @classmethod
    def of(cls, headers: Mapping[str, str], payload: bytes) -> Self:
        """Read an answer. Raises KeyError or ValueError if it is no entry."""
        prefixed = {name[len(_PREFIX) :]: value for name, value in headers.items() if name.lower().startswith(_PREFIX)}
        plain = {name.lower(): value for name, value in prefixed.items()}
        if "property" in plain:
            properties = json.decode(plain["property"], type=dict[str, str])
        else:  # before 3.0 each has a header of its own, and a chunk's numbers look like two more
            each = {name[len(_PROPERTY) :]: value for name, value in prefixed.items() if name.startswith(_PROPERTY)}
            properties = {name: value for name, value in each.items() if name not in _NO_PROPERTIES}
        return cls(position=Position.parse(plain["message-id"]), payload=payload, headers=plain, properties=properties)

    @property
    def producer_name(self) -> str | None:
        return self.headers.get("producer-name")

    @property
    def sequence_id(self) -> int | None:
        """Its sequence id; the first one of a batch."""
        return self._number("sequence-id")

    @property
    def highest_sequence_id(self) -> int | None:
        """The last sequence id of a batch."""
        return self._number("highest-sequence-id")

    @property
    def publish_time_ms(self) -> int:
        """Its publish time by the client's clock, in milliseconds since 1970. Raises KeyError without one."""
        return round(datetime.fromisoformat(self.headers["publish-time"]).timestamp() * 1000)

    @property
    def partition_key(self) -> str | None:
        return self.headers.get("partition-key")

    @property
    def uuid(self) -> str | None:
        """The uuid of its chunked message."""
        return self.headers.get("uuid")

    @property
    def chunk_id(self) -> int | None:
        return self._number("chunk-id")

    @property
    def num_chunks(self) -> int | None:
        return self._number("num-chunks-from-msg")

    @property
    def marker_type(self) -> int | None:
        """Its marker type for replicated subscriptions: 10 request, 11 response, 12 snapshot, 13 update."""
        return self._number("marker-type")

    @property
    def replicated_from(self) -> str | None:
        return self.headers.get("replicated-from")

    @property
    def messages(self) -> tuple[bytes, ...]:
        """The payloads of its messages; :class:`~conformance.clients.wire.frames.MalformedFrame` for a bad batch."""
        count = self._number("num-batch-message")
        if count is None:
            return (self.payload,)
        return tuple(payload for _, payload in decode_batch(self.payload, count))

    def _number(self, header: str) -> int | None:
        text = self.headers.get(header)
        return None if text is None else int(text)


class Retention(Struct, frozen=True, kw_only=True):
    """The retention of acknowledged messages; -1 is infinite."""

    time_minutes: int = field(name="retentionTimeInMinutes", default=-1)
    size_mb: int = field(name="retentionSizeInMB", default=-1)


class Persistence(Struct, frozen=True, kw_only=True, rename="camel"):
    """A namespace's quorums, and how often per second a cursor may be persisted; 0 is no limit.

    Without this policy, the rate is that of the broker's configuration.
    """

    bookkeeper_ensemble: int = 1
    bookkeeper_write_quorum: int = 1
    bookkeeper_ack_quorum: int = 1
    managed_ledger_max_mark_delete_rate: float

    @classmethod
    def of(cls, quorum: str, rate: float) -> Persistence:
        """The policy from ``E/W/A``, ensemble, write quorum and ack quorum, and a rate."""
        ensemble, write, ack = map(int, quorum.split("/"))
        return cls(
            bookkeeper_ensemble=ensemble,
            bookkeeper_write_quorum=write,
            bookkeeper_ack_quorum=ack,
            managed_ledger_max_mark_delete_rate=rate,
        )


class InactiveTopics(Struct, frozen=True, kw_only=True):
    """When an inactive topic is deleted; before that, its replicators are closed."""

    idle_s: int = field(name="maxInactiveDurationSeconds")
    mode: str = field(name="inactiveTopicDeleteMode", default="delete_when_no_subscriptions")
    is_deleted: bool = field(name="deleteWhileInactive", default=True)


class NamespacePolicies(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The policies of a new namespace; None leaves one to the broker."""

    retention: Retention | None = field(name="retention_policies", default=None)
    deduplication: bool | None = field(name="deduplicationEnabled", default=None)
    deduplication_snapshot_interval_s: int | None = field(name="deduplicationSnapshotIntervalSeconds", default=None)
    replication_clusters: tuple[str, ...] | None = field(name="replication_clusters", default=None)


_RANGE: Final = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


def parse_ranges(text: str) -> tuple[AcknowledgedRange, ...]:
    """Read ``[(3:0..3:2],(4:1..4:5]]``. Raises ValueError for another form.

    With ``managedLedgerUnackedRangesOpenCacheSetEnabled=false`` brokers write a blank after each comma.
    """
    ranges = tuple(_ranges(text))
    if text.replace(", ", ",") != "[" + ",".join(f"({r.after}..{r.last}]" for r in ranges) + "]":
        raise ValueError(f"not a list of acknowledged ranges: {text}")
    return ranges


def _ranges(text: str) -> Iterator[AcknowledgedRange]:
    for numbers in _RANGE.findall(text):
        after_ledger, after_entry, ledger, entry = map(int, numbers)
        yield AcknowledgedRange(Position(after_ledger, after_entry), Position(ledger, entry))
