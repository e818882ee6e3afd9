"""Every outcome that an operation of a history may have, and what was observed with it.

Outcomes are plain values, as operations are (:mod:`model.operations`). They report what a client or the broker said;
nothing is judged here.
"""

from __future__ import annotations

from msgspec import Struct

from model.cluster_events import ReplicationOutcome, ReplicationSettings
from model.expiry_operations import ExpiryAnswer
from model.failpoints import FailpointKind
from model.hole_operations import HoleOutcome
from model.log import Position
from model.policy_operations import PolicyAnswer
from model.producer_operations import ProducerAnswer
from model.read_operations import BacklogAnalyzed, ReadAnswer
from model.reader_operations import ReaderOutcome
from model.traffic import Delivery as Delivery
from model.traffic import Life, LoggedPart, Traffic
from model.vocabulary import Entry, HashRange, Outcome, SnapshotSchedule, Withheld

# ----------------------------------------------------------------------------------------------------- any operation's


class Done(Outcome, frozen=True, omit_defaults=True):
    """It took effect; there is nothing more to report, except what passed a proxy until then."""

    traffic: tuple[Traffic, ...] = ()


class Skipped(Outcome, frozen=True):
    """It was not performed, because something that it needs does not exist (its session was never opened, say)."""

    why: str


class Refused(Outcome, frozen=True):
    """It failed: the broker or the client said so, and it did not take effect."""

    code: str
    message: str = ""


class Unknown(Outcome, frozen=True):
    """It may or may not have taken effect."""

    why: str


class Abandoned(Outcome, frozen=True):
    """It was not carried out to its end: the step's ``unexpected`` says what the broker did, or the run ended.

    How much of it took effect is not known, so the example ends with it.
    """

    why: str


# -------------------------------------------------------------------------------------------- topics, broker, network


class Created(Outcome, frozen=True):
    """A topic exists; what the broker's configuration says about it.

    ``snapshot_room``: how many producers its deduplication snapshot holds. ``ledger_room``: how many entries a ledger
    takes (None: not known). Cursors: how often they may be persisted (None: without limit), how long they are dirty at
    most, how many ranges the metadata store takes, and how many are persisted at all. Key_Shared: whether it has
    draining hashes, and ``look_ahead``: the longest replay queue for each consumer, and in all, at which new messages
    are read (0: any). ``unacknowledged_in_all``: how many unacknowledged messages a subscription may have (0: any).
    ``replication``: if several clusters have the topic. ``limit_bytes``: the largest entry of a chunked topic, as
    clients learn it. ``snapshots``: when one of deduplication is due (None: not known). ``delay_tick_ms``: how exactly
    delays are kept (None: not at all). ``is_policy_shown``: by the broker's account, the topic has its own policy, if
    it was given one.
    """

    deduplication: bool
    snapshot_room: int
    ledger_room: int | None = None
    persisted_per_s: float | None = None
    flush_s: float = 60.0
    stored_ranges: int = 1000
    persisted_ranges: int = 10_000
    has_draining_hashes: bool = True
    look_ahead: tuple[int, int] = (2000, 20000)
    unacknowledged_in_all: int = 0
    replication: ReplicationSettings | None = None
    limit_bytes: int | None = None
    snapshots: SnapshotSchedule | None = None
    delay_tick_ms: float | None = None
    is_policy_shown: bool = True


class DeduplicationSet(Outcome, frozen=True):
    """A policy was set; whether deduplication is on now (the topic's own policy goes before its namespace's)."""

    deduplication: bool


class PolicyIgnored(Outcome, frozen=True):
    """A policy was set, which the broker shows or does not show; by its account deduplication is still this."""

    deduplication: str
    is_shown: bool = True


class BookiesLeft(Outcome, frozen=True):
    """So many bookies serve now."""

    number: int


class PowerFailed(Outcome, frozen=True):
    """The broker was killed with its bookies, which lost what they had not synced."""


class TakenOver(Outcome, frozen=True):
    """These topics were closed at their owner; whether another broker owns the one that was named now.

    ``releases``: in a rolling upgrade, those of the former owner and of the present one.
    """

    topics: tuple[str, ...]
    is_elsewhere: bool = True
    releases: tuple[str, str] | None = None

    @property
    def is_of_other_release(self) -> bool:
        """Whether the present owner is of another release than the former one."""
        return self.releases is not None and self.releases[0] != self.releases[1]


class Fired(Struct, frozen=True):
    """How often a failpoint on a topic really made something fail."""

    topic: str
    kind: FailpointKind
    times: int


