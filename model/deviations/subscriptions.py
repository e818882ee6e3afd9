"""How a step on a subscription may have ended otherwise, and what happened to a subscription before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from model.cursors.acked import Acked
from model.cursors.cursor import Cursor
from model.cursors.log import TopicLog
from model.cursors.row import Row
from model.deviations.facts import is_reloaded_by
from model.events import CursorReset, Done
from model.example.judge import judge
from model.example.state import Example, Past
from model.example.step import Step
from model.judgement import Allowed
from model.log import Position
from model.subscription_operations import CreateSubscription, Skip
from model.subscriptions import administration
from model.vocabulary import SubscriptionId


def with_cursor(state: Example, subscription: SubscriptionId, cursor: Cursor) -> Example:
    return replace(state, consumption=state.consumption.with_cursor(subscription, cursor))


def before(state: Example) -> Example:
    """The state before the step that led here."""
    return state if state.past is None else state.past.before


def judged_as(state: Example, step: Step) -> Iterator[Example]:
    """The state after the last step, if it was this one instead."""
    judged = judge(before(state), step.operation, step.outcome, step.late, step.at, step.unexpected)
    if isinstance(judged, Allowed):
        yield judged.state


def skipped_of(state: Example, step: Step) -> tuple[SubscriptionId, int] | None:
    """The subscription, and how many entries of it a step skipped."""
    match step.operation, step.outcome:
        case Skip(topic, subscription, count), Done():
            one = SubscriptionId(topic, subscription)
            return (one, count) if one in before(state).consumption.cursors else None
        case _:
            return None


def skipping(state: Example, step: Step, counts: Iterable[int]) -> Iterator[Example]:
    """The states after the last step, which was a skip, if it skipped so many entries instead."""
    if not isinstance(step.operation, Skip):
        return
    for count in dict.fromkeys(count for count in counts if count != step.operation.count):
        skip = msgspec.structs.replace(step.operation, count=count)
        yield from judged_as(state, msgspec.structs.replace(step, operation=skip))


def entries_up_to(state: Acked, log: TopicLog, last: Position) -> int:
    """How many unacknowledged entries there are up to a position."""
    return sum(1 for position in state.unacknowledged(log) if position <= last)


def reset_by(state: Example, step: Step) -> tuple[SubscriptionId, ...]:
    """The subscriptions that the last step reset."""
    if not isinstance(step.outcome, CursorReset):
        return ()
    return administration.reset_by(before(state).consumption, step.operation)


def placed_by(state: Example, step: Step) -> tuple[SubscriptionId, ...]:
    """Those, and one that it created at a message: a broker creates it and then resets it."""
    match step.operation, step.outcome:
        case CreateSubscription(topic, name), CursorReset() if (topic, name) in state.consumption.cursors:
            return (SubscriptionId(topic, name),)
        case _:
            return reset_by(state, step)


def persisting(state: Example, subscription: SubscriptionId, states: frozenset[Acked]) -> Iterator[Example]:
    """The same if other states of a subscription were persisted when it was placed."""
    cursor = state.consumption.cursors[subscription]
    if states != cursor.past[0].states:
        placed = replace(cursor.past[0], states=states)
        yield with_cursor(state, subscription, replace(cursor, past=Row.of(placed)))


def since_reloaded(state: Example, topic: str) -> list[Past]:
    """The steps since a topic was loaded, the first one first."""
    steps: list[Past] = []
    for past in state.trace:
        if is_reloaded_by(past, topic):
            break
        steps.append(past)
    return steps[::-1]


def created_at(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step that created a subscription."""
    is_new = (past for past in state.trace if subscription not in past.before.consumption.cursors)
    return next((past for past in is_new if subscription in past.after.consumption.cursors), None)


def placed_at(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step since its topic was loaded that created a subscription, or reset it last."""
    for past in reversed(since_reloaded(state, subscription.topic)):
        is_new = subscription not in past.before.consumption.cursors
        is_placed = is_new or subscription in reset_by(replace(past.after, past=past), past.step)
        if is_placed and subscription in past.after.consumption.cursors:
            return past
    return None
