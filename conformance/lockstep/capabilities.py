"""One table of the capabilities that a release, client or deployment may lack, with their rules and operations.

Nothing here depends on a version. The running broker shows which admin requests, settings and stats fields it has; the
signatures of pulsar-client show its options. Without a capability, the operations that need it are skipped, and the
rules that need it are not decidable, both with the reason. Machines themselves declare what they must do to the
broker's process (:class:`conformance.brokers.interface.Capability`).

An example has a few dozen operations and takes seconds. If a setting makes something happen only after minutes or
thousands of entries, an example exercises its rule only by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, assert_never

from conformance.clients.driver.connect import ClientInfo, client_info, client_infos, libraries
from conformance.clients.names import PULSAR_CLIENT
from conformance.lockstep.questions import (
    AdminRequest,
    AtMost,
    ClientFeature,
    ClientInProcess,
    Dispatcher,
    EntryHeader,
    HasSetting,
    IsOn,
    KnownDispatchers,
    PowerFailure,
    Question,
    StatsField,
    TwoReleases,
)
from conformance.lockstep.settings.client_features import without
from conformance.tenancy.cluster_settings import CLASSIC
from model.operations import (
    AnyOperation,
    Consume,
    CreateTopic,
    Drain,
    OpenProducer,
    RunReader,
    RunSubscriber,
    SetDeduplication,
    StartSource,
)
from model.policy_operations import ReadPolicy, SetPolicy
from model.read_operations import AnalyzeBacklog, ExamineMessage, FindByTime, ReadMessage
from model.rules.catalogue import CATALOGUE
from model.rules.rule import Decided
from model.subscription_operations import (
    USUAL_PENDING_CHUNKED,
    Expire,
    NackRepeatedly,
    ResetCursor,
    Seek,
    Subscribe,
)
from model.subscriptions.due import OF_DRAINING

LARGEST_ENTRIES: Final = 100
"""The most entries that an example writes to a topic."""

LONGEST_S: Final = 20.0
"""The longest that an example waits for something that the broker does in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One capability. ``needs``: whether an operation cannot be performed without it."""

    name: str
    asks: Question
    rules: tuple[str, ...] = ()
    needs: Callable[[AnyOperation], bool] = lambda _: False
    withheld: str = ""
    """What machines do not draw without it, for a report."""


class KeySharedTraits(Protocol):
    """Which implementations of Key_Shared topics can have, on brokers that are alike."""

    @property
    def can_drain(self) -> bool: ...
    @property
    def can_be_classic(self) -> bool: ...
    @property
    def is_switchable(self) -> bool: ...


class DispatcherTraits(Protocol):
    """How the brokers differ in that."""

    @property
    def are_alike(self) -> bool: ...
    @property
    def are_known(self) -> bool: ...


class BrokerTraits(Protocol):
    """The part of a run's world that :class:`Capabilities` reads."""

    @property
    def runtime(self) -> Mapping[str, str] | None:
        """The broker's settings; None if the role may not read them."""

    @property
    def key_shared(self) -> KeySharedTraits: ...
    @property
    def dispatchers(self) -> DispatcherTraits: ...

    @property
    def can_fail_power(self) -> bool:
        """Whether the power of its bookies can fail."""

    @property
    def can_change_release(self) -> bool:
        """Whether its brokers can be restarted with another release."""

    def has_admin_request(self, path: str) -> bool:
        """Whether the broker has a request, by its path below the topic's."""

    def has_stats_field(self, part: str, name: str) -> bool: ...
    def has_entry_header(self, name: str) -> bool: ...


def _is_topic_policy(operation: AnyOperation) -> bool:
    match operation:
        case CreateTopic(deduplication=switch, replicated_by=replicated_by):
            return switch.startswith("topic-") or replicated_by == "topic"
        case SetDeduplication(scope=scope):
            return scope == "topic"
        case SetPolicy(level=level):
            return level == "topic"
        case ReadPolicy():
            return True
        case _:
            return False


def _reads_entry(operation: AnyOperation) -> bool:
    if isinstance(operation, ReadMessage | FindByTime):
        return True
    return isinstance(operation, Seek | ResetCursor) and operation.by_time and operation.to is not None


