"""The observer of document 001: each operation at several clusters with its outcome gives the next state or a
violation.

Replication itself is judged when the logs and cursors of all clusters are read (:mod:`model.replication.agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from model.cluster_events import (
    CaughtUp,
    ClustersRead,
    CursorAdministered,
    Lagging,
    LinkCut,
    LinkHealed,
    ReplicatorsClosed,
    ReplicatorStalled,
)
from model.cluster_operations import (
    AdministerAt,
    AwaitIdle,
    CatchUp,
    CutLink,
    HealLink,
    LoseCluster,
    ReadClusters,
    RecoverCluster,
    SetLink,
)
from model.events import Acknowledged, Created, ReceivedMessages, Sent, Skipped, Stored, Subscribed
from model.judgement import Allowed, Broken, Part, in_turn, judges_waits
from model.log import Position
from model.operations import AnyOperation, CreateTopic, Kill, OpenProducer, Restart, Send, Unload
from model.replication import producers
from model.replication.agreement import CHECKS, Check
from model.replication.evidence import Excused, Findings
from model.replication.logs import Log, Logs
from model.replication.rounds import are_too_slow
from model.replication.tracked import (
    Administered,
    ClusterConsumer,
    ClusterProducer,
    Cuts,
    ReadAhead,
    ReplicatedTopic,
    Replication,
)
from model.rules.catalogue import carries
from model.subscription_operations import AckById, CloseConsumer, Receive, Subscribe
from model.vocabulary import Outcome

Judged = Allowed[Replication] | Broken

KEPT_BY_UNEQUAL_CLUSTERS = frozenset({"REPL-01", "REPL-10", "REPL-14", "REPL-18"})
"""What clusters that are configured unequally, or are left without another one, keep by REPL-20."""
KEPT_WITHOUT_A_CLUSTER = KEPT_BY_UNEQUAL_CLUSTERS | {"REPL-03", "REPL-20", "REPL-21"}
"""What is judged while a cluster is lost, whose log is known as it was before."""
OF_CONSUMERS_ACKS = frozenset({"REPL-11", "REPL-12", "REPL-13"})
"""What is judged only while nothing but consumers' acks and updates moves subscriptions."""


def judge(state: Replication, operation: AnyOperation, outcome: Outcome) -> Judged:
    """The state after this operation and outcome, between the clusters and of the producers at each."""
    return _judge(state, operation, outcome).then(lambda after: producers.judge(after, operation, outcome))


def _judge(state: Replication, operation: AnyOperation, outcome: Outcome) -> Judged:
    match operation:
        case Receive(consumer):
            return _received(state, consumer, outcome)
        case CatchUp():
            return _caught_up(state, operation, outcome)
        case ReadClusters(topic):
            return _read(state, topic, outcome)
        case RecoverCluster() if isinstance(outcome, LinkHealed):
            return _connected(_recovered(state, operation, outcome), operation, outcome)
        case _:
            return Allowed(_changed(state, operation, outcome))


def _changed(state: Replication, operation: AnyOperation, outcome: Outcome) -> Replication:
    """The state after an operation that exercises no rule."""
    match operation:
        case CreateTopic():
            return _created(state, operation, outcome)
        case OpenProducer():
            return _opened(state, operation)
        case Send():
            return _sent(state, operation, outcome)
        case Subscribe():
            return _subscribed(state, operation) if isinstance(outcome, Subscribed) else state
        case AckById():
            return _acknowledged(state, operation, outcome)
        case CloseConsumer(consumer):
            return state.without_consumers(frozenset({consumer}))
        case CutLink(source, target):
            return _link_cut(state, (source, target), outcome)
        case HealLink(source, target):
            return _link_healed(state, (source, target), outcome)
        case AwaitIdle(cluster, topic):
            return _closed(state, topic, cluster, outcome)
        case Unload(topic, cluster=str(cluster)):
            return _unloaded(state, topic, cluster)
        case SetLink():
            return _link_set(state, operation)
        case AdministerAt():
            return _administered(state, operation, outcome)
        case LoseCluster(cluster, how):
            return _lost(state, cluster, how, outcome)
        case Restart(cluster=str(cluster)):
            return _restarted(state, cluster)
        case Kill(cluster=str(cluster)):
            return _killed(_restarted(state, cluster), cluster)
        case _:
            return state


