from __future__ import annotations

from model.cluster_events import Lagging
from model.cluster_operations import CatchUp
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="snapshot-cache-outrun",
    rule="REPL-19",
    statement="While a consumer lags by more snapshots than its subscription caches, the other clusters do not follow it, however long it acknowledges.",
    cause="ReplicatedSubscriptionSnapshotCache.addNewSnapshot drops the oldest snapshots beyond replicatedSubscriptionsSnapshotMaxCachedPerSubscription when the dispatcher reads a new one. A consumer that is so many snapshots behind its dispatcher finds each snapshot dropped when it has acknowledged the messages before it (4.0.8). 3.3.6 has the same code (read).",
    side="broker",
    releases=(">=2.10.5,<=4.0.8",),
    seen=("4.0.8", "3.2.3", "2.10.5", "4.0.1"),
    shadow=Shadow(
        name="cache-keeps-the-latest-only",
        by="seeded defect",
        statement="The snapshot cache keeps the latest snapshot only, so that a consumer that leaves a single message unacknowledged is not followed.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """A consumer lags by more snapshots than its cache has, at one per message."""
    match step.operation, broken.evidence:
        case CatchUp(consumer, lag=lag), Lagging():
            topic = state.replication.topics[state.replication.consumers[consumer].topic]
            return broken.passing() if lag >= topic.made.cached else None
        case _:
            return None
