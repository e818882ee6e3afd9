"""Every operation that a history may hold.

A machine chooses an operation, a performer performs it on a system, and the model judges it together with its outcome
(:mod:`model.events`). Operations are plain values, written to a file and read again, so that a history replays. Names
are local to one history (a session ``"s1"``, a topic ``"t0"``); the performer maps them to real ones. Messages go by
their business ids, or by ``nth``: counted from 0, and round and round, among those that a consumer received since it
subscribed. So a shortened history still means something. What is done to subscriptions and by consumers is in
:mod:`model.subscription_operations`; what is done to links between clusters, in :mod:`model.cluster_operations`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from model.administrator_operations import AdministratorRequest
from model.cluster_operations import ReplicationOperation
from model.expiry_operations import ExpiryRequest
from model.failpoints import FailpointKind
from model.hole_operations import HoleOperation
from model.policy_operations import PolicyRequest
from model.producer_operations import AwaitProducers, PurgeProducers
from model.read_operations import ReadRequest
from model.reader_operations import ReaderOperation
from model.subscription_operations import KeyOperation, SubscriptionOperation
from model.vocabulary import (
    AccessMode,
    Client,
    Compression,
    Entry,
    Limits,
    Message,
    NetworkFault,
    Operation,
    Persistence,
    Quorum,
    RequestScope,
    SubscriptionType,
)

Scope = Literal["namespace", "topic"]
"""The level at which a policy is set."""

Switch = Literal[
    "broker", "namespace-on", "namespace-off", "own-namespace-on", "own-namespace-off", "topic-on", "topic-off"
]
"""Where deduplication of a topic is set: the broker's default, the policy of its namespace, or its own policy."""

# -------------------------------------------------------------------------------------------------------------- topics


class CreateTopic(Operation, frozen=True):
    """Create a topic. Created.

    In a namespace of its own, the namespace's policy can change without affecting other topics. With ``persistence``,
    the topic is in a namespace for document 003: deduplication is off, and that is how often its cursors are persisted.
    ``is_trimmed``: entries that all subscriptions acknowledged are deleted, as by default; otherwise they are retained.
    ``partitions``: those of a partitioned topic ``t`` are topics of their own, ``t-partition-0`` and so on.
    ``clusters``: how many have it. With more than one, it is replicated between them unless ``is_replicated`` is false.
    ``links``: the only directions, if messages do not go from every cluster to every other one.
    ``replicated_by``: whether its own policy or that of its namespace names the clusters.
    ``home``: the cluster of those where operations without a cluster are performed, as on a topic of one cluster; its
    subscriptions may be replicated, for which clusters write markers.
    ``is_chunked``: it is for document 002, which watches its clients through proxies, and has chunks as entries.
    ``limits`` and ``quorum``: of its namespace, for a topic with ``persistence``; such a topic has no deduplication, so
    ``own-namespace-off`` only means that the namespace is its own.
    Without ``is_timed``, a policy of its namespace switches off the timer of deduplication snapshots.
    """

    request: ClassVar = "create topic"

    topic: str
    deduplication: Switch = "namespace-on"
    persistence: Persistence | None = None
    is_trimmed: bool = False
    partitions: int = 0
    clusters: int = 1
    is_replicated: bool = True
    links: tuple[tuple[str, str], ...] = ()
    replicated_by: Literal["namespace", "topic"] = "namespace"
    home: str | None = None
    is_chunked: bool = False
    limits: Limits | None = None
    quorum: Quorum | None = None
    is_timed: bool = True


class SetDeduplication(Operation, frozen=True):
    """Enable or disable deduplication of a topic, by a policy of the topic or of its namespace. DeduplicationSet.

    Answers that were not awaited are collected first, unless it is enabled with ``in_flight`` sends.
    """

    request: ClassVar = "set deduplication"
    may_be_cause: ClassVar = True

    topic: str
    scope: Scope
    on: bool
    in_flight: bool = False


class Unload(Operation, frozen=True, omit_defaults=True):
    """Unload a topic, or its namespace or bundle; the next client that asks for it has it loaded again.

    Done, or StillConnected where a namespace or a bundle was unloaded.

    With ``classic``, its Key_Shared subscriptions have the classic dispatcher from then on, or the one with draining
    hashes. Only for brokers whose setting can change while they run. At one ``cluster``, where several have the topic.
    """

    may_be_cause: ClassVar = True

    topic: str
    classic: bool | None = None
    cluster: str | None = None
    scope: RequestScope = "topic"


