"""What the admin interface answers, as far as the suite looks at it.

Releases differ in what they tell: fields that are not here are passed over, and fields that a release does not have
take the value they have here. A position stays the text that the broker gave, ``ledger:entry``.
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


class Answer(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all answers have in common: names written as the broker writes them."""


# -------------------------------------------------------------------------------------------------------------- stats


class DrainingHash(Answer, frozen=True):
    """A hash of a Key_Shared subscription that waits for one consumer's messages to be acknowledged."""

    hash: int
    unacked_messages: int = field(name="unackMsgs", default=0)
    blocked_attempts: int = 0


class ConsumerStats(Answer, frozen=True):
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
    draining_hashes: tuple[DrainingHash, ...] | None = None
    connected_since: str | None = None

    @property
    def hash_ranges(self) -> tuple[tuple[int, int], ...]:
        """The ranges of hashes that it has, ends included, by whichever name the release has for them."""
        if self.key_hash_ranges is not None:
            return self.key_hash_ranges
        words = (one.strip("[]").split(", ") for one in self.key_hash_ranges_in_words or ())
        return tuple((int(first), int(last)) for first, last in words)


class SubscriptionStats(Answer, frozen=True):
    """A subscription; messages count entries' messages as the broker knows them, ``backlog`` counts entries."""

    type: str | None = None
    """The kind of subscription, as its last consumers had it; None, or "None", before the first one."""
    backlog: int = field(name="msgBacklog", default=0)
    unacked_messages: int = 0
    blocked_on_unacked_messages: bool = field(name="blockedSubscriptionOnUnackedMsgs", default=False)
    in_replay: int = field(name="msgInReplay", default=0)
    active_consumer_name: str | None = None
    consumers: tuple[ConsumerStats, ...] = ()
    durable: bool = field(name="isDurable", default=True)
    replicated: bool = field(name="isReplicated", default=False)
    non_contiguous_deleted_ranges: int = field(name="nonContiguousDeletedMessagesRanges", default=0)
    total_expired: int = field(name="totalMsgExpired", default=0)
    draining_hashes_count: int = 0
    draining_hashes_cleared_total: int = 0
    draining_hashes_unacked_messages: int = 0
    recently_joined: dict[str, str] = field(name="consumersAfterMarkDeletePosition", default_factory=dict)
    """Of the classic implementation of Key_Shared: consumers, and the position that was to be read when they joined."""


class PublisherStats(Answer, frozen=True):
    """A connected producer."""

    producer_name: str | None = None
    producer_id: int = 0
    access_mode: str | None = None
    chunked_message_rate: float = 0.0
    connected_since: str | None = None


class ReplicationStats(Answer, frozen=True):
    """The replicator to one other cluster."""

    connected: bool = False
    backlog: int = field(name="replicationBacklog", default=0)

    @property
    def is_through(self) -> bool:
        """Whether it is connected, and all that it had to send is there, as it says."""
        return self.connected and not self.backlog


class TopicStats(Answer, frozen=True):
    """``GET …/stats``. Counters are immediate; rates are refreshed once a minute."""

    deduplication_status: str | None = None
    """``Enabled``, ``Disabled``, or a state in between."""
    messages_in_counter: int = field(name="msgInCounter", default=0)
    messages_out_counter: int = field(name="msgOutCounter", default=0)
    storage_size_bytes: int = field(name="storageSize", default=0)
    chunk_published: bool = field(name="msgChunkPublished", default=False)
    publishers: tuple[PublisherStats, ...] = ()
    subscriptions: dict[str, SubscriptionStats] = {}
    replication: dict[str, ReplicationStats] = {}
    owner_broker: str | None = None
    topic_epoch: int | None = None

    @property
    def chunked_message_rate(self) -> float:
        """The highest rate of a publisher, in chunks a second; 0 without publishers."""
        return max((publisher.chunked_message_rate for publisher in self.publishers), default=0.0)

    @property
    def has_passed_all_on(self) -> bool:
        """Whether all replicators are through; also where there are none."""
        return all(one.is_through for one in self.replication.values())


# ----------------------------------------------------------------------------------------------------- internal stats


@dataclass(frozen=True, slots=True)
class AcknowledgedRange:
    """Positions acknowledged beyond mark-delete: those behind ``after``, up to and with ``last``."""

    after: Position
    last: Position


class LedgerStats(Answer, frozen=True):
    """A ledger of a topic. The one that is written to says 0 entries in the metadata store."""

    ledger_id: int
    entries: int = 0
    size_bytes: int = field(name="size", default=0)
    offloaded: bool = False


class CursorStats(Answer, frozen=True):
    """A subscription's cursor, as the broker has it in memory."""

    mark_delete_position: str
    read_position: str
    individually_deleted_messages: str = "[]"
    messages_consumed_counter: int = 0
    cursor_ledger: int = -1
    cursor_ledger_last_entry: int = -1
    """Grows with everything that is persisted in the cursor's own ledger."""
    pending_read_ops: int = 0
    waiting_read_op: bool = False
    """Whether a read waits for a new entry."""
    state: str | None = None
    properties: dict[str, int] = {}
    """Of the cursor ``pulsar.dedup``: the snapshot, producer name to sequence id."""

    @property
    def acknowledged_ranges(self) -> tuple[AcknowledgedRange, ...]:
        """What is acknowledged beyond mark-delete."""
        return parse_ranges(self.individually_deleted_messages)


