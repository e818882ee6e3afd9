"""What a broker does besides the outcome of an operation, with all of the example that may be a reason for it."""

from __future__ import annotations

from dataclasses import replace

from model.administrator_operations import requests_of
from model.example.state import Example, Judgement
from model.failpoints import CUTS, WRITE_FAILURES
from model.judgement import Allowed
from model.operations import AnyOperation, OpenProducer, ReadLog, Terminate
from model.service import policies
from model.service import tracker as service
from model.service.reasons import Reasons
from model.service.state import ServiceState
from model.service.unexpected import Closed, Unexpected
from model.subscription_operations import CutConnection, DeleteSubscription, ResetCursor, Seek, Unsubscribe
from model.subscriptions import administration


def failed_again(state: Example, observed: tuple[Unexpected, ...]) -> frozenset[str]:
    """The topics whose writes may fail, and where the broker closed a producer, after it had answered others."""
    closed = frozenset(one.topic for one in observed if isinstance(one, Closed) and one.topic is not None)
    return closed & state.lingering


def _fenced(state: Example, operation: AnyOperation) -> frozenset[str]:
    """The sessions that producers with exclusive access fenced, by this operation as well."""
    contentions = state.service.contentions
    fenced = frozenset(session for one in contentions.values() for session in one.fenced)
    unknown = {topic for topic, one in contentions.items() if not one.is_known}
    fenced |= {session for session, one in state.service.producers.items() if one.topic in unknown}
    if not isinstance(operation, OpenProducer) or operation.access != "ExclusiveWithFencing":
        return fenced
    if state.service.contention(operation.topic).is_stale(operation):
        return fenced
    return fenced | {one.session for one in state.service.holders(operation.topic, but=operation.session)}


def judge(state: Example, operation: AnyOperation, observed: tuple[Unexpected, ...]) -> Judgement:
    if not observed:
        return Allowed(state)
    tracked = state.consumption.topics
    short = {topic for topic in state.topics if state.service.may_fail(topic)}
    ending = {topic for topic, one in tracked.items() if one.is_terminated}
    if isinstance(operation, Terminate):
        ending.add(operation.topic)
    logs = state.service.confirmed.items() if isinstance(operation, ReadLog) else ()
    read_after_loss = {
        topic: next(iter(log.losses_of_bookies.items())) for topic, log in logs if log.losses_of_bookies and log.stored
    }
    to_reset = administration.reset_by(state.consumption, operation)
    being_reset = {name for subscription in to_reset for name, _ in state.consumption.consumers_of(subscription)}
    if any(
        isinstance(one, Seek | ResetCursor | DeleteSubscription | Unsubscribe) for one in requests_of(operation)
    ):  # of consumers that are not tracked, their subscription is not known
        closed = {one.actor for one in observed if isinstance(one, Closed)}
        being_reset |= closed.difference(state.consumption.consumers, state.sessions)
    reasons = Reasons(
        failing=state.lingering | state.topics_with(WRITE_FAILURES) | short,
        ending=frozenset(name for name, session in state.sessions.items() if session.topic in ending),
        severed=state.severed | state.topics_with(CUTS),
        cut=frozenset(name for name, session in state.sessions.items() if session.was_cut),
        unsaved=state.topics_with(frozenset({"snapshot-write-fails"})),
        is_disturbed=state.is_disturbed,
        over_quota=policies.over_quota(state.service, state.consumption, operation),
        fenced=_fenced(state, operation),
        read_after_loss=read_after_loss,
        being_reset=frozenset(being_reset),
        may_be_replaced=isinstance(operation, CutConnection)
        and operation.consumer in state.consumption.untracked_consumers,
    )

    def after(changed: ServiceState) -> Judgement:
        gone = {one.actor for one in observed if isinstance(one, Closed)}
        consumption = state.consumption
        if not reasons.being_reset.isdisjoint(gone):  # a reset that succeeds does not report them
            consumption = administration.reset_failed(consumption, to_reset)
        return Allowed(replace(state, service=changed, consumption=consumption))

    return service.unexpected(state.service, observed, reasons).then(after)