class Terminate(Operation, frozen=True):
    """Terminate a topic: nothing more is written to it. Sends may be unanswered meanwhile. Terminated."""

    request: ClassVar = "terminate"
    may_be_cause: ClassVar = True

    topic: str


class Trim(Operation, frozen=True):
    """Have the broker delete the ledgers that it may delete. Sends may be unanswered meanwhile. Trimmed."""

    request: ClassVar = "trim"
    may_be_cause: ClassVar = True

    topic: str


class ReadSnapshot(Operation, frozen=True):
    """Read the stored deduplication snapshot, with ``due`` after one that is due had time to be taken. SnapshotRead."""

    request: ClassVar = "read snapshot"
    is_look: ClassVar = True

    topic: str
    due: bool = False


class ReadChunkRate(Operation, frozen=True):
    """Read the rate of chunks in the topic's stats until it was refreshed. ChunkRate.

    Meanwhile a session sends ``message`` again and again, under rising sequence ids.
    """

    request: ClassVar = "read stats"
    is_look: ClassVar = True

    topic: str
    session: str
    message: Message


class ReadLog(Operation, frozen=True):
    """Read the topic's log, entry by entry, from its beginning to its end. LogRead.

    At another ``cluster`` than the topic's home: all links are healed, and everything is replicated to it before. At
    home by its name: the same for the link to it. LogRead or ReplicatorStalled.
    """

    request: ClassVar = "read log"
    is_look: ClassVar = True

    topic: str
    cluster: str | None = None


# ----------------------------------------------------------------------------------------------------------- producers


class OpenProducer(Operation, frozen=True, omit_defaults=True):
    """Open a producer of a fixed name on a topic, as ``session``; at a cluster, if several have it. Opened.

    If the topic has a home, ``cluster`` is another one, from which its messages are replicated to home.
    pulsar-client's may chunk and compress on a chunked topic. With WaitForExclusive it may be Queued. ``has_epoch``: it
    reconnects with the topic's epoch that the session learned last, if any. ``library``: the released client, such as
    java:4.0.8, where it is not the pulsar-client in the suite's process.
    """

    request: ClassVar = "open"

    session: str
    topic: str
    producer: str
    client: Client = "wire"
    cluster: str | None = None
    is_chunking: bool = False
    compression: Compression = "none"
    access: AccessMode = "Shared"
    has_epoch: bool = False
    library: str | None = None


class CloseProducer(Operation, frozen=True):
    """Close a session's producer."""

    request: ClassVar = "close"

    session: str


class CrashProducer(Operation, frozen=True):
    """Cut a session's connection without closing it, with its writes in flight."""

    may_be_cause: ClassVar = True

    session: str


Meanwhile = Literal["dies", "reconnects", "unload"]
"""What a producer does after its connection was cut: it dies, or reconnects, maybe after its topic was unloaded."""


class CutAfterSends(Struct, frozen=True, tag="cut"):
    """The producer's connection is cut after so many SENDs."""

    sends: int
    meanwhile: Meanwhile = "reconnects"


class HoldAfterSends(Struct, frozen=True, tag="hold"):
    """After so many SENDs, the producer's next one is held until another session has sent its entries."""

    sends: int
    session: str
    entries: tuple[Entry, ...]


Interruption = CutAfterSends | HoldAfterSends
"""What can happen between the chunks that a producer sends."""


class Send(Operation, frozen=True, omit_defaults=True):
    """Send entries in sequence, all in flight at once; ``wait``: await the answers here. Sent.

    Answers that are not awaited are collected before the session's next operation, or lost with the session. On a
    chunked topic all answers are awaited, and an ``interruption`` may happen on the way. ``age_s``: the publish time of
    the messages is so long before, as if they had waited in a queue of the producer; for the wire client only,
    and not for delayed messages.
    """

    session: str
    entries: tuple[Entry, ...]
    wait: bool = True
    interruption: Interruption | None = None
    age_s: int = 0


# -------------------------------------------------------------------------------------------------------------- broker


class Restart(Operation, frozen=True):
    """Stop the broker gracefully and start it again on the same data.

    With ``deduplication``, the broker's default for topics without a policy changes: only a start reads that setting.
    It keeps this value until the end of the example. Then the outcome is that of :class:`SetDeduplication`.
    ``cluster``: of several, the one whose broker it is.
    """

    may_be_cause: ClassVar = True

    deduplication: bool | None = None
    cluster: str | None = None


class Kill(Operation, frozen=True):
    """Kill the broker, of several clusters that of ``cluster``, with SIGKILL and start it again on the same data.

    ``power_fails``: the bookies are killed, too, and lose what they have not synced. PowerFailed; Done where only the
    broker can be killed.
    """

    may_be_cause: ClassVar = True

    cluster: str | None = None
    power_fails: bool = False


