from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import reset_by
from model.events import NotPersisted
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import AwaitPersisted
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="acks-after-reset-not-persisted",
    rule="ACK-08",
    statement="After a reset or a seek, individual acks are not persisted until mark-delete advances.",
    cause="ManagedCursorImpl.internalMarkDelete skips a mark-delete position that is before the persisted one (2.10.1, line 1885). A reset persists the read position (`reset-persists-read-position`), so the mark-delete position before it is always skipped, together with the acked ranges after it. 2.10.0 skips nothing; 2.10.3 persists the right position.",
    upstream=("apache/pulsar#18237",),
    side="broker",
    releases=(">=2.10.1,<2.10.3",),
    seen=("2.10.1", "2.10.2"),
    occurrence="In 2 of 2 replays on each; of 18 steps in 2 of 2 on 2.10.2.",
    shadow=Shadow(
        name="test_acks_after_a_reset_may_not_be_persisted_only_until_mark_delete_advances",
        by="small history",
        statement="The cursor is not persisted after mark-delete advanced, or without a reset.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case AwaitPersisted(topic, subscription), NotPersisted():
            return broken.passing() if _is_where_reset(state, SubscriptionId(topic, subscription)) else None
        case _:
            return None


def _is_where_reset(state: Example, subscription: SubscriptionId) -> bool:
    """Whether mark-delete is where a reset or a seek put it, since when only later entries were acknowledged."""
    now = state.consumption.cursors[subscription]
    for past in state.trace:
        if subscription in reset_by(past):
            placed = past.after.consumption.cursors[subscription]
            is_there = {one.mark_delete for one in now.possible} == {one.mark_delete for one in placed.possible}
            return is_there and now.past[0] == placed.past[0]
    return False
