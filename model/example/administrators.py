"""Judges requests for a whole namespace, and those of two administrators at once (SERVE-11).

A request for a namespace is the same request for everything in it. Of two requests at once, each that the broker
confirms takes effect, and each that it refuses does not, in one of the two orders. An order is possible if each request
may be answered like that after the one before. If both orders are possible, so are the states after both. Two deletions
of one subscription are one, and may both be confirmed.

Each request is judged as a step of its own, so what follows is explained as if they had come one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import structs

from model.administrator_operations import AtOnce
from model.cursors import cursor
from model.events import AnyOutcome, BothAnswered, Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.example.unexpected import judge as judge_unexpected
from model.judgement import Allowed, Broken
from model.operations import AnyOperation
from model.rules.catalogue import carries
from model.subscription_operations import CreateSubscription, DeleteSubscription, SkipAll
from model.subscriptions.administration import WIDELY, reset_failed
from model.vocabulary import RequestScope, SubscriptionId

JudgeStep = Callable[[Example, Step], Judgement]
NO_SUBSCRIPTION: Final = "a request for a subscription that does not exist is confirmed"


def _in_turn(
    state: Example, step: Step, requests: Sequence[tuple[AnyOperation, AnyOutcome]], judge_step: JudgeStep
) -> Judgement:
    """Requests of one step, one after the other. What else the broker did is judged before."""
    judged = judge_unexpected(state, step.operation, step.unexpected)
    for number, (request, outcome) in enumerate(requests):
        late = () if number else step.late
        one = structs.replace(step, operation=request, outcome=outcome, late=late, unexpected=())
        before = requests[number - 1][0] if number else None
        judged = judged.then(partial(_after_the_one_before, step=one, before=before, judge_step=judge_step))
    return judged


def _after_the_one_before(state: Example, step: Step, before: AnyOperation | None, judge_step: JudgeStep) -> Judgement:
    request = step.operation
    if isinstance(before, DeleteSubscription) and isinstance(request, DeleteSubscription):
        return judge_step(state, step)
    subscription = SubscriptionId(request.topic or "", request.subscription or "")
    is_gone = subscription in state.consumption.deleted
    if is_gone and not isinstance(request, CreateSubscription) and not isinstance(step.outcome, Refused):
        return Broken(WIDELY, NO_SUBSCRIPTION, evidence=request).passing_to(state)
    return judge_step(state, step)


def cleared(state: Example, step: Step, judge_step: JudgeStep) -> Judgement:
    """The backlog of each subscription of the topic is cleared."""
    topics = state.consumption.parts_of(step.operation.topic or "")
    scope: RequestScope = getattr(step.operation, "scope", "namespace")
    there = [one for one in state.consumption.cursors if one.topic in topics]
    requests = [(SkipAll(one.topic, one.name, scope), step.outcome) for one in there]
    return _in_turn(state, step, requests, judge_step)


@carries("SERVE-11")
def at_once(state: Example, step: Step, judge_step: JudgeStep) -> Judgement:
    """Two requests have their effect, or are refused."""
    operation, outcome = step.operation, step.outcome
    if not isinstance(operation, AtOnce) or not isinstance(outcome, BothAnswered):
        return Allowed(state)
    both = (operation.first, outcome.first), (operation.second, outcome.second)
    orders = [_in_turn(state, step, order, judge_step) for order in (both, both[::-1])]
    return _either(orders, SubscriptionId(operation.topic, operation.subscription), step)


def _either(orders: Sequence[Judgement], subscription: SubscriptionId, step: Step) -> Judgement:
    possible = [one for one in orders if isinstance(one, Allowed)]
    if possible:
        return _together(possible, subscription, step)
    first, *others = (one for one in orders if isinstance(one, Broken))

    def passed(part: frozenset[object] | None) -> Judgement:
        rest = [one.passing(part) if one.because == first.because else one for one in (first, *others)]
        return _either(rest, subscription, step)

    return replace(first, rule=WIDELY, because=f"of two requests at once, {first.because}", passed=passed)


def _together(possible: Sequence[Allowed[Example]], subscription: SubscriptionId, step: Step) -> Allowed[Example]:
    """One of these states."""
    one, *others = possible
    consumption = one.state.consumption
    cursors = [each.state.consumption.cursors.get(subscription) for each in possible]
    there = [each for each in cursors if each is not None]
    if len(there) < len(cursors) and there:  # nobody knows whether it exists
        consumption = reset_failed(consumption.with_cursor(subscription, there[0]), [subscription])
    elif there:
        after = there[0] if all(each == there[0] for each in there) else cursor.either(there, step.at)
        consumption = consumption.with_cursor(subscription, replace(after, since=after.since | {WIDELY}))
    after_both = replace(one.state, consumption=consumption)
    if one.state.past is not None:  # judged again, its last request leads to the same states
        right = one.state.past.right or one.state.past.after
        after_both = replace(after_both, past=replace(one.state.past, after=after_both, right=right))
    return Allowed(after_both, () if others else (WIDELY,)).after(one)