def _created(state: Replication, operation: CreateTopic, outcome: Outcome) -> Replication:
    if not isinstance(outcome, Created) or outcome.replication is None:
        return state
    topic = ReplicatedTopic(
        made=outcome.replication,
        is_replicated=operation.is_replicated,
        deduplication=outcome.deduplication,
        only_links=frozenset(operation.links) if operation.links else None,
        is_by_topic=operation.replicated_by == "topic" and operation.is_replicated,
    )
    return state.with_topic(operation.topic, topic)


def _opened(state: Replication, operation: OpenProducer) -> Replication:
    """A producer was opened, or may have been."""
    topic = state.topics.get(operation.topic)
    if topic is None or operation.cluster is None:
        return state
    producer = ClusterProducer(operation.topic, operation.cluster, operation.producer)
    state = state.with_producer(operation.session, producer)
    return state.with_topic(operation.topic, topic.opened_at(operation.cluster))


def _sent(state: Replication, operation: Send, outcome: Outcome) -> Replication:
    name, cluster = state.producers[operation.session].topic, state.producers[operation.session].cluster
    topic = state.topics[name].disturbed()
    answers = outcome.answers if isinstance(outcome, Sent) else ()
    for number, entry in enumerate(operation.entries):
        messages = tuple(message.business_id for message in entry.messages)
        topic = topic.with_restricted(cluster, entry)
        if number < len(answers) and isinstance(answers[number], Stored):
            topic = topic.with_published(cluster, messages)
        else:
            topic = replace(topic, maybe_published=topic.maybe_published.union(messages))
    return state.with_topic(name, topic)


def _subscribed(state: Replication, operation: Subscribe) -> Replication:
    topic, cluster = state.topics.get(operation.topic), operation.cluster
    if topic is None or cluster is None:
        return state
    at = (operation.subscription, cluster)
    own = {**topic.own, at: operation.is_replicated or topic.own.get(at, False)}
    came = {} if operation.is_replicated else {cluster: topic.unreplicated.get(cluster, 0) + 1}
    unreplicated = {**topic.unreplicated, **came}
    state = state.with_topic(operation.topic, replace(topic, own=own, unreplicated=unreplicated, is_settled=False))
    consumer = ClusterConsumer(
        cluster=cluster,
        topic=operation.topic,
        subscription=operation.subscription,
        passed=_passed(topic, operation, cluster),
    )
    return state.with_consumer(operation.consumer, consumer)


def _passed(topic: ReplicatedTopic, operation: Subscribe, cluster: str) -> Position | None:
    """How far updates advanced a subscription, if all have taken effect in the cluster, and it has lost none."""
    at = (operation.subscription, cluster)
    takes_updates = operation.is_replicated and topic.own.get(at, True)
    is_moved_back = any(one.at == at and one.is_backward for one in topic.administered)
    if not (takes_updates and topic.is_quiet) or cluster in topic.killed or is_moved_back:
        return None
    return topic.updated_to(operation.subscription, cluster)


@carries("REPL-10")
def _received(state: Replication, name: str, outcome: Outcome) -> Judged:
    """A consumer receives only what was published, and never a marker."""
    consumer = state.consumers.get(name)
    if consumer is None or not isinstance(outcome, ReceivedMessages):
        return Allowed(state)
    topic = state.topics[consumer.topic]
    for given in outcome.messages:
        if given.business_id not in topic.all_published:
            return Broken("REPL-10", f"{name} received the entry at {given.position}, which no producer published")
    exercised: tuple[str, ...] = ("REPL-10",) if outcome.messages else ()
    if consumer.passed is not None and outcome.messages:
        if (because := _given_again(topic, consumer, consumer.passed, outcome)) is not None:
            return Broken("REPL-15", because)
        exercised = (*exercised, "REPL-15")
    came = ((given.business_id, given.position) for given in outcome.messages)
    consumer = replace(consumer, unacknowledged=tuple(dict.fromkeys((*consumer.unacknowledged, *came))))
    return Allowed(state.with_consumer(name, consumer), exercised)


@carries("REPL-15")
def _given_again(
    topic: ReplicatedTopic, consumer: ClusterConsumer, passed: Position, outcome: ReceivedMessages
) -> str | None:
    """What was acknowledged in another cluster is delivered here again only after the position of the last update."""
    acknowledged = topic.acknowledged(consumer.subscription)
    again = next((one for one in outcome.messages if one.business_id in acknowledged and one.position <= passed), None)
    if again is None:
        return None
    return (
        f"{again.business_id} was delivered again at {again.position} of {consumer.cluster}, although an update "
        f"had moved {consumer.subscription} to {passed}"
    )


