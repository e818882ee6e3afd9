from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import placed_at
from model.events import CursorReset
from model.example.state import Example, Past
from model.example.step import Step
from model.subscription_operations import CreateSubscription
from model.subscriptions.counts import Count
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="beginning-in-deleted-ledger-miscounted",
    rule="SERVE-04",
    statement="If all ledgers of a topic are deleted while an administrator creates a subscription at the latest message, or at a message that is deleted, its backlog has one entry too many until the topic is unloaded. So has that of a subscription that is reset while its mark-delete position is in a deleted ledger.",
    cause="The request creates the cursor, at the last entry of a ledger that trimming then deletes, and resets it. The next valid position is in the new ledger, so ManagedCursorImpl.internalResetCursor moves mark-delete from the deleted ledger to before that one's first entry, and changes the counter of consumed entries by getNumberOfEntries(Range.closedOpen(from, to)). The upper end leaves one out, and the lower end, which would make up for it, is not counted because its ledger is not there (-1). 4.2.4 has no such range any more (apache/pulsar#25047).",
    upstream=("apache/pulsar#25047",),
    side="broker",
    releases=(">=3.0.7,<=4.0.8",),
    seen=("4.0.8",),
    read=("3.0.7", "3.3.6"),
    occurrence="In 21 of 30 replays in lanes on busy cores, in 4 of 20 one after another, in 1 of 80 creations with less load.",
    shadow=Shadow(
        name="test_a_backlog_has_one_entry_too_many_by_a_deviation_where_a_subscription_began_in_a_deleted_ledger",
        by="small history",
        statement="The backlog has two entries too many, or one although the last ledger has room, or the subscription began at the earliest message, or the topic was reloaded.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    placed = placed_at(state, wrong.subscription)
    return (
        (1, 1) if wrong.of == "backlog" and placed is not None and _is_in_deleted(placed, wrong.subscription) else None
    )


def _is_in_deleted(placed: Past, subscription: SubscriptionId) -> bool:
    """Whether an administrator created it, but not at the earliest message, or it was reset, while all ledgers may be
    deleted."""
    after, doing = placed.after.consumption, placed.step.operation
    last = after.log(subscription.topic).last
    if (was := placed.before.consumption.cursors.get(subscription)) is not None:
        return not after.cursors[subscription].begins_after.isdisjoint(one.mark_delete for one in was.possible)
    is_placed = isinstance(placed.step.outcome, CursorReset)
    is_created = isinstance(doing, CreateSubscription) and (doing.start == "latest" or is_placed)
    return is_created and last in {one.mark_delete for one in after.beginnings(subscription.topic)}
