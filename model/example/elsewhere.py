"""Producers at another cluster than the home of their topic, in one example."""

from __future__ import annotations

from dataclasses import replace

from model.cluster_operations import HOME
from model.deduplication import topic_observer
from model.events import AnyOutcome, LogRead, Opened, Sent, SnapshotRead
from model.example import remote
from model.example.state import Example, Judgement
from model.judgement import Allowed, Broken
from model.operations import (
    AnyOperation,
    OpenProducer,
    ReadLog,
    Send,
)
from model.sessions import session_of
from model.subscriptions import written


def concerns(state: Example, operation: AnyOperation) -> bool:
    """Whether an operation is about such a producer."""
    if isinstance(operation, OpenProducer):
        return operation.cluster is not None and operation.topic in state.topics
    session = state.sessions.get(operation.actor or "")
    return session is not None and session.cluster is not None and session.topic in state.topics


def judge(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> Judgement:
    """A producer opens, sends or leaves."""
    match operation, outcome:
        case OpenProducer(session), Opened():
            return Allowed(state.with_session(session, session_of(operation)))
        case Send(session, entries), Sent(answers):
            topic, producer = state.sessions[session].topic, state.sessions[session].producer
            published = state.remote_of(topic).sent(producer, entries, answers)
            consumption = written.unsure(state.consumption, topic)
            return Allowed(replace(state.with_remote(topic, published), consumption=consumption))
        case _:
            return Allowed(state)


def arrived(state: Example, topic: str, read: LogRead) -> Judgement:
    """Home was read back after everything was replicated to it."""
    before, view = state.remote_of(topic), state.topics[topic]
    view = topic_observer.replicated(view, before.producers, len(before.new(read)))
    judged = remote.arrived(before, read, is_deduplicated=state.topics[topic].enabled)
    return judged.then(lambda after: Allowed(state.with_remote(topic, after).with_topic(topic, view)))


def snapshot_read(state: Example, topic: str, read: SnapshotRead) -> Allowed[None] | Broken:
    """A deduplication snapshot at home."""
    return remote.snapshot_read(state.remote_of(topic), read, is_crowded=state.topics[topic].is_crowded)


def read_at_home(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> Example:
    """Home's log was read."""
    if isinstance(operation, ReadLog) and operation.cluster in (None, HOME) and isinstance(outcome, LogRead):
        view = state.topics.get(operation.topic)
        if view is not None and view.has_markers:
            return state.with_remote(operation.topic, state.remote_of(operation.topic).read_at_home(outcome))
    return state
