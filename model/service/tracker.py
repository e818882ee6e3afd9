"""The observer of the family SERVE: an operation with its outcome gives the next state, or the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import replace
from typing import Any

from model.cluster_operations import LoseCluster
from model.events import (
    AllReceived,
    AnyOutcome,
    BookiesLeft,
    Consumed,
    Created,
    Drained,
    DueReceived,
    Opened,
    PowerFailed,
    ReceivedMessages,
    Skipped,
    SourceStarted,
    Starved,
    Subscribed,
    TakenOver,
    Terminated,
)
from model.judgement import Allowed, Broken, in_turn
from model.operations import (
    AnyOperation,
    CloseProducer,
    Consume,
    CrashProducer,
    CreateTopic,
    Drain,
    FreezeOwner,
    Kill,
    LoseBookie,
    OpenProducer,
    Restart,
    RestoreBookies,
    RunReader,
    RunSubscriber,
    SetDeduplication,
    StartSource,
    TakeOver,
    Terminate,
    Unload,
)
from model.producer_operations import AwaitProducers, ProducersRead, Queued
from model.reader_operations import OpenReader
from model.rules.catalogue import carries
from model.service import access, confirmed, policies, refusals
from model.service.confirmed import ConfirmedLog
from model.service.reasons import Reasons, judge
from model.service.state import OpenedProducer, ServiceState
from model.service.unexpected import Closed, Unexpected
from model.subscription_operations import Expire, NackRepeatedly, ReadCursor, ReceiveAll
from model.subscriptions import chunks, due
from model.subscriptions.evidence import StarvingAlone
from model.subscriptions.state import Consumption
from model.vocabulary import ENSEMBLE, SubscriptionId, partition_name

DELIVERED = (ReceivedMessages, AllReceived, DueReceived, Consumed, Drained)
"""Outcomes of operations that wait for everything due."""


def unexpected(state: ServiceState, observed: Iterable[Unexpected], reasons: Reasons) -> Allowed[ServiceState] | Broken:
    """Judges what a broker did in a step apart from the outcome."""
    reasons = replace(reasons, loading=state.loading)

    def step(one: Unexpected) -> Callable[[ServiceState], Allowed[ServiceState] | Broken]:
        return lambda before: judge(one, reasons).then(
            lambda _: Allowed(_without(before, [one.actor]) if isinstance(one, Closed) else before)
        )

    return in_turn(state, map(step, observed))


def served(
    state: ServiceState,
    consumption: Consumption,
    operation: AnyOperation,
    outcome: AnyOutcome,
    *,
    is_certain: bool,
) -> Allowed[ServiceState] | Broken:
    """An operation ended with this outcome. ``consumption``: the state before it. ``is_certain``: no fault is active,
    so the connected clients are known."""
    if isinstance(outcome, Skipped):
        return Allowed(state)
    judged = refusals.judge(state, consumption, operation, outcome, is_certain=is_certain)
    if isinstance(outcome, Starved) and is_certain:
        judged = judged.then(lambda _: _waited_in_vain(consumption, operation, outcome))
    return judged.then(lambda _: _served(state, operation, outcome)).then(
        lambda after: _terminated(after, operation, outcome)
    )


@carries("SERVE-01", "SERVE-02", "SERVE-03", "SERVE-13")
def _served(state: ServiceState, operation: AnyOperation, outcome: AnyOutcome) -> Allowed[ServiceState]:
    topic = operation.topic
    exercised = ("SERVE-01", *(["SERVE-03"] if isinstance(outcome, DELIVERED) else []))
    if _has_messages(outcome):
        exercised = (*exercised, "SERVE-13")
    if isinstance(outcome, Opened | Subscribed | SourceStarted) and topic in state.loading:
        state = replace(state, loading=state.loading - {topic})
        exercised = (*exercised, "SERVE-02")
    return Allowed(_after(state, operation, outcome), exercised)


def _terminated(state: ServiceState, operation: AnyOperation, outcome: AnyOutcome) -> Allowed[ServiceState] | Broken:
    """A terminated topic has an end."""
    if not isinstance(operation, Terminate) or not isinstance(outcome, Terminated):
        return Allowed(state)
    topic = operation.topic
    judged = confirmed.terminated(state.confirmed.get(topic, confirmed.EMPTY), topic, outcome.end)
    return judged.then(lambda log: Allowed(replace(state, confirmed=state.confirmed.set(topic, log))))


def _has_messages(outcome: AnyOutcome) -> bool:
    """Whether consumers were sent messages, for which they had given permits."""
    match outcome:
        case ReceivedMessages(messages=messages):
            return bool(messages)
        case DueReceived(consumers=consumers):
            return any(one.messages for one in consumers)
        case _:
            return False


def _waited_in_vain(consumption: Consumption, operation: AnyOperation, outcome: Starved) -> Allowed[None] | Broken:
    starved = _starved(consumption, operation, outcome)
    if isinstance(starved, Allowed):
        return Allowed(None, (), starved.deviations, starved.excused)
    starved = starved.then(lambda _: Allowed(None))
    is_shown = starved.deviation is not None or _is_anything_left(consumption, operation, outcome)
    return starved if is_shown else _miscounted(starved)


@carries("ACK-13", "SERVE-03", "SERVE-04")
def _starved(consumption: Consumption, operation: AnyOperation, outcome: Starved) -> Allowed[Any] | Broken:
    """An operation waited in vain: a read of a cursor for due messages, ReceiveAll for all messages, an expiry for its
    end, and a consumer that nacks repeatedly for the redelivery.

    Other waits are judged with the subscription.
    """
    match operation:
        case ReadCursor(topic, subscription) if _is_untracked(consumption, SubscriptionId(topic, subscription)):
            return Allowed(None, excused=("SERVE-03",))
        case ReadCursor(topic, subscription):
            consumers = dict(consumption.consumers_of(SubscriptionId(topic, subscription)))
            if chunks.are_waiting(consumption, SubscriptionId(topic, subscription), list(consumers)):
                return Allowed(None)
            return due.not_dispatched(consumption, SubscriptionId(topic, subscription), outcome)
        case NackRepeatedly(topic):
            rule = "ACK-13" if outcome.messages else "SERVE-03"
            because = f"the consumer that nacks a message of {topic} again and again: {outcome.why}"
            return Broken(rule, because, evidence=outcome).passing_to(None)
        case ReceiveAll(topic, subscription):
            one = SubscriptionId(topic, subscription)
            because = f"the one consumer of {subscription}: {outcome.why}"
            return Broken("SERVE-03", because, evidence=StarvingAlone(one)).passing_to(None)
        case Expire(topic, subscription, up_to=up_to):
            if topic in consumption.topics and str(up_to) not in consumption.log(topic).places:
                return Allowed(None)
            because = f"after the broker agreed to expire messages of {subscription}, {outcome.why}"
            return Broken("SERVE-04", because, evidence=operation).passing_to(None)
        case _:
            return Allowed(None)


def _is_anything_left(consumption: Consumption, operation: AnyOperation, outcome: Starved) -> bool:
    """Whether a subscription may have a message that did not come. The broker may count entries that nobody published,
    and a history without their sends shows nothing else."""
    if not isinstance(operation, ReadCursor | ReceiveAll):
        return True
    topic = consumption.topics.get(operation.topic)
    if topic is None or not topic.is_sure or topic.has_untracked:
        return True
    cursor = consumption.cursors.get(SubscriptionId(operation.topic, operation.subscription))
    if cursor is None:
        return False
    log, came = consumption.log(operation.topic), {message.position for message in outcome.messages}
    return any(place.position not in came for one in cursor.possible for place in one.messages_left(log))


def _miscounted(starved: Broken) -> Broken:
    because = f"{starved.because}, although all that was published is acknowledged or was received"
    return replace(starved, rule="SERVE-04", because=because)


def _is_untracked(consumption: Consumption, subscription: SubscriptionId) -> bool:
    """Whether it is unknown which chunks its consumers were sent: it is untracked, on a topic that may have chunks."""
    topic = consumption.topics.get(subscription.topic)
    if topic is None or subscription in consumption.cursors:
        return False
    return topic.has_untracked and topic.has_chunks


def _after(state: ServiceState, operation: AnyOperation, outcome: AnyOutcome) -> ServiceState:
    match operation:
        case CreateTopic(name, partitions=partitions):
            made = {name, *(partition_name(name, number) for number in range(partitions))}
            state = replace(state, topics=state.topics | made, loading=state.loading | made)
            if operation.quorum is not None:
                fixed = dict.fromkeys(made, ENSEMBLE[operation.quorum])
                state = replace(state, ensembles=state.ensembles.updated(fixed))
            if isinstance(outcome, Created) and outcome.deduplication:
                state = replace(state, deduplicated=state.deduplicated | made)
            return state
        case SetDeduplication(topic, on=True):
            return replace(state, deduplicated=state.deduplicated | {topic})
        case LoseBookie(how=how) if isinstance(outcome, BookiesLeft):
            changed = confirmed.power_failed if how == "power-failure" else confirmed.bookie_lost
            return _with_logs(replace(state, bookies_left=outcome.number), state.ensembles, changed)
        case RestoreBookies() if isinstance(outcome, BookiesLeft):
            return replace(state, bookies_left=None)
        case OpenProducer():
            return _asked_for_access(state, operation, outcome)
        case AwaitProducers(topic) if isinstance(outcome, ProducersRead):
            return _producers_read(state, topic, outcome)
        case CloseProducer(session) | CrashProducer(session):
            return _without(state, [session])
        case Unload(name):
            return _reloaded(state, {name})
        case TakeOver() | FreezeOwner() if isinstance(outcome, TakenOver):
            lost = set(outcome.topics)
            taken = state.confirmed
            for name in lost:
                log = taken.get(name, confirmed.EMPTY)
                taken = taken.set(name, confirmed.taken_over(log) if outcome.is_elsewhere else log)
            is_mixed = state.has_changed_release or outcome.is_of_other_release
            return _reloaded(replace(state, confirmed=taken, has_changed_release=is_mixed), lost)
        case Kill() if isinstance(outcome, PowerFailed):
            return _reloaded(_with_logs(state, state.topics, confirmed.power_failed), state.topics)
        case Restart() | Kill():
            return _reloaded(state, state.topics)
        case OpenReader() | NackRepeatedly() | StartSource() | Consume() | Drain() | RunReader() | RunSubscriber():
            return replace(state, uncounted=state.uncounted | {operation.topic})
        case LoseCluster(lost) if not isinstance(outcome, Skipped):
            there = [name for name, one in state.producers.items() if one.cluster == lost]
            return _without(state, there)
        case _:
            return state


def _asked_for_access(state: ServiceState, operation: OpenProducer, outcome: AnyOutcome) -> ServiceState:
    """A producer is open, or waits; with exclusive access it may have fenced the others."""
    session, topic, mode = operation.session, operation.topic, operation.access
    if operation.session in state.producers or topic in state.contentions:
        state = _without(state, [session])  # an earlier producer of the session is closed first
    if mode != "Shared":
        contention = state.contention(topic)
        match outcome:
            case Queued():
                contention = replace(contention, waiting=(*contention.waiting, operation))
            case Opened(epoch=epoch):
                if mode == "ExclusiveWithFencing":
                    holders = state.holders(topic)
                    contention = contention.fencing(holders)
                    state = _without(state, [one.session for one in holders])
                contention = contention.with_access(session, epoch)
            case _:
                pass
        state = replace(state, contentions=state.contentions.set(topic, contention))
    if not isinstance(outcome, Opened):
        return state
    opened = OpenedProducer(topic, operation.cluster, operation.producer, operation.client == "wire", mode)
    return replace(state, producers={**state.producers, session: opened})


def _producers_read(state: ServiceState, topic: str, outcome: ProducersRead) -> ServiceState:
    contention = state.contention(topic)
    waited = {one.session: one for one in contention.waiting}
    activated = [waited[one.session] for one in outcome.activated if one.session in waited]
    opened = {
        one.session: OpenedProducer(topic, one.cluster, one.producer, is_wire=True, access=one.access)
        for one in activated
    }
    if topic in state.contentions:
        after = access.after_read(contention, outcome)
        state = replace(state, contentions=state.contentions.set(topic, after))
    return replace(state, producers={**state.producers, **opened})


def _with_logs(
    state: ServiceState, topics: Iterable[str], changed: Callable[[ConfirmedLog], ConfirmedLog]
) -> ServiceState:
    logs = {name: changed(state.confirmed.get(name, confirmed.EMPTY)) for name in topics}
    return replace(state, confirmed=state.confirmed.updated(logs))


def _reloaded(state: ServiceState, topics: Set[str]) -> ServiceState:
    """Topics are loaded again, without the producers that were connected to them."""
    dropped = [session for session, one in state.producers.items() if one.is_wire and one.topic in topics]
    state = policies.reloaded(_without(replace(state, loading=state.loading | topics), dropped), topics)
    reloaded = {topic: one.reloaded() for topic, one in state.contentions.items() if topic in topics}
    return replace(state, contentions=state.contentions.updated(reloaded)) if reloaded else state


def _without(state: ServiceState, sessions: Collection[str]) -> ServiceState:
    contentions = state.contentions
    for topic, one in contentions.items():
        left = one
        for session in {each.session for each in one.waiting}.union(one.ended, one.fenced).intersection(sessions):
            left = left.without(session)
        contentions = contentions if left is one else contentions.set(topic, left)
    producers = {name: one for name, one in state.producers.items() if name not in sessions}
    return replace(state, producers=producers, contentions=contentions)
