from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.clusters import may_resend, may_resend_from_home
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import NOT_REPLICATED, Overdue

ENTRY = Deviation(
    name="replicator-resends-in-a-loop",
    rule="SERVE-03",
    statement="With deduplication, a replicator that sends messages and markers again, because its connection was cut or its topic reloaded, closes its connection and sends them again, nine times a second. The other cluster stores the markers each time: its topic grew by 2,800 ledgers a minute, until its ZooKeeper ran out of memory.",
    cause="Markers are never duplicates, so the remote broker stores them, while it confirms messages that it has at once. The confirmation of a message overtakes that of the marker before it. GeoReplicationProducerImpl expects that one first, and closes the connection (from the log of 3.3.6, as apache/pulsar#24453 describes it). Since apache/pulsar#23697; fixed by #24453 in 3.0.13, 3.3.8 and 4.0.6.",
    upstream=("apache/pulsar#24453", "apache/pulsar#23697"),
    side="broker",
    releases=(">=3.0.11,<3.0.13", ">=3.3.6,<3.3.8", ">=4.0.4,<4.0.6"),
    seen=("3.3.6", "4.0.4"),
    gone=("4.0.8",),
    occurrence="On 3.3.6 in 4 of 4 replays, on 4.0.4 in 2 of 2, on 4.0.8 in 0 of 2.",
    shadow=Shadow(
        name="test_a_replicator_sends_in_a_loop_by_a_deviation_only_what_it_sends_again_with_deduplication",
        by="small history",
        statement="Messages are not replicated in time although no link was cut and the topic was not reloaded, or without deduplication.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Overdue("SERVE-03", what) if NOT_REPLICATED in what:
            is_resent = any(may_resend(state, topic) for topic in state.replication.topics) or any(
                state.topics[topic].enabled and may_resend_from_home(state, topic) for topic in state.remote
            )
            return broken.passing() if is_resent else None
        case _:
            return None
