"""How a step on a subscription may have ended otherwise, and what happened to a subscription before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from model.cursors.acked import Acked
from model.cursors.cursor import Cursor
from model.cursors.log import TopicLog
from model.cursors.row import Row
from model.deviations.facts import is_reloaded_by, is_reopened, pasts_since_load
from model.events import CursorReset, Done, Thawed
from model.example.judge import judge_step
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import FreezeOwner, Kill, TakeOver
from model.subscription_operations import CreateSubscription, Skip
from model.subscriptions import administration
from model.subscriptions.counts import Peeked
from model.vocabulary import SubscriptionId


def with_cursor(state: Example, subscription: SubscriptionId, cursor: Cursor) -> Example:
    return replace(state, consumption=state.consumption.with_cursor(subscription, cursor))


def before(state: Example) -> Example:
    """The state before the step that led here."""
    return state if state.past is None else state.past.before


def judged_as(state: Example, step: Step) -> Iterator[Example]:
    """The state after the last step, if it was this one instead."""
    return judged_from(before(state), step)


def judged_from(former: Example, *steps: Step) -> Iterator[Example]:
    """The state after these steps, if this was the one before them."""
    state = former
    for step in steps:
        judged = judge_step(state, step)
        if not isinstance(judged, Allowed):
            return
        state = judged.state
    yield state


def skipping(state: Example, step: Step, counts: Callable[[Acked, TopicLog, int], Iterable[int]]) -> Iterator[Example]:
    """The states after the last step, if it was a skip and skipped another number of entries.

    ``counts``: how many, from a possible state of the subscription, by the number that was asked for.
    """
    match step.operation, step.outcome:
        case Skip(topic, name, asked), Done():
            then = before(state).consumption
            cursor = then.cursors.get(SubscriptionId(topic, name))
            possible = () if cursor is None else cursor.possible
            found = {count for one in possible for count in counts(one, then.log(topic), asked)}
            for count in sorted(found - {asked}):
                skip = msgspec.structs.replace(step.operation, count=count)
                yield from judged_as(state, msgspec.structs.replace(step, operation=skip))
        case _:
            pass


NthEntries = Callable[[Acked, TopicLog, int], Sequence[Position]]
"""Which entries a broker may take for the nth unacknowledged one."""


def skipping_up_to(state: Example, step: Step, nth: NthEntries) -> Iterator[Example]:
    """The same if the skip ended with what the broker takes for the nth entry. Not on a reopened topic."""
    if is_reopened(state, step.operation.topic):
        return iter(())
    return skipping(
        state,
        step,
        lambda one, log, asked: [
            sum(1 for position in one.unacknowledged(log) if position <= last) for last in nth(one, log, asked)
        ],
    )


def skipping_on_reopened(
    state: Example, step: Step, ended: Callable[[Acked, TopicLog, int], Acked]
) -> Iterator[Example]:
    """The same on a topic that was terminated and reloaded, if the skip led to this state instead."""
    if not is_reopened(state, step.operation.topic):
        return iter(())
    return skipping(state, step, lambda one, log, asked: [one.count_left(log) - ended(one, log, asked).count_left(log)])


def peeked(broken: Broken, nth: NthEntries) -> Judgement | None:
    """What is left of a violation if a peek returned what the broker takes for the nth entry."""
    match broken.evidence:
        case Peeked(possible, log, number, position) if any(position in nth(one, log, number) for one in possible):
            return broken.passing()
        case _:
            return None


def reloaded_by(past: Past | None) -> Iterator[SubscriptionId]:
    """The subscriptions that a step reloaded."""
    for one in () if past is None else sorted(past.before.consumption.cursors):
        if past is not None and is_reloaded_by(past, one.topic) and one in past.after.consumption.cursors:
            yield one


def is_graceful(step: Step) -> bool:
    """Whether a reload closes the cursors."""
    match step.operation:
        case Kill() | FreezeOwner():
            return False
        case TakeOver(how=how):
            return how != "kill"
        case _:
            return True


def recovered(cursor: Cursor, states: frozenset[Acked]) -> Cursor:
    """A cursor right after a reload, if other states of it were persisted."""
    return replace(cursor, possible=states, past=Row.of(replace(cursor.past[0], states=states)))


def recovering(state: Example, subscription: SubscriptionId, states: Iterable[Acked]) -> Iterator[Example]:
    """The state after a reload, if one of these states of a subscription was persisted, none of which is right."""
    cursor = state.consumption.cursors[subscription]
    if others := frozenset(states) - cursor.possible:
        yield with_cursor(state, subscription, recovered(cursor, others))


def continued_since_load(state: Example, topic: str) -> Past | None:
    """The step in which a frozen former owner of a topic continued, since the present one loaded it."""
    steps = pasts_since_load(state, topic)
    return next((past for past in steps if isinstance(past.step.outcome, Thawed)), None)


def reset_by(past: Past | None) -> tuple[SubscriptionId, ...]:
    """The subscriptions that a step reset."""
    if past is None or not isinstance(past.step.outcome, CursorReset):
        return ()
    return administration.reset_by(past.before.consumption, past.step.operation)


def placed_by(past: Past | None) -> tuple[SubscriptionId, ...]:
    """Those, and one that it created at a message: a broker creates it and then resets it."""
    match past:
        case Past(step=Step(operation=CreateSubscription(topic, name), outcome=CursorReset()), after=after) if (
            topic,
            name,
        ) in after.consumption.cursors:
            return (SubscriptionId(topic, name),)
        case _:
            return reset_by(past)


def persisting(state: Example, subscription: SubscriptionId, states: frozenset[Acked]) -> Iterator[Example]:
    """The same if other states of a subscription were persisted when it was placed."""
    cursor = state.consumption.cursors[subscription]
    if states != cursor.past[0].states:
        placed = replace(cursor.past[0], states=states)
        yield with_cursor(state, subscription, replace(cursor, past=Row.of(placed)))


def created_at(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step that created a subscription."""
    is_new = (past for past in state.trace if subscription not in past.before.consumption.cursors)
    return next((past for past in is_new if subscription in past.after.consumption.cursors), None)


def placed_at(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step since its topic was loaded that created a subscription, or reset it last."""
    for past in pasts_since_load(state, subscription.topic):
        is_placed = subscription not in past.before.consumption.cursors or subscription in reset_by(past)
        if is_placed and subscription in past.after.consumption.cursors:
            return past
    return None
