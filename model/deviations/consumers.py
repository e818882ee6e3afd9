"""What a consumer did since it subscribed, by the steps before: deliveries, acks, and messages that were skipped.

A broker may go on counting messages that it should not. Only consumers of one topic are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from model.events import (
    Acknowledged,
    AnyOutcome,
    CursorRead,
    Delivery,
    DueReceived,
    ReceivedMessages,
    RedeliveryRequested,
    Starved,
)
from model.example.state import Example, Past
from model.example.step import Step
from model.expiry_operations import Skipping
from model.operations import AnyOperation
from model.subscription_operations import AckById, Acknowledge, CutDuring, Nack, Receive
from model.subscriptions.consumers import SHARED, Consumer, Message
from model.subscriptions.counts import Count
from model.subscriptions.state import Consumption, messages_at
from model.subscriptions.tracker import is_gathered


def since_subscribed(state: Example, name: str) -> list[Past]:
    """The steps since a consumer subscribed, the first one first."""
    steps: list[Past] = []
    for past in state.trace:
        if name not in past.before.consumption.consumers:
            break
        steps.append(past)
    return steps[::-1]


def sent(before: Consumption, step: Step, name: str) -> list[Message]:
    """The messages that a step delivered to a consumer."""
    consumer = before.consumers[name]
    found = (before.place_of(consumer, one) for one in deliveries(step.operation, step.outcome, name))
    return [message for message in found if message is not None]


def deliveries(operation: AnyOperation, outcome: AnyOutcome, name: str) -> Iterable[Delivery]:
    """What a step delivered to a consumer."""
    match outcome:
        case ReceivedMessages(messages=messages) | Starved(messages=messages) if isinstance(operation, Receive):
            return messages if operation.consumer == name else ()
        case ReceivedMessages(messages=messages) if isinstance(operation, CutDuring):
            return messages if operation.doing.consumer == name else ()
        case CursorRead(arrived=arrived):
            return [message for one in arrived if one.consumer == name for message in one.messages]
        case DueReceived(consumers=consumers):
            return [message for one in consumers if one.consumer == name for message in one.messages]
        case _:
            return ()


def acknowledged(past: Past, name: str) -> list[Message]:
    """The messages of an individual ack with a receipt, if a step is one of this consumer."""
    match past.step.operation, past.step.outcome:
        case Acknowledge(consumer, cumulative=False) | AckById(consumer, cumulative=False), Acknowledged(
            messages=messages, receipt=True
        ):
            if consumer == name and name in past.before.consumption.consumers:
                before = past.before.consumption
                found = (before.place_of(before.consumers[name], one) for one in messages)
                return [message for message in found if message is not None]
        case _:
            pass
    return []


def requested(past: Past, name: str) -> list[Message] | None:
    """The messages of the entries whose redelivery a consumer requested, if a step is that; all: of any that it has."""
    before = past.before.consumption
    match past.step.operation, past.step.outcome:
        case Nack(consumer, nth=nth), RedeliveryRequested(messages=messages) if consumer == name:
            if nth is None:
                return list(before.consumers[name].unacknowledged)
            places = [before.place_of(before.consumers[name], one) for one in messages]
            return [
                one for at in places if at is not None for one in messages_at(at[0], before.log(at[0]), at[1].position)
            ]
        case _:
            pass
    return None


def is_all_requested(past: Past) -> bool:
    """Whether a redelivery request is of everything."""
    return isinstance(past.step.operation, Nack) and past.step.operation.nth is None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What happened elsewhere to messages of a consumer on Shared or Key_Shared.

    ``skipped``: those that an administrator skipped or expired while they were pending here, and that this consumer has
    not acknowledged since. ``again``: how many it acknowledged after others, or an administrator, had.
    """

    skipped: frozenset[Message] = frozenset()
    again: int = 0

    def of(self, consumer: Consumer) -> frozenset[Message]:
        """The messages that were acknowledged elsewhere, and that the consumer may still acknowledge itself."""
        return consumer.acked_by_others | self.skipped

    def after(self, past: Past, name: str) -> Elsewhere:
        before, after = past.before.consumption.consumers[name], past.after.consumption.consumers.get(name)
        if acked := acknowledged(past, name):
            return self._acknowledging(before, acked)
        if (asked := requested(past, name)) is not None and before.kind in SHARED:
            return Elsewhere() if is_all_requested(past) else self._acknowledging(before, asked)
        if isinstance(past.step.operation, Skipping) and after is not None:
            return replace(self, skipped=self.skipped.union(before.unacknowledged.keys() - after.unacknowledged.keys()))
        return self

    def _acknowledging(self, consumer: Consumer, messages: Sequence[Message]) -> Elsewhere:
        again = self.of(consumer).intersection(messages)
        return Elsewhere(self.skipped - again, self.again + len(again))


