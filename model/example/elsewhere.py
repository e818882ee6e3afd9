"""Producers at another cluster than the home of their topic, in one example."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from model.cluster_events import LinkCut, LinkHealed
from model.cluster_operations import AWAY, HOME, CutLink, HealLink
from model.deduplication import topic_observer
from model.events import AnyOutcome, LogRead, Opened, Sent, SnapshotRead, TakenOver
from model.example import remote
from model.example.remote import Remote
from model.example.state import Example, Judgement
from model.judgement import Allowed, Broken
from model.operations import (
    AnyOperation,
    FreezeOwner,
    Kill,
    OpenProducer,
    ReadLog,
    Restart,
    Send,
    TakeOver,
    Unload,
)
from model.sessions import session_of
from model.subscription_operations import ReceiveAll
from model.subscriptions import written
from model.vocabulary import Entry


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
    judged = remote.arrived(before, read, is_deduplicated=view.enabled)
    if isinstance(judged, Broken):
        return judged
    view = topic_observer.replicated(view, before.producers, len(before.new(read)))
    return judged.of(state.with_remote(topic, judged.state).with_topic(topic, view))


def snapshot_read(state: Example, topic: str, read: SnapshotRead) -> Allowed[None] | Broken:
    """A deduplication snapshot at home."""
    return remote.snapshot_read(state.remote_of(topic), read, is_crowded=state.topics[topic].is_crowded)


def home_changed(state: Example, operation: AnyOperation, outcome: AnyOutcome) -> Example:
    """A link from home was cut or healed, or home loaded topics again, or its log was read.

    A read of the other cluster heals the link before.
    """
    if isinstance(operation, ReadLog) and operation.cluster in (None, HOME) and isinstance(outcome, LogRead):
        view = state.topics.get(operation.topic)
        if view is not None and view.has_markers:
            read = state.remote_of(operation.topic).read_at_home(outcome)
            state = state.with_remote(operation.topic, read)
    match operation, outcome:
        case CutLink(source, target), LinkCut() if (source, target) == (HOME, AWAY):
            return _of_each(state, state.remote, Remote.cut)
        case HealLink(source, target), LinkHealed() if (source, target) == (HOME, AWAY):
            return _of_each(state, state.remote, Remote.healed)
        case ((ReadLog(cluster=str()) | ReceiveAll(cluster=str())), _):
            return _of_each(state, state.remote, Remote.healed)
        case Unload(topic, cluster=None), _:
            return _of_each(state, {topic}, Remote.reloaded_at_home)
        case ((Restart(cluster=None) | Kill(cluster=None)), _):
            return _of_each(state, state.remote, Remote.reloaded_at_home)
        case ((TakeOver() | FreezeOwner()), TakenOver(topics)):
            return _of_each(state, topics, Remote.reloaded_at_home)
        case _:
            return state


def _of_each(state: Example, topics: Collection[str], change: Callable[[Remote], Remote]) -> Example:
    changed = {topic: change(one) if topic in topics else one for topic, one in state.remote.items()}
    return replace(state, remote=changed)


def split_at_home(state: Example, topic: str, entries: Sequence[Entry]) -> Example:
    """At home pulsar-client split a message."""
    return state.with_remote(topic, state.remote_of(topic).split_at_home(entries))