def _acknowledged(state: Replication, operation: AckById, outcome: Outcome) -> Replication:
    consumer = state.consumers.get(operation.consumer)
    if consumer is None:
        return state
    has = consumer.unacknowledged
    named = [at for message, at in has if message in operation.ids]
    last = max(named, default=None) if operation.cumulative else None
    left = tuple((message, at) for message, at in has if at not in named and (last is None or at > last))
    done = {message for message, _ in frozenset(has).difference(left)}
    state = state.with_consumer(operation.consumer, replace(consumer, unacknowledged=left))
    topic = state.topics[consumer.topic].disturbed()
    topic = topic.with_acknowledged(consumer.subscription, consumer.cluster, frozenset(done))
    if isinstance(outcome, Acknowledged) and has:
        at = (consumer.subscription, consumer.cluster)
        positions = [position for _, position in has]
        ahead = ReadAhead(begun_ms=outcome.begun_ms, first=min(positions), last=max(positions))
        topic = replace(topic, reads={**topic.reads, at: (*topic.reads.get(at, ()), ahead)})
    return state.with_topic(consumer.topic, topic)


def _link_set(state: Replication, operation: SetLink) -> Replication:
    topic = state.topics.get(operation.topic)
    if topic is None:
        return state
    link = operation.source, operation.target
    return state.with_topic(operation.topic, topic.with_link(link, on=operation.on))


def _administered(state: Replication, operation: AdministerAt, outcome: Outcome) -> Replication:
    topic = state.topics.get(operation.topic)
    if topic is None or not isinstance(outcome, CursorAdministered):
        return state
    return state.with_topic(operation.topic, topic.with_administered(Administered(operation, outcome)))


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
    cuts: Callable[[ReplicatedTopic], Cuts],
    link: tuple[str, str],
) -> Replication:
    """All topics share the links, and a change of a link disturbs each of them."""
    for name, topic in state.topics.items():
        state = state.with_topic(name, replace(topic, cut={**topic.cut, link: cuts(topic)}).disturbed())
    return state


def _closed(state: Replication, name: str, cluster: str, outcome: Outcome) -> Replication:
    if not isinstance(outcome, ReplicatorsClosed):
        return state
    topic = state.topics[name]
    return state.with_topic(name, replace(topic, closed={**topic.closed, cluster: outcome.since_ms}))


def _unloaded(state: Replication, name: str, cluster: str) -> Replication:
    """A topic is reloaded at a cluster: its dispatchers start at mark-delete, with empty snapshot caches."""
    topic = state.topics.get(name)
    return state if topic is None else state.with_topic(name, topic.unloaded_at(cluster))


def _restarted(state: Replication, cluster: str) -> Replication:
    """A cluster's broker was restarted: its consumers are disconnected, and its topics reloaded."""
    gone = frozenset(name for name, consumer in state.consumers.items() if consumer.cluster == cluster)
    for name in state.topics:
        state = _unloaded(state, name, cluster)
    return state.without_consumers(gone)


def _lost(state: Replication, cluster: str, how: str, outcome: Outcome) -> Replication:
    """A cluster's broker is gone, or frozen: its consumers are disconnected."""
    if isinstance(outcome, Skipped):
        return state
    gone = frozenset(name for name, consumer in state.consumers.items() if consumer.cluster == cluster)
    state = _killed(state.without_consumers(gone), cluster) if how == "kill" else state.without_consumers(gone)
    for name, topic in state.topics.items():
        topic = replace(topic.disturbed(), lost={**topic.lost, cluster: how})
        state = state.with_topic(name, topic)
        for link in topic.links if isinstance(outcome, LinkCut) else ():
            state = _link_cut(state, link, outcome) if link[1] == cluster else state
    return state


@carries("REPL-01", "REPL-20")
@judges_waits
def _connected(state: Replication, operation: RecoverCluster, outcome: LinkHealed) -> Judged:
    """The others' replicators connect to a recovered cluster again."""
    if not outcome.unconnected:
        return Allowed(state, ("REPL-20",) if operation.is_reached_early else ())
    because = (
        f"after cluster {operation.cluster} had come back, the replicators of {', '.join(outcome.unconnected)} to it "
        "did not connect until their topic was reloaded"
    )
    return Broken("REPL-01", because, evidence=outcome).passing_to(state)