def acked_elsewhere(state: Example, name: str) -> Iterator[tuple[Past, Elsewhere]]:
    """Each step since a consumer subscribed, and what had happened elsewhere before it."""
    steps = since_subscribed(state, name)
    return zip(steps, _so_far(steps, name), strict=False)


def elsewhere(state: Example, name: str) -> Elsewhere:
    """The same at last."""
    *_, last = _so_far(since_subscribed(state, name), name)
    return last


def _so_far(steps: Iterable[Past], name: str) -> Iterator[Elsewhere]:
    """What had happened elsewhere before each step, and after all of them."""
    return accumulate(steps, lambda one, past: one.after(past, name), initial=Elsewhere())


@dataclass(frozen=True, slots=True)
class AtLimit:
    """A consumer, and its limit on unacknowledged messages.

    ``is_unblocked``: it requested redelivery while it was blocked, and was sent none since. ``asked_in_flight``: it
    requested redelivery while messages may have been in flight, which may have taken it to its limit. ``has_reached``:
    at its last receipt it had as many messages as allowed, or since then more than half of that.
    """

    is_unblocked: bool = False
    asked_in_flight: bool = False
    has_reached: bool = False

    def stays(self, state: Consumption, consumer: Consumer, skipped: int) -> bool:
        """Whether it has reached its limit and was not below half of that since, so that it is blocked still."""
        return self.has_reached and consumer.most + skipped > state.limit_of(consumer) // 2

    def received(self, before: Consumption, after: Consumption, step: Step, name: str, skipped: int) -> AtLimit:
        """The same after a receipt."""
        is_at_limit = before.is_at_limit(after.consumers[name])
        has_any = isinstance(step.outcome, ReceivedMessages | Starved) and bool(step.outcome.messages)
        return AtLimit(
            is_unblocked=(self.is_unblocked and not has_any) or (self.asked_in_flight and is_at_limit),
            has_reached=self.stays(before, before.consumers[name], skipped) or is_at_limit,
        )


def at_limit(state: Example, name: str) -> AtLimit:
    """A consumer, and its limit, before the present step."""
    so_far = AtLimit()
    for past, others in acked_elsewhere(state, name):
        before, after = past.before.consumption, past.after.consumption
        if is_receipt(past.step, name):
            so_far = so_far.received(before, after, past.step, name, len(others.skipped))
        elif requested(past, name) is not None and name in after.consumers:
            so_far = _asked(so_far, past, name, others)
    return so_far


def is_receipt(step: Step, name: str) -> bool:
    return (
        isinstance(step.operation, Receive)
        and step.operation.consumer == name
        and isinstance(step.outcome, ReceivedMessages | Starved)
    )


def _asked(so_far: AtLimit, past: Past, name: str, others: Elsewhere) -> AtLimit:
    before, after = past.before.consumption, past.after.consumption
    was, consumer = before.consumers[name], after.consumers[name]
    consumer = replace(consumer, requested_twice=was.requested_twice)
    skipped = len(others.after(past, name).skipped)
    was_blocked = before.is_at_limit(consumer) or so_far.stays(before, consumer, skipped)
    is_all = is_all_requested(past) or was.kind not in SHARED
    is_quiet = was.is_settled or is_gathered(before, was)
    return replace(
        so_far,
        is_unblocked=not is_all and was_blocked,
        asked_in_flight=not is_all and not is_quiet and not was_blocked,
    )


def stays_blocked_for(state: Example, step: Step, wrong: Count) -> int:
    """How many messages fewer than its limit block a consumer that starves, because it reached its limit before."""
    name = wrong.consumer
    if wrong.of != "starving":
        return 0
    now, skipped = at_limit(state, name), len(elsewhere(state, name).skipped)
    if is_receipt(step, name):
        now = now.received(state.consumption, wrong.state, step, name, skipped)
    limit = wrong.state.limit_of(wrong.state.consumers[name])
    return limit - (limit // 2 + 1) if now.has_reached else 0