class Cleared(Outcome, frozen=True):
    """No failpoint is on any more; for each topic and kind that was, how often it really fired."""

    fired: tuple[Fired, ...]


class NetworkFaultsCleared(Outcome, frozen=True):
    """No network fault is set any more; how often those that were set fired."""

    fired: int


class Terminated(Outcome, frozen=True):
    """A topic was terminated; its last position, as the broker answers it. In older histories, Done."""

    end: Position


class StillConnected(Outcome, frozen=True):
    """A namespace or a bundle was unloaded, and these producers and consumers of the wire client are connected all
    the same."""

    actors: tuple[str, ...]


class Trimmed(Outcome, frozen=True):
    """The ledgers of a topic that are left, as the broker lists them."""

    ledgers: tuple[int, ...]


class LoggedEntry(Struct, frozen=True):
    """An entry as it was read from the log."""

    position: Position
    producer: str
    entry: Entry


class LogRead(Outcome, frozen=True, omit_defaults=True):
    """The whole log, in the order of positions; of a chunked topic as ``parts`` of messages. Of a named cluster:
    whether the topic ``is_deduplicated`` there, and the replicator to it ``has_reconnected``."""

    entries: tuple[LoggedEntry, ...] = ()
    parts: tuple[LoggedPart, ...] = ()
    is_deduplicated: bool = False
    has_reconnected: bool = False


class SnapshotRead(Outcome, frozen=True, omit_defaults=True):
    """The stored deduplication snapshot: producer name to sequence id, and its position.

    ``last``: where one that is due was waited for, the end of the log when that began (None: it was empty), and
    ``waited_s`` how long it was waited for.
    """

    position: Position
    producers: dict[str, int]
    last: Position | None = None
    waited_s: float = 0.0


# ----------------------------------------------------------------------------------------------------------- producers


class Opened(Outcome, frozen=True, omit_defaults=True):
    """A producer is open, with this last sequence id in ProducerSuccess (-1: none, None: the client hides it).

    ``epoch``: the topic's epoch in it, where access is exclusive.
    """

    last_sequence_id: int | None
    epoch: int | None = None


class Stored(Outcome, frozen=True):
    """A send took effect: the entry is at this position."""

    position: Position


class Duplicate(Outcome, frozen=True):
    """A send was confirmed without a position: to the broker the entry is a duplicate."""


Answer = Stored | Duplicate | Refused | Unknown
"""What is known of one entry that was sent."""


class Sent(Outcome, frozen=True, omit_defaults=True):
    """The answers to a send, one for each entry, in their order; none yet where they are not awaited.

    On a chunked topic, also the producer's lives on the wire. ``unloaded_after``: the topic was unloaded after so many
    of them (0: it was not). ``other``: the outcome of the entries that another session sent in between.
    ``last_sequence_id``: the producer's own account of its last sequence id after that; None: it was not asked.
    """

    answers: tuple[Answer, ...]
    lives: tuple[Life, ...] = ()
    unloaded_after: int = 0
    other: Sent | None = None
    last_sequence_id: int | None = None

    @property
    def is_unloaded(self) -> bool:
        """Whether the topic was unloaded meanwhile."""
        return bool(self.unloaded_after or (self.other and self.other.unloaded_after))


class ChunkRate(Outcome, frozen=True):
    """The highest rate of chunks a second that was seen while messages were sent, and the outcome of sending them.

    ``is_chunked``: the broker's stats say that chunks were published.
    """

    rate: float
    is_chunked: bool
    sent: Sent


class Late(Struct, frozen=True):
    """Answers to a session's earlier send that was not awaited, collected before a later operation."""

    session: str
    answers: tuple[Answer, ...]


class FormerAnswer(Struct, frozen=True):
    """What a former owner of a topic answered to an entry that a session had sent to it."""

    session: str
    entry: Entry
    answer: Answer


class Thawed(Outcome, frozen=True):
    """What former owners answered after they went on, to all that they had not answered when they were frozen, and to
    all that was sent to them since."""

    answers: tuple[FormerAnswer, ...]


# ----------------------------------------------------------------------------------------------------------- consumers


class Subscribed(Outcome, frozen=True, omit_defaults=True):
    """A consumer is subscribed. ``drains``: whether the owner has draining hashes, where brokers differ in that."""

    drains: bool | None = None


