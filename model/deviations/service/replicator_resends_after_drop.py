from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import NOT_REPLICATED, Overdue

ENTRY = Deviation(
    name="replicator-resends-after-drop",
    rule="SERVE-03",
    statement="A cluster with deduplication drops an entry that a cluster without it replicates. The replicator then closes its connection and sends entries and markers again, many times a second. Usually this ends after some seconds; it may last more than a minute. The other cluster stores the markers each time: its topic grew by up to 1,600 ledgers in a minute.",
    cause="MessageDeduplication compares the sequence ids of the original producers, and the remote broker confirms what it drops at once, before earlier entries that it is still writing. ProducerImpl.ackReceived ignores a confirmation with a lower sequence id than that of its first pending entry, and closes the connection after one with a higher id (read in the byte code of 2.11.0). What it sends again is dropped again, apart from the markers. Since apache/pulsar#23697 replicated entries are compared by their positions at the source.",
    upstream=("apache/pulsar#23697",),
    side="broker",
    releases=(">=2.10.1,<3.0.11",),
    seen=("2.11.0", "3.0.7", "2.10.5"),
    fixed=("3.0.11",),
    occurrence="With a slow link, in 35 of 36 replays on these releases; in 3 of them for more than a minute. Without an entry to drop in 0 of 6, after a cut of the link in 0 of 12.",
    shadow=Shadow(
        name="test_a_replicator_resends_after_a_drop_only_if_the_log_has_an_entry_to_drop",
        by="small history",
        statement="Messages are not replicated in time although the log at home has no entry that the other cluster may drop.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Overdue("SERVE-03", what, topic) if NOT_REPLICATED in what and state.remote_of(topic).droppable:
            return broken.passing()
        case _:
            return None
