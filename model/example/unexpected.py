"""What a broker does besides the outcome of an operation, with all of the example that may be a reason for it."""

from __future__ import annotations

from dataclasses import replace

from model.deviations.service import TERMINATION_RACES_WITH_ROLLOVER
from model.example.state import Example, Judgement
from model.failpoints import CUTS, WRITE_FAILURES
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, OpenProducer, ReadLog, Terminate, ThawOwners, Unload
from model.service import tracker as service
from model.service.reasons import Reasons
from model.service.unexpected import Unexpected
from model.subscription_operations import Subscribe
from model.subscriptions import written


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
    reasons = Reasons(
        failing=state.lingering | state.topics_with(WRITE_FAILURES) | short,
        ending=frozenset(ending) | fenced,
        severed=state.severed | state.topics_with(CUTS),
        cut=frozenset(name for name, session in state.sessions.items() if session.was_cut),
        reopened=reopened,
        empty=frozenset(topic for topic, one in tracked.items() if not one.log.ledgers),
        deleted=frozenset(topic for topic, one in tracked.items() if one.is_all_deleted),
        joined=frozenset(
            subscription.topic
            for subscription, keyed in state.consumption.keyed.items()
            if keyed.joined and subscription.topic in tracked and not tracked[subscription.topic].drains
        ),
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
        returns=isinstance(operation, OpenProducer) and state.service.is_cut_off(operation),
        known=state.known,
    )
    judged = service.unexpected(state.service, observed, reasons)
    if isinstance(judged, Broken):
        return judged
    state = replace(state, service=judged.state)
    if TERMINATION_RACES_WITH_ROLLOVER in judged.deviations:  # the broker reloads the topic by itself
        for topic in rolling:
            state = replace(state, consumption=written.lost(state.consumption, topic))
        if isinstance(operation, Terminate):
            state = replace(state, fenced=state.fenced | {operation.topic})
    return judged.of(state)
