from __future__ import annotations

from collections.abc import Iterator

from model.chunking.evidence import LeftOut, Scattered
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import commands_in
from model.deviations.chunks import naming, one_before
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Nack
from model.traffic import CommandRedeliver

ENTRY = Deviation(
    name="chunk-nack-returns-last-only",
    aliases=("chunk-last-given-back",),
    rule="CHUNK-07",
    also=("CHUNK-14",),
    statement="For a nacked chunked message of a Shared or Key_Shared subscription, pulsar-client requests redelivery of the last chunk only. The message is not redelivered until the consumer leaves. Brokers from 5.0.1 on may send the last chunk to another consumer.",
    cause="The negative acknowledgment uses the message id of a chunked message, which is the id of its last chunk (pulsar-client 3.13.0). NegativeAcksTracker of the Java client keeps ledger and entry of the last chunk, and makes a plain message id of them; the tracker of chunks does not know that one (4.0.8). SharedConsumerAssignor of 5.0.1 sends a chunk whose first chunk it does not expect any more to any consumer.",
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
        case Scattered() as scattered if _is_last_returned(state, step, scattered):
            return broken.passing()
        case _:
            return None


def _is_last_returned(state: Example, step: Step, scattered: Scattered) -> bool:
    """Whether one consumer has all chunks but the last one, which was requested again without them."""
    entries, last, subscription = scattered.entries, max(scattered.entries), scattered.consumers[0].subscription
    if all(one.holds & entries != entries - {last} for one in scattered.consumers):
        return False
    steps = (step, *(past.step for past in state.trace))
    passed = (command for one in steps for _, command in commands_in(one, scattered.state, subscription))
    return any(isinstance(one, CommandRedeliver) and entries.intersection(one.positions) == {last} for one in passed)


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, nacked = steps
    yield (*before, naming(nacked, one_before))
