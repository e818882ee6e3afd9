from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, reloads
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, NotPublished

ENTRY = Deviation(
    name="snapshot-cache-not-recovered",
    aliases=("cache-not-refilled",),
    rule="REPL-12",
    statement="A reloaded topic loses its snapshot cache. It does not read the snapshots after an unacknowledged message again, so no update is published when mark-delete passes them.",
    cause="ReplicatedSubscriptionSnapshotCache is in memory. The dispatcher fills it as it reads markers (AbstractBaseDispatcher.filterEntriesForConsumer), which it acknowledges individually. A recovered cursor does not read individually acknowledged entries.",
    upstream=("apache/pulsar#25044",),
    side="broker",
    releases=(">=3.3.6,<=4.0.8", "==4.2.4"),
    seen=("4.0.8", "3.3.6", "4.2.4"),
    gone=("2.11.0",),
    occurrence="On 4.0.8 in 8 of 8 plays, on 3.3.6 in 2 of 3, on 4.2.4 in 1 of 2, on 2.11.0 in 0 of 3.",
    shadow=Shadow(
        name="test_a_reload_loses_only_the_snapshots_that_were_cached_before_it",
        by="small history",
        statement="A snapshot that was cached after the reload, or in another cluster, is found not to be published.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def is_explained(found: Findings, about: object) -> bool:
        """Whether the cluster may have reloaded the topic since the snapshot was complete."""
        match about:
            case NotPublished(_, cluster, index):
                last = next(reloads(state, found.name, cluster), None)
                return last is not None and last.may_follow(found.logs[cluster], index)
            case _:
                return False

    return explaining(ENTRY, broken, is_explained)
