"""Follows what is done at several clusters, and judges what they show (document 001).

What happens between the clusters is not seen as it happens: it is judged when all of them are read back
(:mod:`model.replication.agreement`). Nothing is awaited here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from model.catalogue import carries
from model.deviations import DEVIATIONS
from model.deviations.replication import REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE
from model.events import Refused
from model.judgement import Allowed, Broken
from model.log import Position
from model.replication.agreement import CHECKS
from model.replication.evidence import Deviating
from model.replication.logs import Log
from model.replication.tracked import REPLICATORS_ADD_BYTES, Cuts, GeoConsumer, GeoTopic, ReadAhead, Replication
from model.replication.vocabulary import (
    AcknowledgeAt,
    AcknowledgedAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    Behind,
    CatchUp,
    CaughtUp,
    ClustersRead,
    CreateReplicatedTopic,
    CutLink,
    GeoCreated,
    GeoOperation,
    HealLink,
    HoldLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    LinkCut,
    LinkHealed,
    NotPassedOn,
    PublishAt,
    Published,
    ReadClusters,
    ReceiveAt,
    ReceivedAt,
    ReleaseLink,
    ReplicatorsClosed,
    RestartCluster,
    SlowLink,
    UnloadAt,
)
from model.vocabulary import Outcome

Judged = Allowed[Replication] | Broken


def judge(state: Replication, operation: GeoOperation, outcome: Outcome, known: frozenset[str]) -> Judged:
    """What this operation with this outcome leaves possible."""
    match operation:
        case CreateReplicatedTopic():
            return Allowed(_created(state, operation, outcome))
        case PublishAt():
            return Allowed(_published(state, operation, outcome))
        case JoinAt():
            return Allowed(state if isinstance(outcome, Refused) else _joined(state, operation))
        case ReceiveAt(consumer):
            return _received(state, consumer, outcome)
        case AcknowledgeAt():
            return Allowed(_acknowledged(state, operation, outcome))
        case LeaveAt(consumer):
            return Allowed(state.without_consumers(frozenset({consumer})))
        case CutLink(source, target):
            return Allowed(_link_cut(state, (source, target), outcome))
        case HealLink(source, target):
            return Allowed(_link_healed(state, (source, target), outcome))
        case HoldLink() | SlowLink() | ReleaseLink() | AwaitMessage() | AwaitAnswered() | AwaitTimedOut():
            return Allowed(state)
        case AwaitIdle(cluster, topic):
            return Allowed(_closed(state, topic, cluster, outcome))
        case UnloadAt(cluster, topic):
            return Allowed(_moved(state, topic, cluster))
        case RestartCluster(cluster):
            return Allowed(_restarted(state, cluster))
        case KillCluster(cluster):
            return Allowed(_killed(_restarted(state, cluster), cluster))
        case CatchUp(consumer):
            return _caught_up(state, consumer, outcome, known)
        case ReadClusters(topic):
            return _read(state, topic, outcome, known)
        case _:
            assert_never(operation)


def _created(state: Replication, operation: CreateReplicatedTopic, outcome: Outcome) -> Replication:
    if not isinstance(outcome, GeoCreated):
        return state
    topic = GeoTopic(made=outcome, is_replicated=operation.is_replicated, deduplication=operation.deduplication)
    return state.with_topic(operation.topic, topic)


def _published(state: Replication, operation: PublishAt, outcome: Outcome) -> Replication:
    topic = state.topics.get(operation.topic)
    if topic is None:
        return state
    topic = topic.stirred().opened_at(operation.cluster)
    if operation.size_bytes > topic.made.largest_bytes - REPLICATORS_ADD_BYTES > 0:
        topic = replace(topic, nearly_full=topic.nearly_full.union(operation.messages))
    if isinstance(outcome, Published):
        return state.with_topic(operation.topic, topic.with_published(operation.cluster, operation.messages))
    return state.with_topic(operation.topic, replace(topic, perhaps=topic.perhaps.union(operation.messages)))


def _joined(state: Replication, operation: JoinAt) -> Replication:
    topic = state.topics.get(operation.topic)
    if topic is None:
        return state
    at = (operation.subscription, operation.cluster)
    own = {**topic.own, at: operation.is_replicated or topic.own.get(at, False)}
    came = {} if operation.is_replicated else {operation.cluster: topic.unreplicated.get(operation.cluster, 0) + 1}
    unreplicated = {**topic.unreplicated, **came}
    state = state.with_topic(operation.topic, replace(topic, own=own, unreplicated=unreplicated, is_settled=False))
    consumer = GeoConsumer(
        cluster=operation.cluster,
        topic=operation.topic,
        subscription=operation.subscription,
        passed=_passed(topic, operation),
    )
    return state.with_consumer(operation.consumer, consumer)


def _passed(topic: GeoTopic, operation: JoinAt) -> Position | None:
    """How far updates have brought a subscription, if all have taken effect in a cluster, and it has not forgotten."""
    takes_updates = operation.is_replicated and topic.own.get((operation.subscription, operation.cluster), True)
    if not (takes_updates and topic.is_quiet) or operation.cluster in topic.killed:
        return None
    return topic.updated_to(operation.subscription, operation.cluster)


@carries("REPL-10")
def _received(state: Replication, name: str, outcome: Outcome) -> Judged:
    """What a consumer is given was published; it is never a marker."""
    consumer = state.consumers.get(name)
    if consumer is None or not isinstance(outcome, ReceivedAt):
        return Allowed(state)
    topic = state.topics[consumer.topic]
    for given in outcome.messages:
        if given.message not in topic.all_published:
            return Broken("REPL-10", f"{name} was given what stands at {given.position}, which nobody published")
    exercised: tuple[str, ...] = ("REPL-10",) if outcome.messages else ()
    if consumer.passed is not None and outcome.messages:
        if (because := _given_again(topic, consumer, consumer.passed, outcome)) is not None:
            return Broken("REPL-15", because)
        exercised = (*exercised, "REPL-15")
    outstanding = {**dict(consumer.outstanding), **{given.message: given.position for given in outcome.messages}}
    consumer = replace(consumer, outstanding=tuple(outstanding.items()))
    return Allowed(state.with_consumer(name, consumer), exercised)


@carries("REPL-15")
def _given_again(topic: GeoTopic, consumer: GeoConsumer, passed: Position, outcome: ReceivedAt) -> str | None:
    """What was acknowledged elsewhere is given here again only behind the last snapshot that was passed there."""
    acknowledged = topic.acknowledged(consumer.subscription)
    again = next((one for one in outcome.messages if one.message in acknowledged and one.position <= passed), None)
    if again is None:
        return None
    return (
        f"{again.message} was given again at {again.position} of {consumer.cluster}, although an update said that "
        f"{consumer.subscription} has passed {passed}"
    )


def _acknowledged(state: Replication, operation: AcknowledgeAt, outcome: Outcome) -> Replication:
    consumer = state.consumers.get(operation.consumer)
    if consumer is None:
        return state
    has = dict(consumer.outstanding)
    named = [has[message] for message in operation.messages if message in has]
    last = max(named, default=None) if operation.is_cumulative else None
    done = {message for message, at in has.items() if at in named or (last is not None and at <= last)}
    left = tuple((message, at) for message, at in has.items() if message not in done)
    state = state.with_consumer(operation.consumer, replace(consumer, outstanding=left))
    topic = state.topics[consumer.topic].stirred()
    topic = topic.with_acknowledged(consumer.subscription, consumer.cluster, frozenset(done))
    if isinstance(outcome, AcknowledgedAt) and has:
        at = (consumer.subscription, consumer.cluster)
        ahead = ReadAhead(begun_ms=outcome.begun_ms, first=min(has.values()), last=max(has.values()))
        topic = replace(topic, reads={**topic.reads, at: (*topic.reads.get(at, ()), ahead)})
    return state.with_topic(consumer.topic, topic)


def _link_cut(state: Replication, link: tuple[str, str], outcome: Outcome) -> Replication:
    if not isinstance(outcome, LinkCut):
        return state
    return _on_each(state, lambda topic: (*topic.cut.get(link, ()), (outcome.since_ms, None)), link)


def _link_healed(state: Replication, link: tuple[str, str], outcome: Outcome) -> Replication:
    if not isinstance(outcome, LinkHealed):
        return state
    until = outcome.until_ms
    return _on_each(state, lambda topic: tuple((since, end or until) for since, end in topic.cut.get(link, ())), link)


def _on_each(
    state: Replication,
    cuts: Callable[[GeoTopic], Cuts],
    link: tuple[str, str],
) -> Replication:
    """All topics share the links, and none is settled while one changes."""
    for name, topic in state.topics.items():
        state = state.with_topic(name, replace(topic, cut={**topic.cut, link: cuts(topic)}).stirred())
    return state


def _closed(state: Replication, name: str, cluster: str, outcome: Outcome) -> Replication:
    if not isinstance(outcome, ReplicatorsClosed):
        return state
    topic = state.topics[name]
    return state.with_topic(name, replace(topic, closed={**topic.closed, cluster: outcome.since_ms}))


def _moved(state: Replication, name: str, cluster: str) -> Replication:
    """A topic is loaded anew at a cluster: its dispatchers begin behind mark-delete, with empty caches."""
    topic = state.topics.get(name)
    return state if topic is None else state.with_topic(name, topic.moved_at(cluster))


def _restarted(state: Replication, cluster: str) -> Replication:
    """A cluster's process was away: its consumers are gone, and so are the moments of cuts that only it could tell."""
    gone = frozenset(name for name, consumer in state.consumers.items() if consumer.cluster == cluster)
    for name in state.topics:
        state = _moved(state, name, cluster)
    return state.without_consumers(gone)