class ReceivedMessages(Outcome, frozen=True):
    """What a consumer received. ``settled``: the broker cannot have sent it anything more.

    ``blocked``: by the stats it is sent nothing, for its many unacknowledged messages; ``withheld``: for those in all.
    """

    messages: tuple[Delivery, ...]
    settled: bool = False
    blocked: bool = False
    withheld: Withheld | None = None


class Acknowledged(Outcome, frozen=True, omit_defaults=True):
    """What was acknowledged. ``receipt``: the broker confirmed it; otherwise the client may still hold the ack.

    ``begun_ms``: when it was sent, in ms since 1970, as publish times are; 0 where that was not recorded.
    """

    messages: tuple[Delivery, ...]
    receipt: bool = False
    begun_ms: int = 0
    traffic: tuple[Traffic, ...] = ()


class RedeliveryRequested(Outcome, frozen=True, omit_defaults=True):
    """The messages whose redelivery was, or will be, requested."""

    messages: tuple[Delivery, ...]
    traffic: tuple[Traffic, ...] = ()


class RedeliveryTimes(Outcome, frozen=True):
    """How long after each nack a message came again (the first delay is ``first_ms``); ``others`` came without one."""

    message: Delivery
    first_ms: float
    after_ms: tuple[float, ...]
    others: tuple[Delivery, ...] = ()


class AllReceived(Outcome, frozen=True):
    """All unacknowledged messages of a subscription, as they were delivered."""

    messages: tuple[Delivery, ...]


class Starved(Outcome, frozen=True):
    """Messages that were due did not arrive in time, although the broker is up."""

    why: str
    messages: tuple[Delivery, ...] = ()


class DrainingHash(Struct, frozen=True):
    """A draining hash in a consumer's stats: its unacknowledged messages, and how often it blocked others."""

    hashed: int
    unacknowledged: int
    blocked: int


class ConsumerRead(Struct, frozen=True):
    """What a consumer was sent since it was read last, in the broker's order, and the broker's stats about it.

    Its unacknowledged messages, its permits, its hash ranges (None: the release does not show them), its draining
    hashes, and how many of those are cleared.
    """

    consumer: str
    messages: tuple[Delivery, ...]
    unacknowledged: int
    permits: int = 0
    ranges: tuple[HashRange, ...] | None = None
    draining: tuple[DrainingHash, ...] = ()
    cleared: int = 0


class DueReceived(Outcome, frozen=True, omit_defaults=True):
    """What each consumer of a subscription was sent, and the broker's stats about the whole of it.

    The draining hashes, their unacknowledged messages, and how many are cleared. ``waited_ms``: the time until nothing
    more was due. ``is_waiting``: the broker had read all entries and waited for a new one; ``in_replay``: the number of
    entries in the replay queue then; ``withheld``: as of :class:`ReceivedMessages`; ``drains``: as of
    :class:`Subscribed`. On a chunked topic: what passed to each consumer, and the log, read after that.
    """

    consumers: tuple[ConsumerRead, ...] = ()
    draining: int = 0
    unacknowledged: int = 0
    cleared: int = 0
    waited_ms: float = 0.0
    is_waiting: bool = False
    in_replay: int = 0
    withheld: Withheld | None = None
    traffic: tuple[Traffic, ...] = ()
    log: tuple[LoggedPart, ...] = ()
    drains: bool | None = None


# ------------------------------------------------------------------------------------------------------------- cursors


class Range(Struct, frozen=True):
    """Individually acknowledged positions beyond mark-delete: those after ``after``, up to and including ``last``."""

    after: Position
    last: Position


class CursorRead(Outcome, frozen=True):
    """A subscription's state, by the broker's stats.

    ``backlog`` counts entries; ``unacknowledged`` counts messages at consumers; ``arrived`` is what each consumer was
    sent and had not received; ``written`` counts the entries that the cursor's own ledger got since its creation;
    ``withheld``: as of :class:`ReceivedMessages`. ``stored_after``: how many entries the log has after mark-delete,
    with markers, where clusters may write them.
    """

    mark_delete: Position
    ranges: tuple[Range, ...]
    backlog: int
    unacknowledged: int
    arrived: tuple[ConsumerRead, ...] = ()
    written: int = 0
    withheld: Withheld | None = None
    stored_after: int | None = None


class MessagePeeked(Outcome, frozen=True):
    """The position of a subscription's unacknowledged entry; None if it has fewer entries."""

    position: Position | None


class StoredCursorRead(Outcome, frozen=True):
    """A cursor in the metadata store: its position, or (None) only a reference to the cursor's ledger."""

    mark_delete: Position | None
    ranges: tuple[Range, ...] = ()


