from __future__ import annotations

from model.administrator_operations import Concurrent
from model.deviation import Deviation, Shadow
from model.deviations.facts import pasts_since_load
from model.deviations.subscriptions import reset_by
from model.events import CursorRead
from model.example.state import Example, Past
from model.example.step import Step
from model.subscription_operations import ReadCursor
from model.subscriptions.counts import Count
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="reset-miscounts-backlog",
    aliases=("backlog-miscounted",),
    rule="SERVE-04",
    also=("ACK-01",),
    statement="After a seek or reset to an earlier position the backlog is too low: it leaves out messages that were individually acknowledged after that position. They are dispatched again. Reloading the topic corrects the count.",
    cause="ManagedCursorImpl.internalResetCursor changes the counter of consumed entries by all entries between the two mark-delete positions (4.0.8, lines 1491 to 1501). It then drops the ranges, which the counter had counted already. After a reset to a later position, ranges in between are counted twice. apache/pulsar#25047 corrects the ranges after the new position; 4.2.4 and 5.0.0-M1 have it.",
    upstream=("apache/pulsar#25047",),
    side="broker",
    releases=(">=2.5.1,<=4.0.8", "==2.5.0"),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.10.1", "2.6.0", "2.5.1", "2.5.0"),
    shadow=Shadow(name="backlog-of-messages", statement="The backlog counts messages instead of entries."),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """The entries that were acknowledged individually at a reset. On a topic with markers, the acknowledged ones of
    those count, too, so the number is not known. Another request at once may have come before or after the reset."""
    if wrong.of != "backlog":
        return None
    subscription, left, least, most, is_any = wrong.subscription, wrong.shown - wrong.difference, 0, 0, False
    pasts = [*reversed([*pasts_since_load(state, subscription.topic)])]
    for number, past in enumerate(pasts):
        if subscription in reset_by(past):
            beside = [one for one in pasts[max(0, number - 1) : number + 2] if one is not past and _at_once(one, past)]
            beyond = max(_beyond(one, subscription) for one in (past, *beside))
            least, most, is_any = least + (0 if beside else beyond), most + beyond, True
        elif _is_right(past, subscription, most):
            least = most = 0
    if is_any and wrong.state.log(subscription.topic).has_markers:
        return -left, -1
    return (-min(left, most), -min(left, least)) if most and left else None


def _at_once(one: Past, other: Past) -> bool:
    """Whether two requests are those of one step, in one of both orders."""
    return isinstance(one.step.operation, Concurrent) and one.step.at == other.step.at


def _beyond(past: Past, subscription: SubscriptionId) -> int:
    """How many entries were acknowledged individually before a step."""
    cursor = past.before.consumption.cursors.get(subscription)
    return 0 if cursor is None else max(len(one.beyond()) for one in cursor.possible)


def _is_right(past: Past, subscription: SubscriptionId, missing: int) -> bool:
    """Whether a read shows that nothing is missing; otherwise a broker that miscounts would have shown 0 as well."""
    match past.step.operation, past.step.outcome:
        case ReadCursor(topic, name), CursorRead(backlog=backlog) if SubscriptionId(topic, name) == subscription:
            log = past.after.consumption.log(topic)
            left = {one.count_left(log) for one in past.after.consumption.cursors[subscription].possible}
            return left == {backlog} and backlog >= missing
        case _:
            return False
