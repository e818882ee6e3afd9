"""Operations on the processes of a deployment.

For the topics of a broker that is lost, each is a kill or a graceful unload. A metadata store that is away changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, assert_never

from model.applications import tracker as applications_tracker
from model.chunking import tracker as chunking_tracker
from model.cursors.ledger import Interval
from model.deduplication import topic_observer
from model.events import AnyOutcome, BookiesLeft, Done, TakenOver, Thawed
from model.example import holes
from model.example.state import Example, Judgement
from model.judgement import Allowed, Broken
from model.operations import (
    AcknowledgeAtFrozen,
    DeploymentOperation,
    Disturbance,
    DisturbMetadataStore,
    FreezeOwner,
    LoseBookie,
    RestoreBookies,
    SendToFrozen,
    TakeOver,
    ThawOwners,
)
from model.service import confirmed
from model.subscriptions import tracker as subscriptions
from model.subscriptions import written

STORE_RETURNS_MS: Final = 20_000.0
"""How long it may take until the metadata store is back and the brokers know it. A restart takes seconds on a busy
machine, and brokers check their sessions every 2 s, as shipped."""


def reloaded(
    state: Example, topics: Collection[str], at: Interval, *, is_killed: bool, is_frozen: bool = False
) -> Example:
    """Another process loads these topics. ``is_frozen``: their former owner still runs, but is frozen."""
    consumption, applications, chunking = state.consumption, state.applications, state.chunking
    if is_frozen:
        consumption = subscriptions.frozen(consumption, topics, at)
    elif is_killed:
        consumption = subscriptions.killed(consumption, topics, at)
    else:
        consumption = subscriptions.unloaded(consumption, topics, at)
    for name in topics:
        applications = applications_tracker.unloaded(applications, name, was_away=True)
        chunking = chunking_tracker.unloaded(chunking, name)
        if name in state.topics:
            state = state.with_topic(name, topic_observer.unloaded(state.topics[name]).state)
    state = holes.reloaded(state, topics, is_killed=is_killed or is_frozen)
    return replace(state, applications=applications, consumption=consumption, chunking=chunking)


def judge(state: Example, operation: DeploymentOperation, outcome: AnyOutcome, at: Interval) -> Judgement:
    match operation:
        case TakeOver() | FreezeOwner():
            if not isinstance(outcome, TakenOver):
                return Allowed(state)
            is_frozen = isinstance(operation, FreezeOwner)
            is_killed = isinstance(operation, TakeOver) and operation.how == "kill"
            after = reloaded(state, outcome.topics, at, is_killed=is_killed, is_frozen=is_frozen)
            after = after.with_lingering({topic for topic, _ in after.failpoints})
            lingering = after.lingering - set(outcome.topics)
            return Allowed(replace(after, failpoints=frozenset(), lingering=lingering))
        case SendToFrozen(session, entries):
            topic, producer = state.sessions[session].topic, state.sessions[session].producer
            return Allowed(state.with_confirmed(topic, lambda log: confirmed.sent_to_frozen(log, producer, entries)))
        case AcknowledgeAtFrozen():
            return Allowed(state)  # the present owner does not have these acks
        case ThawOwners():
            return _thawed(state, outcome)
        case LoseBookie():
            return Allowed(state)
        case RestoreBookies():
            return Allowed(_bookies_back(state, outcome))
        case DisturbMetadataStore(how):
            return Allowed(_store_away(state, how, at) if isinstance(outcome, Done) else state)
        case _:
            assert_never(operation)


def _store_away(state: Example, how: Disturbance, at: Interval) -> Example:
    """The metadata store is away for a moment, or the brokers' sessions in it.

    A write that needs a new ledger waits for the store, but may fail if the session of its broker expired.
    """
    expires = how == "expire"
    away = replace(
        state.service,
        store_away_until_ms=at.completed_ms + STORE_RETURNS_MS,
        are_sessions_expired=expires or state.service.are_sessions_expired,
    )
    state = state.with_lingering(state.topics.keys()) if expires else state
    consumption = written.with_store(state.consumption, is_away=True)
    return replace(state, service=away, consumption=consumption)


def with_store(state: Example, at: Interval) -> Example:
    """The same with the metadata store, if it had time to return."""
    until_ms = state.service.store_away_until_ms
    if until_ms is None or at.invoked_ms < until_ms:
        return state
    service = replace(state.service, store_away_until_ms=None, are_sessions_expired=False)
    return replace(state, service=service, consumption=written.with_store(state.consumption, is_away=False))


def _bookies_back(state: Example, outcome: AnyOutcome) -> Example:
    """Writes that failed for lack of bookies may be in flight until a later write is confirmed."""
    if not isinstance(outcome, BookiesLeft):
        return state
    stuck = {topic for topic in state.topics if state.service.ensembles.get(topic, outcome.number) >= outcome.number}
    return state.with_lingering(stuck)


def _thawed(state: Example, outcome: AnyOutcome) -> Judgement:
    exercised: tuple[str, ...] = ()
    if isinstance(outcome, Thawed):
        state = replace(state, consumption=subscriptions.thawed(state.consumption))
    for one in outcome.answers if isinstance(outcome, Thawed) else ():
        sender = state.sessions[one.session]
        log = state.service.confirmed.get(sender.topic, confirmed.EMPTY)
        judged = confirmed.thawed(log, sender.producer, one.entry, one.answer)
        if isinstance(judged, Broken):
            return judged
        logs = state.service.confirmed.set(sender.topic, judged.state)
        state = replace(state, service=replace(state.service, confirmed=logs))
        exercised += judged.exercised
    return Allowed(state, exercised)
