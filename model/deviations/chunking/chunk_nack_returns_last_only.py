from __future__ import annotations

from collections.abc import Iterator

from model.chunking.evidence import LeftOut
from model.deviation import Deviation, Shadow
from model.deviations.chunks import naming, one_before
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Nack

ENTRY = Deviation(
    name="chunk-nack-returns-last-only",
    aliases=("chunk-last-given-back",),
    rule="CHUNK-07",
    statement="For a nacked chunked message of a Shared or Key_Shared subscription, pulsar-client requests redelivery of the last chunk only. The message is not redelivered until the consumer leaves.",
    cause="The negative acknowledgment uses the message id of a chunked message, which is the id of its last chunk (pulsar-client 3.13.0). NegativeAcksTracker of the Java client keeps ledger and entry of the last chunk, and makes a plain message id of them; the tracker of chunks does not know that one (4.0.8).",
    upstream=("apache/pulsar#25220", "apache/pulsar#25229", "apache/pulsar-client-cpp#604"),
    side="client",
    clients={"official": "<=3.13.0", "java": "==4.0.8"},
    seen=("pulsar-client 3.13.0", "Java client 4.0.8"),
    shadow=Shadow(
        name="test_a_client_requests_redelivery_of_at_least_the_last_chunk_of_each_nacked_message",
        by="small history",
        statement="Of two nacked messages, the client requests redelivery of the first one's last chunk, and of nothing of the second.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case LeftOut(message, chunks) if isinstance(step.operation, Nack) and chunks == message.positions[:-1]:
            return broken.passing()
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, nacked = steps
    yield (*before, naming(nacked, one_before))