Departure = Literal["kill", "shutdown", "unload"]
"""How an owner loses its topics to another broker: killed (SIGKILL), shut down gracefully, or asked to unload them."""


OfTwo = Literal["older", "newer"]
"""One of the two releases of a rolling upgrade."""


class TakeOver(Operation, frozen=True):
    """Have another broker take over the topics of a topic's owner, which comes back without them. TakenOver.

    An owner that unloads gives away the topics of the namespace only. ``release``: that of the broker that takes over,
    if the brokers are of two; it is restarted with that, unless it has it. To unload restarts nobody: the owner loads
    the topics again if only itself is of that release.
    """

    may_be_cause: ClassVar = True

    topic: str
    how: Departure = "kill"
    release: OfTwo | None = None


Isolation = Literal["freeze", "cut-off"]
"""How an owner loses its session: frozen (SIGSTOP), or cut off from the metadata store."""


class FreezeOwner(Operation, frozen=True):
    """Freeze the owner of a topic and end its session, so that another broker takes over all its topics. TakenOver.

    The connections of the wire client to the frozen owner stay open. What was sent and not answered is unknown. Instead
    of being frozen, the owner may be cut off from the metadata store: then it answers its clients meanwhile.
    """

    may_be_cause: ClassVar = True

    topic: str
    how: Isolation = "freeze"


class SendToFrozen(Operation, frozen=True):
    """A session of the wire client sends on its open connection to a frozen broker, which lost its topic. Done."""

    may_be_cause: ClassVar = True

    session: str
    entries: tuple[Entry, ...]


class AcknowledgeAtFrozen(Operation, frozen=True):
    """A consumer of the wire client acknowledges messages on its open connection to a frozen broker.

    Acknowledged, without a receipt. In older histories, Done.
    """

    may_be_cause: ClassVar = True

    consumer: str
    nth: tuple[int, ...]


class ThawOwners(Operation, frozen=True):
    """Let the frozen brokers go on, and await what they answer to what was sent to them. Thawed."""

    may_be_cause: ClassVar = True


Loss = Literal["kill", "freeze", "power-failure"]
"""How a bookie is lost: killed (SIGKILL), frozen (SIGSTOP), or killed and without what it has not synced."""


class LoseBookie(Operation, frozen=True):
    """Lose a bookie, and end its session; its number is counted round and round. BookiesLeft."""

    may_be_cause: ClassVar = True

    number: int
    how: Loss = "kill"


class RestoreBookies(Operation, frozen=True):
    """Have the lost bookie back, on the data that it has. BookiesLeft."""

    may_be_cause: ClassVar = True


Disturbance = Literal["freeze", "restart", "expire"]
"""How the metadata store is disturbed: frozen (SIGSTOP), killed (SIGKILL), or it expires the brokers' sessions."""


class DisturbMetadataStore(Operation, frozen=True):
    """Freeze the metadata store for a moment, or kill it and start it again, or end the brokers' sessions in it. Done.

    The next operations begin at once, before it is back.
    """

    may_be_cause: ClassVar = True

    how: Disturbance = "freeze"


class SetFailpoint(Operation, frozen=True):
    """Have the next ``count`` occasions on this topic fail inside the broker, as ``kind`` says.

    ``spared``: how many writes succeed before that.
    """

    may_be_cause: ClassVar = True

    topic: str
    kind: FailpointKind
    count: int = 1
    delay_ms: int = 0
    spared: int = 0


class ClearFailpoints(Operation, frozen=True):
    """Clear all failpoints. Cleared."""


# ------------------------------------------------------------------------------------------------------------- network


class UseProxy(Operation, frozen=True):
    """From now on this example's producers connect through a proxy, where faults can be set. Done."""


class InjectNetworkFault(Operation, frozen=True):
    """Inject a fault, once, for producers of this topic; for any producers where it counts no commands. Done."""

    may_be_cause: ClassVar = True

    topic: str
    fault: NetworkFault


class ClearNetworkFaults(Operation, frozen=True):
    """Clear all network faults; what the network holds arrives. NetworkFaultsCleared."""


# -------------------------------------------------------------------------------------------------------- applications
#
# An application does by itself what document 000 asks of it: it retries, reconnects, and resumes from where it was. So
# one operation is a life of it, or a part of one, and not a single command.

GoesOn = Literal["from-checkpoint", "from-told-id", "with-new-only"]
"""Where a source resumes: after the last entry that was confirmed to it; after the last sequence id in ProducerSuccess;
or, for a source that cannot replay, with new entries only."""

