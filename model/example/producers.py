"""The producers of an example: opened, activated after they waited for exclusive access, interrupted during sends,
disconnected, and purged while they were inactive."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from model.deduplication import topic_observer
from model.events import AnyOutcome, Late, Opened
from model.example.state import Example, Judgement
from model.judgement import Allowed, in_turn
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    DeploymentOperation,
    Kill,
    NetworkOperation,
    OpenProducer,
    Restart,
    SetFailpoint,
    Terminate,
    Trim,
    Unload,
)
from model.producer_operations import Activated, ProducersPurged, ProducersRead, PurgeProducers
from model.service import confirmed
from model.sessions import session_of
from model.subscriptions import written

INTERRUPTING: Final = (Terminate, Trim, Unload, Kill, Restart)
"""Operations that are performed while sends are unanswered."""
DISTURBING: Final = (NetworkOperation, DeploymentOperation, SetFailpoint, ClearFailpoints, Terminate)
"""Operations that may disconnect producers, besides those that reload topics."""


def interrupted(state: Example, operation: AnyOperation, late: Iterable[Late]) -> Example:
    """An operation was performed while these sends were unanswered."""
    if not isinstance(operation, INTERRUPTING):
        return state
    for topic in {state.sessions[one.session].topic for one in late}:
        if operation.topic in (None, topic):
            state = state.with_confirmed(topic, confirmed.interrupted)
    return state


def disconnected(state: Example, operation: AnyOperation, *, is_disturbed: bool) -> Example:
    """Any producers may be disconnected after this operation, or only the one that left."""
    if isinstance(operation, CloseProducer | CrashProducer) and operation.session in state.sessions:
        session = state.sessions[operation.session]
        if (view := state.topics.get(session.topic)) is not None:
            state = state.with_topic(session.topic, topic_observer.disconnected(view, session.producer))
    if not is_disturbed and not _disconnects(operation):
        return state
    for topic, view in state.topics.items():
        if (after := topic_observer.disconnected(view)) is not view:
            state = state.with_topic(topic, after)
    return state


def _disconnects(operation: AnyOperation) -> bool:
    if isinstance(operation, OpenProducer):
        return operation.access != "Shared"
    return isinstance(operation, DISTURBING)


def purged(state: Example, operation: PurgeProducers, outcome: AnyOutcome) -> Judgement:
    """The broker looked for inactive producers."""
    view = state.topics.get(operation.topic)
    if not isinstance(outcome, ProducersPurged) or view is None:
        return Allowed(state)
    if state.is_disturbed or state.may_fail_on(operation.topic):
        view = topic_observer.disconnected(view)
    after = topic_observer.purged(view, operation.minutes, outcome.timeout_min)
    return Allowed(state.with_topic(operation.topic, after.state))


def opened(state: Example, operation: OpenProducer, outcome: AnyOutcome) -> Judgement:
    if not isinstance(outcome, Opened):
        return Allowed(state)
    topic = operation.topic
    state = state.with_session(operation.session, session_of(operation, outcome.last_sequence_id))
    consumption = written.reopened(state.consumption, topic, operation.producer)
    state = replace(state, consumption=consumption)
    judged = topic_observer.opened(state.topics[topic], operation.producer, outcome.last_sequence_id)
    return judged.then(lambda after: Allowed(state.with_topic(topic, after)))


def activated(state: Example, topic: str, outcome: AnyOutcome) -> Judgement:
    """Sessions that waited are open now, as the state of SERVE says already."""
    if not isinstance(outcome, ProducersRead):
        return Allowed(state)
    producers = state.service.producers

    def step(one: Activated) -> Callable[[Example], Judgement]:
        asked = OpenProducer(one.session, topic, producers[one.session].name)
        told = Opened(one.last_sequence_id, one.epoch)
        return lambda before: opened(before, asked, told)

    return in_turn(state, [step(one) for one in outcome.activated if one.session in producers])