class Persisted(Outcome, frozen=True):
    """A cursor's state is persisted: after this time, with so many entries in its ledger since its creation."""

    after_ms: float
    entries: int


class NotPersisted(Outcome, frozen=True):
    """A cursor's state was not persisted within ``waited_ms``."""

    waited_ms: float


class CursorReset(Outcome, frozen=True):
    """A cursor was reset to an entry, the next to be delivered (by time: published then or later); None: earliest."""

    to: Position | None


class Expired(Outcome, frozen=True):
    """The broker has finished an expiry."""


class UnacknowledgedRead(Outcome, frozen=True, omit_defaults=True):
    """A subscription's unacknowledged entries, by the broker's stats, and what passed to its consumers until then."""

    positions: tuple[Position, ...]
    traffic: tuple[Traffic, ...] = ()


RequestAnswer = Done | Refused | CursorReset | MessagePeeked | BacklogAnalyzed
"""What an administrator's request for a subscription may come to."""


class BothAnswered(Outcome, frozen=True):
    """What each of two requests at once came to."""

    first: RequestAnswer
    second: RequestAnswer


class CursorMoved(Outcome, frozen=True, omit_defaults=True):
    """The admin API skipped, expired or reset: the unacknowledged entries before and after, by the broker's stats.

    ``traffic``: what passed to the subscription's consumers before that.
    """

    before: tuple[Position, ...]
    after: tuple[Position, ...]
    traffic: tuple[Traffic, ...] = ()


# -------------------------------------------------------------------------------------------------------- applications


class Confirmed(Struct, frozen=True):
    """An entry that was confirmed, by its lowest sequence id; without a position where it was a duplicate."""

    sequence_id: int
    position: Position | None


class SourceStarted(Outcome, frozen=True):
    """The source's producer is open, with this last sequence id in ProducerSuccess (-1: none)."""

    told: int


class SourceEnded(Outcome, frozen=True):
    """A life is over: what was confirmed in it, how many entries were not, and how often it had to open again.

    ``stalled``: how often it did so only because pulsar-client, which reconnects by itself, was silent for too long.
    """

    confirmed: tuple[Confirmed, ...]
    left: int
    came_back: int
    stalled: int = 0


class Consumed(Outcome, frozen=True):
    """What a consumer received, and what of it it acknowledged: for a batch, only when all of it is."""

    messages: tuple[Delivery, ...]
    acknowledged: tuple[Delivery, ...]


class Drained(Outcome, frozen=True):
    """What was left of a subscription; now by the broker's account all of it is acknowledged."""

    messages: tuple[Delivery, ...]


class Ran(Outcome, frozen=True):
    """A run of a program is over: whether it was killed, and how many messages it received."""

    killed: bool
    received: int


class DatabaseRead(Outcome, frozen=True):
    """What a program applied to its state, in order, as far as it was committed."""

    applied: tuple[Delivery, ...]


class Stuck(Outcome, frozen=True):
    """An application could not go on in time, although the broker is up. ``undelivered``: entries that nobody got."""

    why: str
    undelivered: tuple[Position, ...] = ()


ApplicationOutcome = SourceStarted | SourceEnded | Consumed | Drained | Ran | DatabaseRead | Stuck
"""Every outcome that only operations of applications have."""

CursorOutcome = (
    Subscribed
    | ReceivedMessages
    | Acknowledged
    | RedeliveryRequested
    | RedeliveryTimes
    | CursorRead
    | MessagePeeked
    | StoredCursorRead
    | Persisted
    | NotPersisted
    | CursorReset
    | Expired
    | Terminated
    | Trimmed
    | AllReceived
    | Starved
)
"""Every outcome that only operations of document 003 have."""

AnyOutcome = (
    Created
    | DeduplicationSet
    | PolicyIgnored
    | Cleared
    | Done
    | Skipped
    | Abandoned
    | Answer
    | Sent
    | Opened
    | LogRead
    | SnapshotRead
    | ApplicationOutcome
    | CursorOutcome
    | DueReceived
    | ReplicationOutcome
    | NetworkFaultsCleared
    | TakenOver
    | BookiesLeft
    | PowerFailed
    | Thawed
    | StillConnected
    | BothAnswered
    | CursorMoved
    | UnacknowledgedRead
    | ChunkRate
    | ReadAnswer
    | ProducerAnswer
    | ExpiryAnswer
    | PolicyAnswer
    | ReaderOutcome
    | HoleOutcome
)
"""Every outcome."""