class InternalStats(Answer, frozen=True):
    """``GET …/internalStats``: the managed ledger of a topic."""

    last_confirmed_entry: str
    entries_added_counter: int = 0
    number_of_entries: int = 0
    current_ledger_entries: int = 0
    pending_add_entries: int = field(name="pendingAddEntriesCount", default=0)
    state: str | None = None
    ledgers: tuple[LedgerStats, ...] = ()
    cursors: dict[str, CursorStats] = {}


class StoredPosition(Answer, frozen=True):
    """A position in its two numbers."""

    ledger_id: int
    entry_id: int

    @property
    def position(self) -> Position:
        """The same as a value of the model."""
        return Position(self.ledger_id, self.entry_id)


class StoredRange(Answer, frozen=True):
    """A range of acknowledged positions in the metadata store."""

    after: StoredPosition = field(name="from")
    last: StoredPosition = field(name="to")


class StoredCursor(Answer, frozen=True):
    """A cursor in the metadata store: where its ledger is, and what of it was stored beside that."""

    cursors_ledger_id: int | None = None
    mark_delete: StoredPosition | None = None
    individual_deleted_messages: tuple[StoredRange, ...] = ()


class PartitionedMetadata(Answer, frozen=True):
    """``GET …/partitions``."""

    partitions: int = 0


class InternalInfo(Answer, frozen=True):
    """``GET …/internal-info``: a topic as the metadata store has it."""

    ledgers: tuple[LedgerStats, ...] = ()
    cursors: dict[str, StoredCursor] = {}


# ------------------------------------------------------------------------------------------------ entries and policies


_PREFIX: Final = "x-pulsar-"
_PROPERTY: Final = "PROPERTY-"
_NO_PROPERTIES: Final = frozenset({"TOTAL-CHUNKS", "CHUNK-ID"})


class RestEntry(Struct, frozen=True, kw_only=True):
    """An entry as the REST interface gives it: its payload as it is stored, and the rest of it in headers."""

    position: Position
    payload: bytes
    headers: Mapping[str, str]
    """In lower case, without ``x-pulsar-``, properties apart."""
    properties: Mapping[str, str]
    """Its properties; of a single message only, a batch has them within."""

    @classmethod
    def of(cls, headers: Mapping[str, str], payload: bytes) -> Self:
        """Read an answer; raises KeyError or ValueError if it is none of an entry."""
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
        """What it was sent with; of a batch, its first one."""
        return self._number("sequence-id")

    @property
    def highest_sequence_id(self) -> int | None:
        """The last sequence id of a batch."""
        return self._number("highest-sequence-id")

    @property
    def publish_time_ms(self) -> int:
        """When its client sent it, by its own clock; milliseconds since 1970. KeyError where it does not say."""
        return round(datetime.fromisoformat(self.headers["publish-time"]).timestamp() * 1000)

    @property
    def partition_key(self) -> str | None:
        return self.headers.get("partition-key")

    @property
    def uuid(self) -> str | None:
        """Which chunked message it is a chunk of."""
        return self.headers.get("uuid")

    @property
    def chunk_id(self) -> int | None:
        return self._number("chunk-id")

    @property
    def num_chunks(self) -> int | None:
        return self._number("num-chunks-from-msg")

    @property
    def marker_type(self) -> int | None:
        """Which marker of replicated subscriptions it is: 10 request, 11 response, 12 snapshot, 13 update."""
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
    """How long acknowledged messages are kept; -1 is for ever."""

    time_minutes: int = field(name="retentionTimeInMinutes", default=-1)
    size_mb: int = field(name="retentionSizeInMB", default=-1)


class Persistence(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a topic is stored: on how many bookies, and how often a second a cursor's state may be; 0 is without a limit.

    Releases take the rate as it is; it is the one of the broker's configuration where there is no such policy.
    """

    bookkeeper_ensemble: int = 1
    bookkeeper_write_quorum: int = 1
    bookkeeper_ack_quorum: int = 1
    managed_ledger_max_mark_delete_rate: float

    @classmethod
    def of(cls, quorum: str, rate: float) -> Persistence:
        """The policy of an ensemble, write quorum and ack quorum, written ``E/W/A``, and of a rate."""
        ensemble, write, ack = map(int, quorum.split("/"))
        return cls(
            bookkeeper_ensemble=ensemble,
            bookkeeper_write_quorum=write,
            bookkeeper_ack_quorum=ack,
            managed_ledger_max_mark_delete_rate=rate,
        )


class InactiveTopics(Struct, frozen=True, kw_only=True):
    """When a topic that is not used is deleted, and before that, where it is replicated, its replicators are closed."""

    idle_s: int = field(name="maxInactiveDurationSeconds")
    mode: str = field(name="inactiveTopicDeleteMode", default="delete_when_no_subscriptions")
    is_deleted: bool = field(name="deleteWhileInactive", default=True)


class NamespacePolicies(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a namespace is created with; None leaves it to the broker."""

    retention: Retention | None = field(name="retention_policies", default=None)
    deduplication: bool | None = field(name="deduplicationEnabled", default=None)
    deduplication_snapshot_interval_s: int | None = field(name="deduplicationSnapshotIntervalSeconds", default=None)
    replication_clusters: tuple[str, ...] | None = field(name="replication_clusters", default=None)


_RANGE: Final = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


def parse_ranges(text: str) -> tuple[AcknowledgedRange, ...]:
    """Read ``[(3:0..3:2],(4:1..4:5]]``; raise ValueError for what is not of that form.

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
