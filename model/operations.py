"""Operations and their outcomes: the words in which a history is told.

An operation is chosen by a machine, performed on a system, and judged together with its outcome. Both are plain values
that can be written to a file and read again, so that a history replays. Names are local to one history: a session
``"s1"``, a topic ``"t0"``; the system maps them to real ones. Nothing is performed or judged here.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from model.applications.vocabulary import ApplicationOperation, ApplicationOutcome
from model.chunking.vocabulary import ChunkOperation, ChunkOutcome
from model.cursors.vocabulary import CursorOperation, CursorOutcome, Persistence
from model.key_shared.vocabulary import KeyOperation, KeyOutcome
from model.log import Position
from model.network import NetworkFaultsCleared, NetworkOperation
from model.replication.vocabulary import GeoOperation, GeoOutcome
from model.vocabulary import Client as Client
from model.vocabulary import Entry as Entry
from model.vocabulary import Message as Message
from model.vocabulary import Operation as Operation
from model.vocabulary import Outcome as Outcome

Scope = Literal["namespace", "topic"]
"""Where a policy is set."""

FailpointKind = Literal[
    "write-fails",
    "write-fails-late",
    "write-slow",
    "snapshot-write-fails",
    "snapshot-slow",
    "confirmation-lost",
    "ledger-close-slow",
    "replay-slow",
    "read-slow",
    "dispatch-slow",
    "join-slow",
    "leave-slow",
]
"""The failures inside the broker that a history can ask for."""


Switch = Literal[
    "broker", "namespace-on", "namespace-off", "own-namespace-on", "own-namespace-off", "topic-on", "topic-off"
]
"""Where deduplication of a topic is switched: the broker's default, the policy of its namespace, or its own policy."""


class CreateTopic(Operation, frozen=True):
    """A fresh topic. In a namespace of its own, the policy of that can be switched later without touching others.

    With ``persistence``, it is in a namespace for document 003: deduplication is off, and its cursors are persisted so
    often. ``is_trimmed``: what all subscriptions acknowledged is deleted, as by default; otherwise it is kept.
    ``partitions``: those of a partitioned topic ``t`` are topics of their own, named ``t-partition-0`` and so on.
    """

    topic: str
    deduplication: Switch = "namespace-on"
    persistence: Persistence | None = None
    is_trimmed: bool = False
    partitions: int = 0


class OpenProducer(Operation, frozen=True):
    """Open a producer of a fixed name on a topic, as ``session``."""

    session: str
    topic: str
    producer: str
    client: Client = "wire"


class CloseProducer(Operation, frozen=True):
    """Close a session in good order."""

    session: str


class CrashProducer(Operation, frozen=True):
    """Cut a session's connection without a goodbye, with whatever it has in flight."""

    session: str


class Send(Operation, frozen=True):
    """Send entries one behind the other, all in flight at once; ``wait`` says whether the answers are awaited here.

    Answers that are not awaited are collected before the session's next operation, or lost with the session.
    """

    session: str
    entries: tuple[Entry, ...]
    wait: bool = True


class SetDeduplication(Operation, frozen=True):
    """Switch deduplication of a topic on or off, by a policy of the topic or of its namespace.

    Answers that were not awaited are collected first, unless it is switched on with ``in_flight`` sends.
    """

    topic: str
    scope: Scope
    on: bool
    in_flight: bool = False


class Unload(Operation, frozen=True):
    """Unload a topic: it is closed, and loaded again by whoever asks for it next.

    With ``classic``, its Key_Shared subscriptions have the classic implementation from then on, or the one with
    draining hashes. Only of brokers that can be told so while they run.
    """

    topic: str
    classic: bool | None = None


class Restart(Operation, frozen=True):
    """Stop the broker gracefully and start it again on the same data.

    With ``deduplication``, what topics without a policy do is switched on or off on the way: it is a setting of the
    broker that only a start reads. Until the end of the example it stays so. The outcome is that of
    :class:`SetDeduplication`.
    """

    deduplication: bool | None = None


class Kill(Operation, frozen=True):
    """Kill the broker with SIGKILL and start it again on the same data."""


class SetFailpoint(Operation, frozen=True):
    """The next ``count`` occasions on this topic fail, inside the broker, in the way that ``kind`` says.

    ``spared``: of failing writes, how many are let through before that.
    """

    topic: str
    kind: FailpointKind
    count: int = 1
    delay_ms: int = 0
    spared: int = 0


