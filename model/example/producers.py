"""The producers of an example: opened, activated after they waited for exclusive access, interrupted during sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from model.deduplication import topic_observer
from model.events import AnyOutcome, Late, Opened
from model.example.state import Example, Judgement
from model.judgement import Allowed, in_turn
from model.operations import AnyOperation, Kill, OpenProducer, Restart, Terminate, Trim, Unload
from model.producer_operations import Activated, ProducersRead
from model.service import confirmed
from model.sessions import session_of
from model.subscriptions import written

INTERRUPTING: Final = (Terminate, Trim, Unload, Kill, Restart)
"""Operations that are performed while sends are unanswered."""


def interrupted(state: Example, operation: AnyOperation, late: Iterable[Late]) -> Example:
    """An operation was performed while these sends were unanswered."""
    if not isinstance(operation, INTERRUPTING):
        return state
    for topic in {state.sessions[one.session].topic for one in late}:
        if operation.topic in (None, topic):
            state = state.with_confirmed(topic, confirmed.interrupted)
    return state


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
