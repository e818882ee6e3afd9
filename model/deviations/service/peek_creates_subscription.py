from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as replace_struct

from model.deviation import Deviation, Shadow
from model.events import CursorRead, Done, MessagePeeked, Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.log import Position
from model.subscription_operations import CreateSubscription, DeleteSubscription, PeekMessage, ReadCursor
from model.subscriptions import starts
from model.subscriptions.administration import newly_created
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="peek-creates-subscription",
    rule="SERVE-04",
    statement="To peek at a message of a subscription that does not exist creates it, at the earliest message. It keeps messages in the backlog that nobody consumes.",
    cause="PersistentTopicsBase.getSubscriptionReference, which only peeks call, creates a subscription that it does not find (2.7.4, lines 3172 to 3178; read in 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1, too). 2.6.0 answers 404, as all releases do for other requests.",
    side="broker",
    releases=(">=2.7.4,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "5.0.1"),
    gone=("2.6.0",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_deleted_subscription_is_there_again_only_by_a_peek",
        by="small history",
        statement="A deleted subscription is in the stats although nobody peeked at it since.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case PeekMessage() as peek:
            judged = broken.passing()
            return judged.then(lambda after: Allowed(_there_again(after, peek, step)))
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """A peek that finds no message, or that is refused, may have created it; or one at the same time as the deletion."""
    match step.operation, step.outcome:
        case DeleteSubscription(topic, subscription), Done() if (at_once := _peek_at_once(state)) is not None:
            is_of_it = (at_once.topic, at_once.subscription) == (topic, subscription)
            if is_of_it and (topic, subscription) in state.consumption.deleted:
                yield _there_again(state, at_once, step)
        case PeekMessage(topic, subscription) as peek, MessagePeeked(None) | Refused():
            if (topic, subscription) in state.consumption.deleted:
                yield _there_again(state, peek, step)
        case _:
            return


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The subscription has messages although nobody peeked at it: it was not deleted."""
    *before, peeked = steps
    read = ReadCursor("t0", "s0"), CursorRead(Position(7, -1), (), backlog=1, unacknowledged=0)
    yield (*before, replace_struct(peeked, operation=read[0], outcome=read[1]))


def _peek_at_once(state: Example) -> PeekMessage | None:
    """The peek of another administrator at the same time as the last request."""
    last = state.past
    other = None if last is None else last.before.past
    if last is None or other is None or other.step.at != last.step.at:
        return None
    return other.step.operation if isinstance(other.step.operation, PeekMessage) else None


def _there_again(state: Example, peek: PeekMessage, step: Step) -> Example:
    """The subscription begins at the earliest message."""
    subscription = SubscriptionId(peek.topic, peek.subscription)
    create = CreateSubscription(peek.topic, peek.subscription, "earliest")
    without = starts.without_deleted(state.consumption, [subscription])
    return replace(state, consumption=newly_created(without, subscription, create, Done(), step.at))
