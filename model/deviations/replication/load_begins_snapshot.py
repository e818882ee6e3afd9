from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining, reloads
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import BegunWithoutNews, Findings
from model.replication.snapshot_starts import are_often

ENTRY = Deviation(
    name="load-begins-snapshot",
    rule="REPL-02",
    statement="After a topic is loaded, its cluster begins snapshots until one is complete, although nothing was published since the last one before.",
    cause="ReplicatedSubscriptionsController.startNewSnapshot compares the time of the last message with the time when the last complete snapshot began. After a load, both are 0. From 2.10.3 and 3.0.0 on, it begins none while the first is 0 (read in the bytecode of 2.8.2 to 5.0.0-M1).",
    side="broker",
    releases=(">=2.8.2,<=2.10.2", "==2.11.0"),
    seen=("2.11.0",),
    read=("2.10.2",),
    gone=("4.0.8",),
    occurrence="On 2.11.0 once in a check (`docs/histories/REPL-02-on-2.11.0.json`), and in 1 of 9 replays of two reloads in a row: mostly the last message was stored so late that it explains the snapshot, too.",
    has_history=False,
    shadow=Shadow(
        name="test_a_snapshot_without_a_new_message_is_a_deviation_only_after_a_load",
        by="small history",
        statement="A snapshot begins without a new message before the load, or in a cluster that did not load the topic.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    def is_explained(found: Findings, about: object) -> bool:
        """Whether those that began without a load between them and the complete one before may be coincidences."""
        if not isinstance(about, BegunWithoutNews):
            return False
        log = found.logs[about.cluster]
        loads = list(reloads(state, found.name, about.cluster))
        left = [
            after
            for done, after in about.snapshots
            if not any(
                one.may_follow(log, done.taken_index or 0) and one.may_precede(log, after.requests[0]) for one in loads
            )
        ]
        return not left if about.of is None else not are_often(len(left), about.of)

    return explaining(ENTRY, broken, is_explained)