def _recovered(state: Replication, operation: RecoverCluster, outcome: LinkHealed) -> Replication:
    """The broker of a lost cluster runs again; a killed one loads its topics, unless it has lost them."""
    cluster = operation.cluster
    for name, topic in state.topics.items():
        how = topic.lost.get(cluster)
        left = {other: why for other, why in topic.lost.items() if other != cluster}
        state = state.with_topic(name, replace(topic.disturbed(), lost=left))
        for link in topic.links if how == "kill" else ():
            state = _link_healed(state, link, outcome) if link[1] == cluster else state
        state = _unloaded(state, name, cluster) if how == "kill" else state
        if operation.is_empty and cluster in topic.clusters:
            state = state.with_topic(name, state.topics[name].without_data_of(cluster))
            for other in topic.clusters if operation.is_reached_early else ():
                state = _unloaded(state, name, other)
    return state


def _killed(state: Replication, cluster: str) -> Replication:
    """A cluster's broker was killed, which loses acks that were not persisted."""
    for name, topic in state.topics.items():
        state = state.with_topic(name, replace(topic, killed=topic.killed | {cluster}))
    return state


@carries("REPL-12", "REPL-13", "REPL-19")
def _caught_up(state: Replication, operation: CatchUp, outcome: Outcome) -> Judged:
    """With healed links and traffic, the subscriptions of all other clusters follow."""
    consumer = state.consumers.get(operation.consumer)
    if consumer is None:
        return Allowed(state)
    topic = state.topics[consumer.topic]
    match outcome:
        case Lagging(read=ClustersRead() as read) | CaughtUp(lagged=Lagging(read=ClustersRead() as read)) if (
            _are_snapshots_too_slow(topic, consumer.cluster, read)
        ):
            return Allowed(_left_behind(state, consumer, read), excused=("REPL-13", "REPL-19"))
        case Lagging(cluster, mark_delete, periods):
            because = (
                f"{consumer.subscription} is still at {mark_delete} of {cluster} {periods:.0f} snapshot periods after "
                f"all links were healed, while messages were published and acknowledged in {consumer.cluster}"
            )
            return Broken("REPL-13", because)
        case ReplicatorStalled():
            topic = replace(topic.disturbed(), cut=_over(topic.cut))
            return _stalled(state.with_topic(consumer.topic, topic), outcome)
        case CaughtUp(lagged=None):
            return _followed(state, operation, consumer, outcome, is_lag_followed=operation.lag > 0)
        case CaughtUp(lagged=Lagging() as lagged):
            followed = _followed(state, operation, consumer, outcome, is_lag_followed=False)
            return _lagging(consumer, operation, lagged).then(lambda _: followed)
        case _:
            return Allowed(state)


def _followed(
    state: Replication, operation: CatchUp, consumer: ClusterConsumer, seen: CaughtUp, *, is_lag_followed: bool
) -> Allowed[Replication]:
    """All clusters followed: everything is everywhere, and acknowledged at the consumer's cluster."""
    topic = state.topics[consumer.topic].with_published(consumer.cluster, seen.messages)
    everything = topic.published_for(consumer.cluster)
    topic = topic.with_acknowledged(consumer.subscription, consumer.cluster, everything)
    topic = replace(topic, is_settled=True, is_quiet=False, closed={}, cut=_over(topic.cut))
    state = state.with_consumer(operation.consumer, replace(consumer, unacknowledged=()))
    state = state.with_topic(consumer.topic, topic)
    if topic.changed or not topic.is_followed(consumer.cluster):
        return Allowed(state)
    return Allowed(state, ("REPL-12", "REPL-13", *(("REPL-19",) if is_lag_followed else ())))


def _are_snapshots_too_slow(topic: ReplicatedTopic, cluster: str, read: ClustersRead) -> bool:
    """Whether replication is too slow for the snapshots of a cluster, as on a busy machine. Then nothing can follow."""
    log, others = Log(cluster, read.clusters[cluster]), read.clusters.keys() - {cluster}
    return are_too_slow(log, others, timeout_ms=topic.made.timeout_ms)


def _left_behind(state: Replication, consumer: ClusterConsumer, read: ClustersRead) -> Replication:
    """Not all clusters followed: what was published meanwhile is known from the log, and may be acknowledged."""
    topic = state.topics[consumer.topic].disturbed()
    known = topic.all_published
    messages = Log(consumer.cluster, read.clusters[consumer.cluster]).messages(consumer.cluster)
    topic = topic.with_published(consumer.cluster, tuple(one for one in messages if one not in known))
    topic = topic.with_acknowledged(consumer.subscription, consumer.cluster, topic.all_published)
    return state.with_topic(consumer.topic, topic)