class ClearFailpoints(Operation, frozen=True):
    """Nothing fails any more."""


class ReadSnapshot(Operation, frozen=True):
    """Read the deduplication snapshot that is stored now."""

    topic: str


class ReadLog(Operation, frozen=True):
    """Read the topic's log back, entry by entry, from its beginning to its end."""

    topic: str


class Fired(Struct, frozen=True):
    """How often a failpoint on a topic really made something fail."""

    topic: str
    kind: FailpointKind
    times: int


class Created(Outcome, frozen=True):
    """A topic is there. Whether deduplication is on, how many producers its snapshot holds, and how many entries a
    ledger of it takes (None: not known), the broker says; and how often its cursors may be persisted (None: without
    limit), how long they are dirty at most, and how many ranges of them the metadata store takes; and whether
    Key_Shared subscriptions have draining hashes, or what was there before (the classic implementation). With those,
    ``look_ahead``: how many messages may wait for each consumer, and in all, before no new ones are read (0: any)."""

    deduplication: bool
    snapshot_room: int
    ledger_room: int | None = None
    persisted_per_s: float | None = None
    flush_s: float = 60.0
    stored_ranges: int = 1000
    has_draining_hashes: bool = True
    look_ahead: tuple[int, int] = (2000, 20000)


class DeduplicationSet(Outcome, frozen=True):
    """A policy was set; whether deduplication is on now (the topic's own policy goes before its namespace's)."""

    deduplication: bool


class PolicyIgnored(Outcome, frozen=True):
    """A policy was set, and the broker says that deduplication of the topic is something else still."""

    deduplication: str


class Cleared(Outcome, frozen=True):
    """No failpoint is on any more; for each topic and kind that was, how often it really fired."""

    fired: tuple[Fired, ...]


class Done(Outcome, frozen=True):
    """It took effect; there is nothing more to tell."""


class Skipped(Outcome, frozen=True):
    """It was not performed, because what it needs is not there (its session was never opened, say)."""

    why: str


class Refused(Outcome, frozen=True):
    """It failed: the broker or the client said so, and it did not take effect."""

    code: str
    message: str = ""


class Unknown(Outcome, frozen=True):
    """It may or may not have taken effect."""

    why: str


class Stored(Outcome, frozen=True):
    """A send took effect: the entry stands at this position."""

    position: Position


class Duplicate(Outcome, frozen=True):
    """A send was confirmed without a position: the broker holds the entry to be a duplicate."""


Answer = Stored | Duplicate | Refused | Unknown
"""What is known of one entry that was sent."""


class Sent(Outcome, frozen=True):
    """The answers to a send, one for each entry, in their order; none yet where they are not awaited."""

    answers: tuple[Answer, ...]


class Late(Struct, frozen=True):
    """Answers to a session's earlier send that was not awaited, collected on the way to a later operation."""

    session: str
    answers: tuple[Answer, ...]


class Opened(Outcome, frozen=True):
    """A producer is open; the broker said this is its highest sequence id (-1: none, None: the client hides it)."""

    last_sequence_id: int | None


class LoggedEntry(Struct, frozen=True):
    """An entry as it was read back."""

    position: Position
    producer: str
    entry: Entry


class LogRead(Outcome, frozen=True):
    """The whole log, in the order of positions."""

    entries: tuple[LoggedEntry, ...]


class SnapshotRead(Outcome, frozen=True):
    """The stored deduplication snapshot: producer name to sequence id, and its position."""

    position: Position
    producers: dict[str, int]


AnyOperation = (
    CreateTopic
    | OpenProducer
    | CloseProducer
    | CrashProducer
    | Send
    | SetDeduplication
    | Unload
    | Restart
    | Kill
    | SetFailpoint
    | ClearFailpoints
    | ReadSnapshot
    | ReadLog
    | ApplicationOperation
    | CursorOperation
    | KeyOperation
    | GeoOperation
    | NetworkOperation
    | ChunkOperation
)
"""Every operation there is: what a history's file may hold, and what every performer must know."""

AnyOutcome = (
    Created
    | DeduplicationSet
    | PolicyIgnored
    | Cleared
    | Done
    | Skipped
    | Refused
    | Unknown
    | Stored
    | Duplicate
    | Sent
    | Opened
    | LogRead
    | SnapshotRead
    | ApplicationOutcome
    | CursorOutcome
    | KeyOutcome
    | GeoOutcome
    | NetworkFaultsCleared
    | ChunkOutcome
)
"""Every outcome there is."""
