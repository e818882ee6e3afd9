from __future__ import annotations

from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.deviations.clusters import covered_too_early, explaining, passed_by_snapshots
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import Findings, NotAnsweredAgain
from model.replication.logs import Logs
from model.replication.rounds import Complete, answered_again, repeated

ENTRY = Deviation(
    name="first-round-response-counts-twice",
    aliases=("rounds-not-told-apart",),
    rule="REPL-07",
    also=("REPL-14",),
    statement="Among three clusters, a response that a replicator sends again, or a second one because it sent the request again, counts for the second round. The snapshot covers a message of the third cluster that another one does not have, and a consumer that fails over there never receives it.",
    cause="ReplicatedSubscriptionsSnapshotBuilder.receivedSnapshotResponse marks a cluster as answered in either round, because requests and responses carry only the id of the snapshot. A replicator sends a response again if its link broke before the confirmation. With deduplication the repeated response is not stored, and cannot count.",
    searched="2026-11-30: `ReplicatedSubscriptionsSnapshotBuilder second round response`; nearest is apache/pulsar#26119: a snapshot completes before its marker is stored.",
    side="broker",
    releases=(">=2.11.0,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "4.2.4", "5.0.0-M1", "5.0.1"),
    occurrence="On 4.0.8 in two of two plays with shipped settings. Exploring the model found it first.",
    shadow=Shadow(
        name="test_a_misled_snapshot_excuses_only_what_it_covers_too_early",
        by="small history",
        statement="A message that the misled snapshot does not cover is missed, too.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, _is_explained, missed=_missed)


def _is_explained(found: Findings, about: object) -> bool:
    match about:
        case NotAnsweredAgain(snapshot, lacking):
            return lacking <= repeated(found.logs, snapshot)
        case _:
            return False


def _missed(found: Findings, _: str, subscription: str) -> frozenset[str]:
    return passed_by_snapshots(
        found.logs,
        subscription,
        lambda one: covered_too_early(found.logs, one) if _is_misled(found.logs, one) else frozenset(),
    )


def _is_misled(logs: Logs, one: Complete) -> bool:
    """A response to the second request may be stored before the snapshot is, and handled after it was complete."""
    before = tuple(answer for answer in one.answers if one.log.entries[answer.index].position <= one.taken.local)
    return bool(repeated(logs, one) - answered_again(logs, replace(one, answers=before)))
