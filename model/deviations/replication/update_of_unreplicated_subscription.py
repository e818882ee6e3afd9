from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, MovedByOthers

ENTRY = Deviation(
    name="update-of-unreplicated-subscription",
    aliases=("unreplicated-updated",),
    rule="REPL-18",
    statement="An update also advances a subscription of the same name that is not replicated. Its consumers never receive the messages that it skips.",
    cause="ReplicatedSubscriptionsController.receiveSubscriptionUpdated finds the subscription by its name and acknowledges cumulatively, without a check whether it is replicated here.",
    searched="2026-11-30: `replicated subscription update of a subscription that is not replicated`; nothing similar.",
    side="broker",
    releases=(">=2.10.1,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "4.2.4", "5.0.0-M1", "2.10.1", "5.0.1"),
    shadow=Shadow(
        name="test_an_update_moves_an_unreplicated_subscription_only_up_to_its_position",
        by="small history",
        statement="A subscription that is not replicated is found to be moved beyond the position of every update.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, _is_explained)


def _is_explained(found: Findings, about: object) -> bool:
    """Whether updates of its name may have moved it as far, up to their positions."""
    match about:
        case MovedByOthers(cluster, cursor, messages):
            log = found.logs[cluster]
            return messages <= log.up_to(max(log.updated_to(cursor.subscription), default=None))
        case _:
            return False
