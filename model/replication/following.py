"""Follows what is done at several clusters, and judges what they show (document 001).

What happens between the clusters is not seen as it happens: it is judged when all of them are read back
(:mod:`model.replication.agreeing`). Nothing is awaited here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from model.catalogue import carries
from model.judgement import Allowed, Broken
from model.operations import Refused
from model.replication.agreeing import CHECKS
from model.replication.followed import GeoConsumer, GeoTopic, Replication
from model.replication.logs import Log
from model.replication.words import (
    AcknowledgeAt,
    Behind,
    CatchUp,
    CaughtUp,
    ClustersRead,
    CreateReplicatedTopic,
    CutLink,
    GeoCreated,
    GeoOperation,
    HealLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    LinkCut,
    LinkHealed,
    PublishAt,
    Published,
    ReadClusters,
    ReceiveAt,
    ReceivedAt,
    RestartCluster,
    UnloadAt,
)
from model.vocabulary import Outcome

Judged = Allowed[Replication] | Broken


def judge(state: Replication, operation: GeoOperation, outcome: Outcome) -> Judged:
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
            return Allowed(_acknowledged(state, operation))
        case LeaveAt(consumer):
            return Allowed(state.without_consumers(frozenset({consumer})))
        case CutLink(source, target):
            return Allowed(_link_cut(state, (source, target), outcome))
        case HealLink(source, target):
            return Allowed(_link_healed(state, (source, target), outcome))
        case UnloadAt(topic=topic):
            return Allowed(_stirred(state, topic))
        case RestartCluster(cluster):
            return Allowed(_restarted(state, cluster))
        case KillCluster(cluster):
            return Allowed(_killed(_restarted(state, cluster), cluster))
        case CatchUp(consumer):
            return _caught_up(state, consumer, outcome)
        case ReadClusters(topic):
            return _read(state, topic, outcome)
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
    topic = replace(topic, is_settled=False)
    if isinstance(outcome, Published):
        return state.with_topic(operation.topic, topic.with_published(operation.cluster, operation.messages))
    return state.with_topic(operation.topic, replace(topic, perhaps=topic.perhaps.union(operation.messages)))


def _joined(state: Replication, operation: JoinAt) -> Replication:
    topic = state.topics.get(operation.topic)
    if topic is None:
        return state
    at = (operation.subscription, operation.cluster)
    own = {**topic.own, at: operation.is_replicated or topic.own.get(at, False)}
    state = state.with_topic(operation.topic, replace(topic, own=own, is_settled=False))
    consumer = GeoConsumer(cluster=operation.cluster, topic=operation.topic, subscription=operation.subscription)
    return state.with_consumer(operation.consumer, consumer)


@carries("REPL-10")
def _received(state: Replication, name: str, outcome: Outcome) -> Judged:
    """What a consumer is given was published; it is never a marker."""
    consumer = state.consumers.get(name)
    if consumer is None or not isinstance(outcome, ReceivedAt):
        return Allowed(state)
    published = state.topics[consumer.topic].all_published
    for given in outcome.messages:
        if given.message not in published:
            return Broken("REPL-10", f"{name} was given what stands at {given.position}, which nobody published")
    fresh = tuple(given.message for given in outcome.messages if given.message not in consumer.outstanding)
    consumer = replace(consumer, outstanding=(*consumer.outstanding, *fresh))
    return Allowed(state.with_consumer(name, consumer), ("REPL-10",) if outcome.messages else ())


def _acknowledged(state: Replication, operation: AcknowledgeAt) -> Replication:
    consumer = state.consumers.get(operation.consumer)
    if consumer is None:
        return state
    done = frozenset(operation.messages).intersection(consumer.outstanding)
    if operation.is_cumulative and done:
        last = max(consumer.outstanding.index(message) for message in done)
        done = frozenset(consumer.outstanding[: last + 1])
    left = tuple(message for message in consumer.outstanding if message not in done)
    state = state.with_consumer(operation.consumer, replace(consumer, outstanding=left))
    topic = replace(state.topics[consumer.topic], is_settled=False)
    return state.with_topic(consumer.topic, topic.with_acknowledged(consumer.subscription, done))


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
    cuts: Callable[[GeoTopic], tuple[tuple[int, int | None], ...]],
    link: tuple[str, str],
) -> Replication:
    """All topics share the links, and none is settled while one changes."""
    for name, topic in state.topics.items():
        state = state.with_topic(name, replace(topic, cut={**topic.cut, link: cuts(topic)}, is_settled=False))
    return state


def _stirred(state: Replication, name: str) -> Replication:
    topic = state.topics.get(name)
    return state if topic is None else state.with_topic(name, replace(topic, is_settled=False))


def _restarted(state: Replication, cluster: str) -> Replication:
    """A cluster's process was away: its consumers are gone, and so are the moments of cuts that only it could tell."""
    gone = frozenset(name for name, consumer in state.consumers.items() if consumer.cluster == cluster)
    for name in state.topics:
        state = _stirred(state, name)
    return state.without_consumers(gone)


def _killed(state: Replication, cluster: str) -> Replication:
    """A cluster's process was killed: what was acknowledged there and not persisted is forgotten."""
    for name, topic in state.topics.items():
        state = state.with_topic(name, replace(topic, killed=topic.killed | {cluster}))
    return state


@carries("REPL-12", "REPL-13")
def _caught_up(state: Replication, name: str, outcome: Outcome) -> Judged:
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
        case CaughtUp(messages=messages):
            topic = topic.with_published(consumer.cluster, messages)
            everything = topic.all_published
            topic = replace(topic.with_acknowledged(consumer.subscription, everything), is_settled=True)
            state = state.with_consumer(name, replace(consumer, outstanding=()))
            return Allowed(state.with_topic(consumer.topic, topic), ("REPL-12", "REPL-13"))
        case _:
            return Allowed(state)


def _read(state: Replication, name: str, outcome: Outcome) -> Judged:
    topic = state.topics.get(name)
    if topic is None or not isinstance(outcome, ClustersRead):
        return Allowed(state)
    topic = replace(topic, read=outcome)
    logs = {cluster: Log(cluster, read) for cluster, read in outcome.clusters.items()}
    exercised: list[str] = []
    for rule, check in CHECKS:
        shown = list(check(topic, logs))
        because = next((one for one in shown if one is not None), None)
        if because is not None:
            return Broken(rule, because)
        if shown:
            exercised.append(rule)
    return Allowed(state.with_topic(name, topic), tuple(exercised))