def _pending_chunked(operation: AnyOperation) -> int | None:
    """How many chunked messages a consumer of a chunked topic assembles at a time; 0: any number."""
    if not isinstance(operation, Subscribe) or operation.max_pending_chunked == USUAL_PENDING_CHUNKED:
        return None
    return operation.max_pending_chunked


def family(name: str) -> tuple[str, ...]:
    """The rules of a family that a broker can be checked for."""
    in_family = (rule for rule in CATALOGUE if rule.id.startswith(f"{name}-"))
    return tuple(rule.id for rule in in_family if rule.decided_by != (Decided.MODEL,))


REQUIREMENTS: Final[tuple[Requirement, ...]] = (
    Requirement(
        name="topic policies",
        asks=AdminRequest("deduplicationEnabled"),
        needs=_is_topic_policy,
        withheld="topics have no policies of their own",
    ),
    Requirement(
        name="topic policies, switched on",
        asks=IsOn(("topicLevelPoliciesEnabled", "systemTopicEnabled")),
        needs=_is_topic_policy,
        withheld="topics have no policies of their own",
    ),
    Requirement(
        name="a topic policy on replication",
        asks=AdminRequest("replication"),
        needs=lambda operation: isinstance(operation, CreateTopic) and operation.replicated_by == "topic",
        withheld="topics are replicated by the policies of their namespaces only",
    ),
    Requirement(
        name="a policy on the timer of deduplication snapshots",
        asks=AdminRequest("deduplicationSnapshotInterval"),
        needs=lambda operation: isinstance(operation, CreateTopic) and not operation.is_timed,
        withheld="every topic has the broker's timer of deduplication snapshots",
    ),
    Requirement(
        name="expiry up to a position",
        asks=AdminRequest("subscription/s/expireMessages"),
        needs=lambda operation: isinstance(getattr(operation, "asked", operation), Expire),
        withheld="nothing expires",
    ),
    Requirement(
        name="analysis of a backlog",
        asks=AdminRequest("subscription/s/analyzeBacklog"),
        needs=lambda operation: isinstance(operation, AnalyzeBacklog),
        withheld="no backlog is analyzed",
    ),
    Requirement(
        name="examination of messages",
        asks=AdminRequest("examinemessage"),
        needs=lambda operation: isinstance(operation, ExamineMessage),
        withheld="no message is examined",
    ),
    Requirement(
        name="message ids by time",
        asks=AdminRequest("messageid/0"),
        needs=lambda operation: isinstance(operation, FindByTime),
        withheld="no message id is asked for by time",
    ),
    Requirement(
        name="reading an entry",
        asks=AdminRequest("ledger/0/entry/0"),
        rules=family("REPL"),
        needs=_reads_entry,
        withheld="no subscription is reset to a time; markers cannot be read",
    ),
    Requirement(
        name="the metadata of an entry",
        asks=EntryHeader("producer-name"),
        rules=family("REPL"),
        withheld="markers cannot be distinguished from messages",
    ),
    Requirement(
        name="a power failure",
        asks=PowerFailure(),
        rules=("SERVE-14",),
        withheld="the broker is killed without its bookies",
    ),
    Requirement(
        name="another release",
        asks=TwoReleases(),
        rules=("SERVE-15",),
        withheld="a broker that takes a topic over is of the same release",
    ),
    Requirement(
        name="chunked messages",
        asks=StatsField("publishers", "chunkedMessageRate"),
        rules=family("CHUNK"),
    ),
    Requirement(
        name="stats updated in time",
        asks=AtMost({"statsUpdateFrequencyInSecs": (60, LONGEST_S)}, "rates in stats are updated too seldom"),
        rules=("CHUNK-10",),
    ),
    Requirement(
        name="deduplication snapshots in time",
        asks=AtMost(
            {
                "brokerDeduplicationEntriesInterval": (1000, LARGEST_ENTRIES),
                "brokerDeduplicationSnapshotIntervalSeconds": (120, LONGEST_S),
            },
            "a deduplication snapshot is taken too seldom",
        ),
        rules=("DEDUP-10", "DEDUP-11", "DEDUP-11a"),
    ),
    Requirement(
        name="delayed messages",
        asks=IsOn(("delayedDeliveryEnabled",)),
        withheld="delayed messages are due at once",
    ),
    Requirement(
        name="flushes of dirty cursors",
        asks=HasSetting("managedLedgerCursorPositionFlushSeconds"),
        rules=("ACK-08",),
    ),
    Requirement(
        name="flushes of dirty cursors in time",
        asks=AtMost(
            {"managedLedgerCursorPositionFlushSeconds": (60, LONGEST_S)},
            "a dirty cursor may stay so longer than an example takes",
        ),
        rules=("ACK-08",),
    ),
    Requirement(
        name="ledgers that are full",
        asks=AtMost({"managedLedgerMaxEntriesPerLedger": (50_000, LARGEST_ENTRIES)}, "no ledger is full in an example"),
        rules=("ACK-14",),
    ),
    Requirement(
        name="known implementations of Key_Shared",
        asks=KnownDispatchers(),
        rules=family("KEY"),
        needs=lambda operation: getattr(operation, "kind", None) == "Key_Shared",
        withheld="no subscription is Key_Shared, on a running cluster in a rolling upgrade from before draining hashes",
    ),
    Requirement(name="draining hashes", asks=Dispatcher("draining"), rules=tuple(OF_DRAINING)),
    Requirement(name="classic implementation of Key_Shared", asks=Dispatcher("classic"), rules=("KEY-14", "KEY-16")),
    Requirement(
        name="acks of parts of batches by the released client",
        asks=ClientFeature("batch-index-ack"),
        withheld="its consumers acknowledge entries",
    ),
    Requirement(
        name="sequence ids by the released client",
        asks=ClientFeature("sequence-id"),
        needs=lambda operation: isinstance(operation, OpenProducer) and operation.client == "official",
        withheld="only the wire client has producers",
    ),
    Requirement(
        name="batches by the released client",
        asks=ClientFeature("batching"),
        needs=lambda operation: isinstance(operation, OpenProducer) and operation.client == "official",
        withheld="only the wire client has producers",
    ),
    Requirement(
        name="Key_Shared by the released client",
        asks=ClientFeature("key-shared"),
        needs=lambda operation: (
            isinstance(operation, Subscribe) and operation.client == "official" and operation.kind == "Key_Shared"
        ),
        withheld="its consumers have other subscriptions",
    ),
    Requirement(
        name="chunking by the released client",
        asks=ClientFeature("chunking"),
        rules=family("CHUNK"),
        needs=lambda operation: (
            (isinstance(operation, OpenProducer) and operation.is_chunking) or _pending_chunked(operation) is not None
        ),
    ),
    Requirement(
        name="a limit of incomplete chunked messages of the released client",
        asks=ClientFeature("max-pending-chunked"),
        needs=lambda operation: (_pending_chunked(operation) or 0) > 0,
        withheld="its consumers assemble any number of chunked messages",
    ),
    Requirement(
        name="compression by the released client",
        asks=ClientFeature("compression"),
        needs=lambda operation: isinstance(operation, OpenProducer) and operation.compression != "none",
        withheld="nothing is compressed",
    ),
    Requirement(
        name="acks of discarded chunks by the released client",
        asks=ClientFeature("ack-oldest-chunked"),
        needs=lambda operation: isinstance(operation, Subscribe) and operation.acks_oldest_chunked,
        withheld="none of its consumers acknowledges what it discards",
    ),
    Requirement(
        name="redelivery by the released client",
        asks=ClientFeature("nack"),
        rules=("ACK-13",),
        needs=lambda operation: isinstance(operation, NackRepeatedly),
        withheld="no application nacks a message repeatedly",
    ),
    Requirement(
        name="applications in processes of their own",
        asks=ClientInProcess(),
        rules=("DEDUP-15", "DEDUP-16", "DEDUP-17", "DEDUP-18"),
        needs=lambda operation: isinstance(operation, StartSource | Consume | Drain | RunReader | RunSubscriber),
        withheld="no application is killed",
    ),
)
"""The table. Of several requirements of one rule, the first one that is missing is the reason."""