@judges_waits
def _lagging(consumer: ClusterConsumer, operation: CatchUp, lagged: Lagging) -> Broken:
    """A cluster does not follow while a consumer leaves some messages unacknowledged."""
    because = (
        f"{consumer.subscription} is still at {lagged.mark_delete} of {lagged.cluster} after {lagged.periods:.0f} "
        f"snapshot periods, in each of which a message was acknowledged in {consumer.cluster}, the last "
        f"{operation.lag} not yet"
    )
    return Broken("REPL-19", because, evidence=lagged).passing_to(None)


@carries("REPL-01")
def _stalled(state: Replication, seen: ReplicatorStalled) -> Broken:
    """A connected replicator replicates its topic's messages."""
    first = f"from {seen.messages[0]} on" if seen.messages else "markers only"
    because = (
        f"the replicator of {seen.source} to {seen.target} was connected, but replicated nothing for "
        f"{seen.stalled_s:.0f} s despite its backlog: {first}"
    )
    return Broken("REPL-01", because, evidence=seen).passing_to(state)


def _over(cut: Mapping[tuple[str, str], Cuts]) -> Mapping[tuple[str, str], Cuts]:
    """The cuts with a known end. When every link healed at once, the end of the last ones was not observed."""
    return {link: tuple(one for one in cuts if one[1] is not None) for link, cuts in cut.items()}


@carries("REPL-20", "REPL-21")
def _read(state: Replication, name: str, outcome: Outcome) -> Judged:
    topic = state.topics.get(name)
    if topic is not None and isinstance(outcome, ReplicatorStalled):
        return _stalled(state, outcome)
    if topic is None or not isinstance(outcome, ClustersRead):
        return Allowed(state)
    read = replace(topic, read=outcome, is_quiet=outcome.is_quiet and not topic.lost)
    logs = {cluster: Log(cluster, one) for cluster, one in outcome.clusters.items()}
    is_unequal = bool(topic.lost or topic.changed or topic.emptied)
    left_out = OF_CONSUMERS_ACKS if topic.administered else frozenset()
    checks = [
        (rule, check)
        for rule, check in CHECKS
        if rule not in left_out and (not is_unequal or rule in KEPT_WITHOUT_A_CLUSTER)
    ]
    judged = in_turn(False, [partial(_checked, name, read, logs, rule, check) for rule, check in checks])

    def after(is_kept: bool) -> Judged:
        is_of_unequal = is_kept and bool(topic.only_links is not None or topic.lost or topic.emptied)
        is_of_policy = is_kept and (topic.is_by_topic or bool(topic.administered))
        exercised = (*(("REPL-20",) if is_of_unequal else ()), *(("REPL-21",) if is_of_policy else ()))
        return Allowed(state.with_topic(name, read), exercised)

    return judged.then(after)


def _checked(
    name: str, topic: ReplicatedTopic, logs: Logs, rule: str, check: Check, is_kept: bool
) -> Allowed[bool] | Broken:
    """One check. All results that hold are one, and what breaks it, or a part of that, another one.

    ``is_kept``: whether a rule was exercised that unequal clusters keep.
    """
    results = list(check(topic, logs))
    exercised = (rule,) if None in results else ()
    excused = tuple(rule for one in results if isinstance(one, Excused))
    found = Findings.of(name, topic, logs, results)
    is_kept = is_kept or (bool(exercised) and rule in KEPT_BY_UNEQUAL_CLUSTERS)
    return Allowed(is_kept, exercised, excused=excused).then(lambda _: _without(found, rule, frozenset(), is_kept))


def _without(found: Findings, rule: str, part: Part, is_kept: bool) -> Allowed[bool] | Broken:
    """What is left of these findings without a part of them."""
    left = tuple(one for one in found.every if part is not None and one not in part)
    if not left:
        return Allowed(is_kept)

    def passed(explained: Part) -> Allowed[bool] | Broken:
        return Allowed(is_kept, excused=(rule,)).then(lambda _: _without(rest, rule, explained, is_kept))

    rest = replace(found, every=left)
    return Broken(rule, left[0].because, evidence=rest, passed=passed)
