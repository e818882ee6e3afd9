from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import explaining
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.replication.evidence import NotAnswered

ENTRY = Deviation(
    name="closed-replicator-reads-no-request",
    aliases=("closed-replicator-sleeps",),
    rule="REPL-17",
    statement="A replicator that was closed with an idle topic reads nothing until a producer connects or the topic is reloaded. Requests get no response, so no snapshot completes, and other clusters neither create nor advance the subscription.",
    cause="PersistentTopic.checkGC closes the replicators of an inactive topic, and a remote producer keeps the topic itself. PersistentReplicator.acquirePermitsIfNotFetchingSchema reads only in the state Started, and beforeDisconnect cancels the pending read (4.0.8). So nothing calls ReplicatedSubscriptionsController.receivedSnapshotRequest, which would start the producer. Until 4.0.4 a closed replicator continued to read. A reviewer of apache/pulsar#25915 expects it.",
    upstream=("apache/pulsar#25915",),
    side="broker",
    releases=(">=4.0.6,<=4.0.8", "==5.0.0-M1"),
    seen=("4.0.8", "4.0.6", "4.0.7", "5.0.0-M1"),
    gone=("4.0.4", "3.3.6", "2.11.0"),
    shadow=Shadow(
        name="test_a_closed_replicator_that_reads_a_later_request_has_no_excuse_for_an_earlier_one",
        by="small history",
        statement="A closed replicator that answers a later request, but not an earlier one, is found.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explaining(ENTRY, broken, lambda _, about: about == NotAnswered(has_read=False))
