from __future__ import annotations

from model.administrator_operations import AtOnce
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import Silence
from model.subscription_operations import DeleteSubscription

ENTRY = Deviation(
    name="second-deletion-not-answered",
    rule="SERVE-01",
    also=("SERVE-11",),
    statement="Two administrators delete one subscription at the same time. One of them is never answered.",
    cause="ManagedLedgerImpl.asyncDeleteCursor logs that the cursor is already being deleted, and returns without a call of its callback (since apache/pulsar#24098). So the future of the second deletion never completes. Read in the byte code of 4.0.8, 4.2.4 and 5.0.1; 3.3.6 has no such branch.",
    upstream=("apache/pulsar#24098",),
    side="broker",
    releases=(">=4.0.8,<=5.0.1",),
    seen=("4.0.8",),
    read=("4.2.4", "5.0.1"),
    occurrence="In 2 of 2 pairs of deletions.",
    shadow=Shadow(
        name="test_only_the_second_of_two_deletions_may_be_unanswered",
        by="small history",
        statement="A deletion beside a skip is not answered.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case AtOnce(DeleteSubscription(), DeleteSubscription()), Silence(interface="admin", request=request):
            return broken.passing() if request.startswith("AtOnce") else None
        case _:
            return None
