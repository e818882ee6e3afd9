from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import ThawOwners
from model.service.unexpected import NOT_REGISTERED, STALE_OWNER, Overdue

ENTRY = Deviation(
    name="session-recreated-in-a-loop",
    rule="SERVE-02",
    also=("ACK-06",),
    statement="A broker that lost its session in ZooKeeper takes its next sessions for lost as well. It is not registered again for long, or takes itself for the owner of topics that others have taken over. It unloads none of them, and its full ledgers stay open.",
    cause="When the session expires, the ZooKeeper client creates another one. Requests that fail with SessionExpired for the old session make it discard the new one again. The metadata store receives SessionLost for each, and no SessionReestablished after the last. Then locks are not revalidated, and managed ledgers do not roll over, as the metadata service counts as unavailable.",
    upstream=("apache/pulsar#23015",),
    side="broker",
    seldom=("==4.0.8",),
    seen=("4.0.8",),
    occurrence="About one in ten brokers that were frozen and thawed on a machine with a load of 25 on two cores; two of some fifty with a load of 5.",
    has_history=False,
    shadow=Shadow(
        name="test_a_thawed_broker_must_answer_once_it_is_registered",
        by="small history",
        statement="A thawed broker is registered again, but does not answer, or a broker that was not frozen is not registered.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Overdue("SERVE-02", what) if isinstance(step.operation, ThawOwners):
            return broken.passing() if NOT_REGISTERED in what or STALE_OWNER in what else None
        case _:
            return None
