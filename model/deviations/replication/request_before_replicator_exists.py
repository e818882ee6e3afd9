from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import covered_too_early, explaining, may_be_at_load, passed_by_snapshots
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import BegunDisconnected, Findings, WithoutPosition
from model.replication.rounds import Complete

ENTRY = Deviation(
    name="request-before-replicator-exists",
    aliases=("replicator-not-asked",),
    rule="REPL-09",
    also=("REPL-03", "REPL-14"),
    statement="Among three clusters, a snapshot that starts while its topic is loading omits a cluster whose replicator does not exist yet. With one other cluster left there is no second round, so the snapshot may cover messages of the omitted cluster that are in the other one, but not here: a consumer that fails over never receives them. With none left it starts although the link is cut.",
    cause="ReplicatedSubscriptionsController.startNewSnapshot asks the clusters that topic.getReplicators() has at that moment (read in 4.0.8, and in the bytecode of 2.11.0), and replicators are added while the topic loads.",
    side="broker",
    releases=("==2.11.0",),
    seen=("2.11.0",),
    gone=("4.0.8",),
    occurrence="On 2.11.0 in 4 of 6 plays (REPL-03 in 2 of 3), on 4.0.8 in 0 of 6. REPL-14 once in 3 replays.",
    shadow=Shadow(
        name="test_a_snapshot_omits_a_cluster_only_if_it_begins_during_the_load",
        by="small history",
        statement="A snapshot that begins before or after the load is found to omit a cluster.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def is_explained(found: Findings, about: object) -> bool:
        match about:
            case BegunDisconnected(cluster, index):
                return may_be_at_load(state, found.name, found.logs[cluster], index)
            case WithoutPosition(snapshot):
                return begins_at_load(found, snapshot)
            case _:
                return False

    def begins_at_load(found: Findings, one: Complete) -> bool:
        return may_be_at_load(state, found.name, one.log, one.seen.requests[0])

    def missed(found: Findings, _: str, subscription: str) -> frozenset[str]:
        def covered(one: Complete) -> frozenset[str]:
            omits = found.topic.remotes_of(one.cluster) - set(one.taken.positions)
            return covered_too_early(found.logs, one) if omits and begins_at_load(found, one) else frozenset()

        return passed_by_snapshots(found.logs, subscription, covered)

    return explaining(ENTRY, broken, is_explained, missed=missed)