class Capabilities:
    """The capabilities that one broker and its clients lack."""

    def __init__(self, broker: BrokerTraits) -> None:
        answers = ((one, _why_missing(one.asks, broker)) for one in REQUIREMENTS)
        self._missing = tuple((one, why) for one, why in answers if why is not None)

    def undecidable(self) -> dict[str, str]:
        """The rules that cannot be decided, each with the reason."""
        found: dict[str, str] = {}
        for one, why in self._missing:
            for rule in one.rules:
                found.setdefault(rule, why)
        return found

    def why_not(self, operation: AnyOperation) -> str | None:
        """Why an operation is not performed; None if it can be."""
        lacking = (why for one, why in self._missing if one.needs(operation))
        library: str | None = getattr(operation, "library", None)
        return next(lacking, None if library is None else _why_not_by(client_info(library), operation))

    def libraries_for(self, operation: AnyOperation) -> tuple[str, ...]:
        """The clients among which a machine chooses one for an operation; none if that has no choice."""
        match operation:
            case OpenProducer(client="official") | Subscribe(client="official") | NackRepeatedly():
                return tuple(one for one in libraries() if _why_not_by(client_info(one), operation) is None)
            case _:
                return ()


def _why_not_by(client: ClientInfo, operation: AnyOperation) -> str | None:
    """Why a client cannot perform an operation; None if it can."""
    asked = (one.asks.name for one in REQUIREMENTS if isinstance(one.asks, ClientFeature) and one.needs(operation))
    return next((without(client, feature) for feature in asked if feature not in client.features), None)


