"""What a broker does besides the outcome of an operation, with all of the example that may be a reason for it."""

from __future__ import annotations

from dataclasses import replace

from model.example.state import Example, Judgement
from model.excuses.service import TERMINATION_RACES_WITH_ROLLOVER
from model.failpoints import CUTS, WRITE_FAILURES
from model.judgement import Allowed
from model.operations import AnyOperation, OpenProducer, ReadLog, Terminate, ThawOwners, Unload
from model.service import tracker as service
from model.service.reasons import Reasons
from model.service.state import ServiceState
from model.service.unexpected import Closed, Unexpected
from model.subscription_operations import ResetCursor, Seek, Subscribe
from model.subscriptions import administration, written


def failed_again(state: Example, observed: tuple[Unexpected, ...]) -> frozenset[str]:
    """The topics whose writes may fail, and where the broker closed a producer, after it had answered others."""
    closed = frozenset(one.topic for one in observed if isinstance(one, Closed) and one.topic is not None)
    return closed & state.lingering


def judge(state: Example, operation: AnyOperation, observed: tuple[Unexpected, ...]) -> Judgement:
    fenced = state.fenced
    if isinstance(operation, OpenProducer | Subscribe | ReadLog | Unload):  # the broker loads the topic again
        state = replace(state, fenced=fenced - {operation.topic})
    if not observed:
        return Allowed(state)
    short = {topic for topic in state.topics if state.service.may_fail(topic)}
    ending = {topic for topic, tracked in state.consumption.topics.items() if tracked.is_terminated}
    if isinstance(operation, Terminate):
        ending.add(operation.topic)
    tracked = state.consumption.topics
    reopened = frozenset(topic for topic, one in tracked.items() if one.is_reopened)
    full = frozenset(topic for topic, one in tracked.items() if one.log.ends_full or not one.is_sure)
    rolling = frozenset(ending - reopened & full) | fenced
    lost_a_bookie = frozenset(topic for topic, log in state.service.confirmed.items() if log.losses and log.stored)
    to_reset = administration.reset_by(state.consumption, operation)
    being_reset = {name for subscription in to_reset for name, _ in state.consumption.consumers_of(subscription)}
    if isinstance(operation, Seek | ResetCursor):  # of consumers that are not tracked, their subscription is not known
        closed = {one.actor for one in observed if isinstance(one, Closed)}
        being_reset |= closed.difference(state.consumption.consumers, state.sessions)
    reasons = Reasons(
        failing=state.lingering | state.topics_with(WRITE_FAILURES) | short,
        ending=frozenset(ending) | fenced,
        severed=state.severed | state.topics_with(CUTS),
        cut=frozenset(name for name, session in state.sessions.items() if session.was_cut),
        reopened=reopened,
        empty=frozenset(topic for topic, one in tracked.items() if not one.log.ledgers),
        deleted=frozenset(topic for topic, one in tracked.items() if one.is_all_deleted),
        full=full,
        rolling=rolling,
        unsaved=state.topics_with(frozenset({"snapshot-write-fails"})),
        is_disturbed=state.is_disturbed,
        is_thawed=isinstance(operation, ThawOwners),
        has_orphans=any(topic.orphaned for topic in state.replication.topics.values()),
        may_resend=any(topic.may_resend for topic in state.replication.topics.values())
        or any(one.may_resend and state.topics[topic].enabled for topic, one in state.remote.items()),
        dropped=frozenset(topic for topic, one in state.remote.items() if one.droppable),
        are_sessions_expired=state.service.are_sessions_expired,
        read_after_loss=lost_a_bookie if isinstance(operation, ReadLog) else frozenset(),
        being_reset=frozenset(being_reset),
        returns=isinstance(operation, OpenProducer) and state.service.is_cut_off(operation),
        known=state.known,
    )
    judged = service.unexpected(state.service, observed, reasons)
    races = isinstance(judged, Allowed) and TERMINATION_RACES_WITH_ROLLOVER in judged.deviations

    def after(changed: ServiceState) -> Judgement:
        state_after = replace(state, service=changed)
        gone = {one.actor for one in observed if isinstance(one, Closed)}
        if not reasons.being_reset.isdisjoint(gone):  # a reset that succeeds does not report them
            consumption = administration.reset_failed(state.consumption, to_reset)
            state_after = replace(state_after, consumption=consumption)
        if races:  # the broker reloads the topic by itself
            for topic in rolling:
                state_after = replace(state_after, consumption=written.lost(state_after.consumption, topic))
            if isinstance(operation, Terminate):
                state_after = replace(state_after, fenced=state.fenced | {operation.topic})
        return Allowed(state_after)

    return judged.then(after)