Then = Literal["stays", "closes", "crashes"]
"""What a consumer does after it received: stay connected, close, or crash."""

Point = Literal["received", "state-changed", "before-commit", "committed", "acknowledged"]
"""Where a program dies: before it did anything about a message; within its transaction, the state changed and the
id not stored; all stored and not committed; right after the commit; or, a subscriber, after the acknowledgment."""


class Death(Struct, frozen=True):
    """A program kills itself with SIGKILL at the ``message``-th message of this run (from 1), at this point."""

    message: int
    point: Point


class StartSource(Operation, frozen=True):
    """Start a life of a source: it opens its producer, of its own name, and sends all entries, without waiting.

    ``entries``: those new in this life, with rising ids after those of earlier lives; each is always sent as the same
    entry. ``back``: how many confirmed entries it sends again, because its checkpoint is old. SourceStarted.
    """

    source: str
    topic: str
    entries: tuple[Entry, ...]
    goes_on: GoesOn = "from-checkpoint"
    back: int = 0
    client: Client = "wire"


class FinishSource(Operation, frozen=True):
    """A source sends again until every entry is confirmed, then closes. SourceEnded."""

    source: str


class CrashSource(Operation, frozen=True):
    """A source crashes once so many entries of this life have been confirmed to it. SourceEnded."""

    may_be_cause: ClassVar = True

    source: str
    confirmed: int = 0


class Consume(Operation, frozen=True):
    """A consumer receives up to ``count`` messages, fewer only if there are no more; it subscribes if it must.

    ``acks``: for each message that it received, in turn and over and over, whether it acknowledges it. Consumed.
    """

    consumer: str
    topic: str
    subscription: str
    count: int
    acks: tuple[bool, ...] = (True,)
    then: Then = "stays"
    kind: SubscriptionType = "Exclusive"
    client: Client = "wire"


class Drain(Operation, frozen=True):
    """Disconnect a subscription's consumers; a new one receives and acknowledges all that is left. Drained."""

    topic: str
    subscription: str
    kind: SubscriptionType = "Exclusive"


class RunReader(Operation, frozen=True):
    """Run the program of scenario 1: a reader that stores its last message id in one transaction with its state.

    It resumes after the id in its database, and ends when it has applied what was the log's end when it started. Ran.
    """

    program: str
    topic: str
    death: Death | None = None


class RunSubscriber(Operation, frozen=True):
    """Run the program of scenario 2: a consumer that stores every business id in one transaction with its state.

    It acknowledges what it has stored, and ends when the broker shows no backlog for its subscription. Ran.
    """

    program: str
    topic: str
    death: Death | None = None


class ReadDatabase(Operation, frozen=True):
    """Read a program's database: what it applied to its state, in that order. DatabaseRead."""

    is_look: ClassVar = True

    program: str


DeploymentOperation = (
    TakeOver
    | FreezeOwner
    | SendToFrozen
    | AcknowledgeAtFrozen
    | ThawOwners
    | LoseBookie
    | RestoreBookies
    | DisturbMetadataStore
)
"""Every operation on the processes of a deployment, but for the restart of all brokers."""

NetworkOperation = UseProxy | InjectNetworkFault | ClearNetworkFaults
"""Every operation on the network."""

ApplicationOperation = (
    StartSource | FinishSource | CrashSource | Consume | Drain | RunReader | RunSubscriber | ReadDatabase
)
"""Every operation of an application."""

CursorOperation = SubscriptionOperation | Terminate | Trim
"""Every operation of document 003: on subscriptions, and those that change a topic's log."""

OnSubscriptions = CursorOperation | KeyOperation
"""Every operation that the tracker of subscriptions judges."""

OnTopics = (
    CreateTopic
    | OpenProducer
    | CloseProducer
    | CrashProducer
    | AwaitProducers
    | PurgeProducers
    | Send
    | SetDeduplication
    | Unload
    | Restart
    | Kill
    | SetFailpoint
    | ClearFailpoints
    | ReadSnapshot
    | ReadChunkRate
    | ReadLog
)
"""Every operation of producers and administrators on topics, and of the broker on all of them."""

AnyOperation = (
    OnTopics
    | ApplicationOperation
    | OnSubscriptions
    | ReplicationOperation
    | NetworkOperation
    | DeploymentOperation
    | ReadRequest
    | ExpiryRequest
    | AdministratorRequest
    | PolicyRequest
    | ReaderOperation
    | HoleOperation
)
"""Every operation."""
