from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import failed_beside
from model.events import CursorReset
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import ResetCursor, Skip, SkipAll

ENTRY = Deviation(
    name="skip-beside-reset-fails",
    rule="SERVE-11",
    statement="A request to skip messages, or to clear a backlog, while the same cursor is being reset fails with an internal error, and has no effect.",
    cause='ManagedCursorImpl.asyncMarkDelete fails with a plain ManagedLedgerException while resetCursorInProgress is set ("Reset cursor in progress - unable to mark delete position"). PersistentTopicsBase maps it to no status of its own, so the broker answers 500. Its log was read on 4.0.8.',
    side="broker",
    releases=(">=4.0.8,<=4.0.8",),
    seen=("4.0.8",),
    occurrence="In 3 of 22 pairs of requests.",
    shadow=Shadow(
        name="test_only_a_skip_beside_a_reset_or_a_deletion_may_fail",
        by="small history",
        statement="A skip fails beside another skip, or a reset fails beside a skip.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match failed_beside(step, broken):
        case Skip() | SkipAll(), ResetCursor(), CursorReset():
            return broken.passing()
        case _:
            return None