def _why_missing(question: Question, broker: BrokerTraits) -> str | None:
    """Why a capability is missing; None if it is there or cannot be asked for."""
    runtime = broker.runtime or {}
    match question:
        case AdminRequest(path):
            return None if broker.has_admin_request(path) else f"this release has no admin request TOPIC/{path}"
        case StatsField(part, name):
            return None if broker.has_stats_field(part, name) else f"stats of this release have no {name} in {part}"
        case EntryHeader(name):
            shown = f"the admin API of this release does not show the {name} of an entry"
            return None if broker.has_entry_header(name) else shown
        case HasSetting(name):
            return None if broker.runtime is None or name in runtime else f"this release has no setting {name}"
        case IsOn(names):
            off = next((name for name in names if runtime.get(name, "true") != "true"), None)
            return None if off is None else f"the broker has {off}=false"
        case AtMost(limits, consequence):
            return _why_too_large(limits, consequence, runtime)
        case Dispatcher(kind):
            return _why_no_dispatcher(kind, broker)
        case KnownDispatchers():
            of_several = (
                "the brokers have, or may have, different implementations of Key_Shared, and topics move between them"
            )
            return None if broker.dispatchers.are_known else of_several
        case PowerFailure():
            needed = "it needs bookies that the suite starts and that sync their journals (journalSyncData=true)"
            return None if broker.can_fail_power else needed
        case TwoReleases():
            needed = "it needs brokers of two releases that the suite starts (--broker 4.0.8,4.2.4)"
            return None if broker.can_change_release else needed
        case ClientFeature(name):
            clients = client_infos()
            return None if any(name in one.features for one in clients) else without(clients[0], name)
        case ClientInProcess():
            clients = client_infos()
            first = f"{clients[0].name} {clients[0].version}"
            why = f"applications are not killed with {first}, which is behind a driver"
            return None if any(one.name == PULSAR_CLIENT for one in clients) else why
        case _:
            assert_never(question)


def _why_too_large(
    limits: Mapping[str, tuple[float, float]], consequence: str, runtime: Mapping[str, str]
) -> str | None:
    values = {name: float(runtime.get(name, default)) for name, (default, _) in limits.items()}
    if any(values[name] <= largest for name, (_, largest) in limits.items()):
        return None
    return f"with {' and '.join(f'{name}={value:g}' for name, value in values.items())} {consequence}"


def _why_no_dispatcher(kind: Literal["draining", "classic"], broker: BrokerTraits) -> str | None:
    key_shared = broker.key_shared
    is_there = key_shared.can_be_classic if kind == "classic" else key_shared.can_drain
    if is_there or not broker.dispatchers.are_alike:
        return None
    implementation = "classic implementation of Key_Shared" if kind == "classic" else "draining hashes"
    if key_shared.is_switchable:
        value = "false" if kind == "classic" else "true"
        return f"the cluster has {CLASSIC}={value}, and the run may not change that without --allow-cluster-settings"
    if broker.runtime is None:
        return f"the topics of this cluster have no {implementation}, and the role may not read its settings"
    return f"this release has no {implementation}"