def _killed(state: Replication, cluster: str) -> Replication:
    """A cluster's process was killed: what was acknowledged there and not persisted is forgotten."""
    for name, topic in state.topics.items():
        state = state.with_topic(name, replace(topic, killed=topic.killed | {cluster}))
    return state


@carries("REPL-12", "REPL-13")
def _caught_up(state: Replication, name: str, outcome: Outcome, known: frozenset[str]) -> Judged:
    """With all links healed and traffic flowing, every other cluster passes what was acknowledged, after a while."""
    consumer = state.consumers.get(name)
    if consumer is None:
        return Allowed(state)
    topic = state.topics[consumer.topic]
    match outcome:
        case Behind(cluster, mark_delete, periods):
            because = (
                f"{consumer.subscription} is still at {mark_delete} of {cluster} {periods:.0f} snapshot periods after "
                f"all links were healed, while messages were published and acknowledged at {consumer.cluster}"
            )
            return Broken("REPL-13", because)
        case NotPassedOn():
            topic = replace(topic.stirred(), cut=_over(topic.cut))
            return _not_passed_on(state.with_topic(consumer.topic, topic), topic, outcome, known)
        case CaughtUp(messages=messages):
            topic = topic.with_published(consumer.cluster, messages)
            everything = topic.all_published
            topic = topic.with_acknowledged(consumer.subscription, consumer.cluster, everything)
            topic = replace(topic, is_settled=True, is_quiet=False, closed={}, cut=_over(topic.cut))
            state = state.with_consumer(name, replace(consumer, outstanding=()))
            return Allowed(state.with_topic(consumer.topic, topic), ("REPL-12", "REPL-13"))
        case _:
            return Allowed(state)


