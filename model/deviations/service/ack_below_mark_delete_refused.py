from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import AckById, Acknowledge, CutDuring

ENTRY = Deviation(
    name="ack-below-mark-delete-refused",
    rule="SERVE-01",
    statement="A cumulative ack at or below mark-delete is refused with an internal error (MarkDeletingMarkedPosition). It has no effect, as it should.",
    cause="ManagedCursorImpl.setAcknowledgedPosition throws MarkDeletingMarkedPosition, with the error's own text: Mark deleting an already mark-deleted position. Earlier releases confirm such an ack.",
    side="broker",
    releases=(">=5.0.0-M1,<=5.0.1",),
    seen=("5.0.0-M1", "5.0.1"),
    gone=("4.2.4", "4.0.8"),
    occurrence="In 5 of 5 replays.",
    shadow=Shadow(
        name="test_only_a_cumulative_ack_below_mark_delete_is_refused_by_a_deviation",
        by="small history",
        statement="An individual ack is refused so, or a cumulative ack with another internal error.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    doing = step.operation.doing if isinstance(step.operation, CutDuring) else step.operation
    match broken.evidence, doing:
        case Refused(message=message), Acknowledge(cumulative=True) | AckById(cumulative=True):
            return broken.passing() if "MarkDeletingMarkedPosition" in message else None
        case _:
            return None
