from __future__ import annotations

from model.chunking.evidence import DiscardedNotRequested
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunk-discarded-not-redelivered",
    aliases=("chunk-discarded-forgotten",),
    rule="CHUNK-08",
    statement="pulsar-client does not request redelivery of a chunked message that it discarded past the pending limit. Another consumer receives it, or the same one after a redelivery of everything.",
    cause="discardChunkMessages of ConsumerImpl leaves what it does not acknowledge to the tracker of unacknowledged messages. That tracker is off unless unacked_messages_timeout_ms is set (pulsar-client 3.13.0). So does removeOldestPendingChunkedMessage of the Java client, whose tracker needs ackTimeout (4.0.8). The Go client has no such tracker, and discardOldestChunkMessage only clears the buffer (0.19.0).",
    side="client",
    clients={"official": "<=3.13.0", "java": "==4.0.8", "go": "==0.19.0"},
    seen=("pulsar-client 3.13.0", "Java client 4.0.8", "Go client 0.19.0"),
    shadow=Shadow(
        name="test_a_client_that_requests_redelivery_of_some_discarded_chunks_requests_all_of_them",
        by="small history",
        statement="The client requests redelivery of some of the chunks that it discarded, but not of all.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case DiscardedNotRequested(requests_others=False):
            return broken.passing()
        case _:
            return None