@carries("REPL-01")
def _not_passed_on(state: Replication, topic: GeoTopic, seen: NotPassedOn, known: frozenset[str]) -> Judged:
    """A replicator that is connected passes on what there is."""
    first = f"from {seen.messages[0]} on" if seen.messages else "but markers"
    because = (
        f"the replicator of {seen.source} to {seen.target} was connected, and passed on nothing for "
        f"{seen.seconds:.0f} s, though it had something left: {first}"
    )
    if seen.messages and seen.messages[0] in topic.nearly_full:
        if REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE in known:
            return Allowed(state, ("REPL-01",), (REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE,))
        return DEVIATIONS[REPLICATOR_STUCK_ON_TOO_LARGE_MESSAGE].broken(because)
    return Broken("REPL-01", because)


def _over(cut: Mapping[tuple[str, str], Cuts]) -> Mapping[tuple[str, str], Cuts]:
    """What is known of cuts once every link has healed: of the last ones nobody said when they ended."""
    return {link: tuple(one for one in cuts if one[1] is not None) for link, cuts in cut.items()}


def _read(state: Replication, name: str, outcome: Outcome, known: frozenset[str]) -> Judged:
    topic = state.topics.get(name)
    if topic is None or not isinstance(outcome, ClustersRead):
        return Allowed(state)
    topic = replace(topic, read=outcome, is_quiet=outcome.is_quiet)
    logs = {cluster: Log(cluster, read) for cluster, read in outcome.clusters.items()}
    exercised: list[str] = []
    deviations: set[str] = set()
    for rule, check in CHECKS:
        told = list(check(topic, logs))
        for one in told:
            match one:
                case None:
                    pass
                case str():
                    return Broken(rule, one)
                case Deviating(deviation, because):
                    if deviation not in known:
                        return DEVIATIONS[deviation].broken(because)
                    deviations.add(deviation)
        if told:
            exercised.append(rule)
    return Allowed(state.with_topic(name, topic), tuple(exercised), tuple(sorted(deviations)))
