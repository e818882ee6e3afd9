from __future__ import annotations

from model.cursors.info import PositionInfo, state_of
from model.cursors.log import TopicLog
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import placed_at
from model.events import CursorRead
from model.example.state import Example
from model.example.step import Step
from model.subscription_operations import ReadCursor
from model.subscriptions.counts import Count
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="deleted-ledger-in-backlog",
    rule="SERVE-04",
    statement="If all ledgers of a topic with entries are deleted, a new subscription at the earliest message has the entries of the last of them in its backlog. No consumer receives them, and the backlog stays too large until the topic is unloaded.",
    cause="ManagedLedgerImpl.getFirstPosition returns a position before the first entry of the ledger of lastConfirmedEntry where all its entries are deleted. getFirstPositionAndCounter then subtracts getNumberOfEntries from there, which does not find the deleted ledger, from the counter of the last position (described in apache/pulsar#25813, on 3.0.12).",
    upstream=("apache/pulsar#25813", "apache/pulsar#26094"),
    side="broker",
    releases=(">=3.0.7,<=3.3.6",),
    seen=("3.3.6", "3.0.7"),
    gone=("4.0.8", "4.2.4"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_backlog_has_the_last_deleted_ledger_by_a_deviation_and_nothing_else",
        by="small history",
        statement="The backlog has other entries than those of the last deleted ledger, or has them although a ledger is left or the topic was reloaded.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """The entries of the last deleted ledger, after which the subscription began: all of them, each time."""
    subscription, created = wrong.subscription, placed_at(state, wrong.subscription)
    if wrong.of != "backlog" or created is None or subscription in created.before.consumption.cursors:
        return None
    cursor, log = created.after.consumption.cursors[subscription], wrong.state.log(subscription.topic)
    if created.after.consumption.log(subscription.topic).last not in cursor.begins_after:
        return None
    number = _shown_before(state, subscription) or _entries(step, subscription, wrong, log)
    return (number, number) if number > 0 else None


def _entries(step: Step, subscription: SubscriptionId, wrong: Count, log: TopicLog) -> int:
    if not isinstance(step.outcome, CursorRead):
        return 0
    shown = state_of(PositionInfo(step.outcome.mark_delete, step.outcome.ranges), log)
    return shown.count_left(log) - (wrong.shown - wrong.difference)


def _shown_before(state: Example, subscription: SubscriptionId) -> int:
    """How many were in the backlog when it was read before."""
    for past in state.trace:
        match past.step.operation, past.step.outcome:
            case ReadCursor(topic, name), CursorRead(backlog=backlog) if SubscriptionId(topic, name) == subscription:
                log = past.after.consumption.log(topic)
                left = max(one.count_left(log) for one in past.after.consumption.cursors[subscription].possible)
                if backlog > left:
                    return backlog - left
            case _:
                if subscription not in past.before.consumption.cursors:
                    return 0
    return 0
