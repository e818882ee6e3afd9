from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import covered_too_early, explaining, passed_by_snapshots
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import BeforeResponse, Findings
from model.replication.logs import Logs
from model.replication.rounds import Complete, is_too_early, last_round

ENTRY = Deviation(
    name="snapshot-not-at-highest-response",
    aliases=("last-handled-counts",),
    rule="REPL-09",
    also=("REPL-14",),
    statement="Among three clusters, a snapshot can have the position of a response that is not the last in the log. According to the model a consumer that fails over may miss a message.",
    cause="The replicator of each remote cluster handles the responses of that cluster (PersistentReplicator.checkReplicatedSubscriptionMarker), and reads the log with its own cursor at its own pace. ReplicatedSubscriptionsSnapshotBuilder.receivedSnapshotResponse takes the position of the response that completes the snapshot, not the highest position.",
    side="broker",
    releases=(">=2.10.0,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "3.2.3", "4.0.1", "4.2.4", "5.0.0-M1", "2.10.1", "2.10.0", "5.0.1"),
    occurrence="31 of 807 snapshots, more on a busy machine; one of 63 on 2.11.0. The lost message was not seen.",
    shadow=Shadow(
        name="test_a_snapshot_at_a_response_of_the_first_round_is_no_known_deviation",
        by="small history",
        statement="A snapshot with the position of a first-round response is found.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, _is_explained, missed=_missed)


def _is_explained(_: Findings, about: object) -> bool:
    match about:
        case BeforeResponse(snapshot):
            return _is_of_last_round(snapshot)
        case _:
            return False


def _is_of_last_round(one: Complete) -> bool:
    """Whether its local position is of another response of the last round, which was handled last."""
    return one.taken.local in last_round(one)


def _missed(found: Findings, _: str, subscription: str) -> frozenset[str]:
    return passed_by_snapshots(found.logs, subscription, lambda one: _covered(found.logs, one))


def _covered(logs: Logs, one: Complete) -> frozenset[str]:
    """What it covers too early, up to the last response."""
    if not (_is_of_last_round(one) and is_too_early(logs, one)):
        return frozenset()
    return covered_too_early(logs, one) & one.log.up_to(max(last_round(one)))
