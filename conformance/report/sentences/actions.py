"""Operations in words: the actor and its action.

The sentence for an operation has a subject ("producer p0 (session s1, wire client)") and an action ("sends 4 (b7)").
Outcomes are left to :mod:`conformance.report.sentences.results`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from conformance.report.sentences import (
    deployment,
    expiry,
    holes,
    key_shared,
    network,
    policies,
    producers,
    readers,
    reads,
    replication,
)
from conformance.report.sentences.consumption import action, requested
from conformance.report.sentences.lists import count, joined, times
from conformance.report.sentences.participants import BROKER, CLIENTS, SUITE, Participants, at_cluster, of_topic
from model.administrator_operations import AdministratorRequest
from model.cluster_operations import HOME, ReplicationOperation
from model.expiry_operations import ExpiryRequest
from model.failpoints import FAILPOINTS
from model.hole_operations import HoleOperation
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    CloseProducer,
    Consume,
    CrashProducer,
    CrashSource,
    CreateTopic,
    CursorOperation,
    CutAfterSends,
    Death,
    DeploymentOperation,
    Drain,
    FinishSource,
    GoesOn,
    HoldAfterSends,
    Interruption,
    Kill,
    Meanwhile,
    NetworkOperation,
    OpenProducer,
    Point,
    ReadChunkRate,
    ReadDatabase,
    ReadLog,
    ReadSnapshot,
    Restart,
    RunReader,
    RunSubscriber,
    Send,
    SetDeduplication,
    SetFailpoint,
    StartSource,
    Switch,
    Then,
    Unload,
)
from model.policy_operations import PolicyRequest
from model.producer_operations import AwaitProducers, PurgeProducers
from model.read_operations import ReadRequest
from model.reader_operations import ReaderOperation
from model.subscription_operations import KeyOperation
from model.vocabulary import Entry, Limits, Persistence, Quorum

_MEANWHILE: dict[Meanwhile, str] = {
    "dies": "and it dies",
    "reconnects": "and it reconnects",
    "unload": "the topic is unloaded, and it reconnects",
}


def actor_and_action(operation: AnyOperation, participants: Participants) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    if isinstance(operation, CursorOperation):
        return action(operation, participants)
    if isinstance(operation, KeyOperation):
        return key_shared.action(operation, participants)
    if isinstance(operation, NetworkOperation):
        return network.action(operation)
    if isinstance(operation, ReplicationOperation):
        return replication.action(operation)
    if isinstance(operation, DeploymentOperation):
        return deployment.action(operation)
    if isinstance(operation, ReadRequest):
        return SUITE, "the suite", reads.action(operation)
    if isinstance(operation, AwaitProducers | PurgeProducers):
        return SUITE, "the suite", producers.action(operation)
    if isinstance(operation, ExpiryRequest):
        return SUITE, "the suite", expiry.action(operation)
    if isinstance(operation, HoleOperation):
        return SUITE, "the suite", holes.action(operation)
    if isinstance(operation, PolicyRequest):
        return SUITE, "the suite", policies.action(operation)
    if isinstance(operation, ReaderOperation):
        return operation.reader, f"reader {operation.reader}", readers.action(operation)
    if isinstance(operation, AdministratorRequest):
        return SUITE, "the suite", requested(operation)
    match operation:
        case OpenProducer(session=session) | CloseProducer(session=session) | CrashProducer(session=session):
            return session, participants.producer(session), _action_of_producer(operation)
        case Send(session=session):
            return session, participants.producer(session), _action_of_producer(operation)
        case StartSource(source=source) | FinishSource(source=source) | CrashSource(source=source):
            return f"source {source}", f"source {source}", _action_of_source(operation)
        case Consume(consumer=consumer):
            return f"consumer {consumer}", f"consumer {consumer}", _consumes(operation)
        case RunReader(program=program) | RunSubscriber(program=program):
            return f"program {program}", f"program {program}", _runs(operation)
        case Unload(cluster=str(cluster)) | Restart(cluster=str(cluster)) | Kill(cluster=str(cluster)):
            return cluster, f"cluster {cluster}", _done_to_broker(operation)
        case Unload() | Restart() | Kill() | SetFailpoint() | ClearFailpoints():
            return BROKER, "the broker", _done_to_broker(operation)
        case CreateTopic() | SetDeduplication() | ReadSnapshot() | ReadLog() | ReadChunkRate():
            return SUITE, "the suite", _action_of_suite(operation)
        case Drain() | ReadDatabase():
            return SUITE, "the suite", _action_of_suite(operation)
        case _:
            assert_never(operation)


def _action_of_producer(operation: OpenProducer | CloseProducer | CrashProducer | Send) -> str:
    match operation:
        case OpenProducer(topic=topic, cluster=cluster, is_chunking=is_chunking, compression=compression):
            chunks = ", with chunking" if is_chunking else ""
            packed = "" if compression == "none" else f", compressing with {compression}"
            access = producers.with_access(operation.access, has_epoch=operation.has_epoch)
            return f"is created on topic {topic}{at_cluster(cluster)}{chunks}{packed}{access}"
        case CloseProducer():
            return "closes"
        case CrashProducer():
            return "crashes: its connection closes without CloseProducer"
        case Send(entries=(entry,), wait=wait, interruption=interruption, age_s=age_s):
            sends = f"sends {entry}{_aged(age_s)}{_interrupted(interruption)}"
            return sends + ("" if wait else " and does not wait for the receipt")
        case Send(entries=entries, wait=wait, interruption=interruption, age_s=age_s):
            sends = f"sends {_entries(entries)}{_aged(age_s)}, all in flight at once{_interrupted(interruption)}"
            return sends + ("" if wait else ", and does not wait for the receipts")
        case _:
            assert_never(operation)


def _aged(age_s: int) -> str:
    return f", published {age_s} s ago" if age_s else ""


def _entries(entries: Sequence[Entry]) -> str:
    return joined([str(entry) for entry in entries])


def _interrupted(interruption: Interruption | None) -> str:
    match interruption:
        case None:
            return ""
        case CutAfterSends(sends, meanwhile):
            return f"; after SEND {sends} its connection is cut, {_MEANWHILE[meanwhile]}"
        case HoldAfterSends(sends, session, entries):
            return f"; after SEND {sends} it is blocked until session {session} has sent {_entries(entries)}"
        case _:
            assert_never(interruption)


def _action_of_source(operation: StartSource | FinishSource | CrashSource) -> str:
    match operation:
        case StartSource(topic=topic, entries=entries, goes_on=goes_on, back=back, client=client):
            last = "its last confirmed entry" if back == 1 else f"its last {back} confirmed entries"
            again = f", sends {last} again" if back else ""
            new = joined([str(entry) for entry in entries]) or "nothing new"
            return f"starts on topic {topic} ({CLIENTS[client]}), resumes {_from(goes_on)}{again}, and sends {new}"
        case FinishSource():
            return "sends again until everything is confirmed, and closes"
        case CrashSource(confirmed=confirmed):
            entries_confirmed = count(confirmed, "entry of this run is", "entries of this run are")
            return f"crashes once {entries_confirmed} confirmed"
        case _:
            assert_never(operation)


def _from(goes_on: GoesOn) -> str:
    match goes_on:
        case "from-checkpoint":
            return "after its last confirmed message"
        case "from-told-id":
            return "after the last sequence id"
        case "with-new-only":
            return "with new messages only"
        case _:
            assert_never(goes_on)


def _consumes(operation: Consume) -> str:
    subscription = f"subscription {operation.subscription} ({operation.kind}) of topic {operation.topic}"
    received = f"receives up to {count(operation.count, 'message', 'messages')} of {subscription}"
    return f"{received} with the {CLIENTS[operation.client]}{_acknowledging(operation.acks)}{_then(operation.then)}"


def _acknowledging(acks: tuple[bool, ...]) -> str:
    if all(acks):
        return " and acknowledges each message"
    if not any(acks):
        return " and acknowledges none"
    pattern = ", ".join("yes" if ack else "no" for ack in acks)
    return f" and acknowledges messages in turn: {pattern}"


def _then(then: Then) -> str:
    match then:
        case "stays":
            return ""
        case "closes":
            return ", then closes"
        case "crashes":
            return ", then crashes"
        case _:
            assert_never(then)


def _runs(operation: RunReader | RunSubscriber) -> str:
    match operation:
        case RunReader(topic=topic, death=death):
            what = f"reads topic {topic}, storing its last message id and its state in one transaction"
        case RunSubscriber(topic=topic, death=death):
            what = f"consumes topic {topic}, storing business ids and its state in one transaction"
        case _:
            assert_never(operation)
    return what + ("" if death is None else _dying(death))


def _dying(death: Death) -> str:
    return f", and kills itself at message {death.message}, {_at(death.point)}"


def _at(point: Point) -> str:
    match point:
        case "received":
            return "before it processes it"
        case "state-changed":
            return "with the state changed and the id not stored"
        case "before-commit":
            return "with all stored and nothing committed"
        case "committed":
            return "right after the commit"
        case "acknowledged":
            return "right after the ack"
        case _:
            assert_never(point)


def _done_to_broker(operation: Unload | Restart | Kill | SetFailpoint | ClearFailpoints) -> str:
    match operation:
        case Unload(topic=topic, classic=classic, scope=scope):
            return f"unloads {of_topic(topic, scope)}; the next look-up reloads it{_implemented(classic)}"
        case Restart(deduplication=None):
            return "restarts gracefully on the same data"
        case Restart(deduplication=on):
            setting = f"deduplication {'on' if on else 'off'} for topics without a policy"
            return f"restarts gracefully on the same data, with {setting}"
        case Kill(power_fails=False):
            return "is killed (SIGKILL) and restarts on the same data"
        case Kill():
            return "loses power with its bookies, which lose what they have not synced; all restart on the rest"
        case SetFailpoint(topic=topic, kind=kind, count=number, delay_ms=delay_ms, spared=spared):
            delay = f", by {delay_ms} ms" if delay_ms else ""
            after = f", after {count(spared, 'write', 'writes')} that succeed" if spared else ""
            does = f"{FAILPOINTS[kind].statement}{delay} ({kind})"
            return f"has a failpoint on topic {topic}, {times(number)}{after}: {does}"
        case ClearFailpoints():
            return "clears its failpoints"
        case _:
            assert_never(operation)


def _implemented(classic: bool | None) -> str:
    match classic:
        case None:
            return ""
        case True:
            return ", with the classic implementation of Key_Shared"
        case False:
            return ", with the implementation of Key_Shared that has draining hashes"


def _action_of_suite(
    operation: CreateTopic | SetDeduplication | ReadSnapshot | ReadLog | ReadChunkRate | Drain | ReadDatabase,
) -> str:
    match operation:
        case CreateTopic():
            return _creates(operation)
        case SetDeduplication(topic=topic, scope=scope, on=on, in_flight=in_flight):
            meanwhile = ", with messages in flight" if on and in_flight else ""
            return (
                f"{'enables' if on else 'disables'} deduplication of topic {topic}, "
                f"by a policy of the {scope}{meanwhile}"
            )
        case ReadSnapshot(topic=topic, due=due):
            return f"{'awaits' if due else 'reads'} the stored deduplication snapshot of topic {topic}"
        case ReadLog(topic=topic, cluster=None):
            return f"reads the log of topic {topic}"
        case ReadLog(topic=topic, cluster=cluster) if cluster == HOME:
            return f"heals the link to cluster {cluster}, and reads the log of topic {topic} there once replicated"
        case ReadLog(topic=topic, cluster=cluster):
            return f"heals all links, and reads the log of topic {topic} in cluster {cluster} once it is replicated"
        case ReadChunkRate(topic=topic, session=session, message=message):
            return f"reads the rate of chunks of topic {topic} while session {session} sends {message} again and again"
        case Drain(topic=topic, subscription=subscription, kind=kind):
            left = f"the backlog of subscription {subscription} ({kind}) of topic {topic}"
            return f"disconnects all consumers, and receives and acknowledges {left}"
        case ReadDatabase(program=program):
            return f"reads the database of program {program}"
        case _:
            assert_never(operation)


def _creates(operation: CreateTopic) -> str:
    number = operation.partitions
    partitions = f" of {count(number, 'partition', 'partitions')}" if number else ""
    if operation.clusters > 1:
        only = joined([f"from {source} to {target}" for source, target in operation.links], " and ")
        replicated = f"replicated {only}".rstrip() if operation.is_replicated else "not replicated"
        by = " by its own policy" if operation.replicated_by == "topic" else ""
        partitions += f" in {operation.clusters} clusters, {replicated}{by}"
    if operation.persistence is None:
        chunked = ", its clients through a proxy" if operation.is_chunked else ""
        return f"creates topic {operation.topic}{partitions}, {_switched(operation.deduplication)}{chunked}"
    retention = "without" if operation.is_trimmed else "with"
    policies = f"{_limited(operation.limits)}{_on_bookies(operation.quorum)}"
    return (
        f"creates topic {operation.topic}{partitions}, without deduplication, its cursors persisted "
        f"{_persisted(operation.persistence)}, {retention} retention{policies}"
    )


def _on_bookies(quorum: Quorum | None) -> str:
    return "" if quorum is None else f", its ledgers on bookies as {quorum} (ensemble, write quorum, ack quorum)"


def _limited(limits: Limits | None) -> str:
    if limits is None:
        return ""
    parts = [f"{limits.consumers} consumers"] if limits.consumers else []
    parts += [f"{limits.unacknowledged} unacknowledged messages at a consumer"] if limits.unacknowledged else []
    parts += [f"{limits.in_all} unacknowledged messages of a subscription"] if limits.in_all else []
    return f", at most {' and '.join(parts)}" if parts else ""


def _persisted(persistence: Persistence) -> str:
    match persistence:
        case "shipped":
            return "at the shipped rate"
        case "once-a-second":
            return "at most once a second"
        case "every-ack":
            return "with every ack"
        case _:
            assert_never(persistence)


def _switched(switch: Switch) -> str:
    match switch:
        case "broker":
            return "with the broker's default for deduplication"
        case "namespace-on" | "namespace-off":
            return f"in a namespace that {_enables(switch)} deduplication"
        case "own-namespace-on" | "own-namespace-off":
            return f"in a namespace of its own that {_enables(switch)} deduplication"
        case "topic-on" | "topic-off":
            return f"with a topic policy that {_enables(switch)} deduplication"
        case _:
            assert_never(switch)


def _enables(switch: Switch) -> str:
    return "enables" if switch.endswith("-on") else "disables"
