from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import failed_beside
from model.events import Done
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import DeleteSubscription, PeekMessage, Skip, SkipAll

ENTRY = Deviation(
    name="request-beside-deletion-fails",
    rule="SERVE-11",
    statement="A request to skip messages, to clear a backlog or to peek while the subscription is being deleted fails with an internal error, instead of saying that there is no such subscription.",
    cause='Until its cursor is deleted, the topic still has the subscription, whose cursor is closed already. ManagedCursorImpl fails with CursorAlreadyClosedException ("Cursor was already closed"). PersistentTopicsBase maps it to no status of its own, so the broker answers 500. Its log was read on 4.0.8.',
    side="broker",
    releases=(">=4.0.8,<=4.0.8", "==5.0.1"),
    seen=("5.0.1", "4.0.8"),
    occurrence="In 4 of 14 pairs of requests on 4.0.8, in 2 of 2 on 5.0.1.",
    shadow=Shadow(
        name="test_only_a_skip_beside_a_reset_or_a_deletion_may_fail",
        by="small history",
        statement="A skip fails beside a deletion that is refused.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match failed_beside(step, broken):
        case Skip() | SkipAll() | PeekMessage(), DeleteSubscription(), Done():
            return broken.passing()
        case _:
            return None
