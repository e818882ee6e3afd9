from __future__ import annotations

from collections.abc import Iterator

from model.chunking.deliveries import REPEATED_DISCARDS
from model.chunking.evidence import ByClient, DeliveredLate
from model.deviation import Deviation, Shadow
from model.deviations.chunks import delivering_last_twice, with_client
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunk-repeated-discards-buffer",
    aliases=("chunk-repetition-destroys",),
    rule="CHUNK-04",
    statement="A consumer of pulsar-client that receives a repeated chunk discards the message's buffer and that chunk. No consumer ever delivers the message, although the log has all its chunks.",
    cause="processMessageChunk of ConsumerImpl discards the buffer and the received chunk if it is not the next one. It starts no message after its first chunk (pulsar-client 3.13.0).",
    upstream=("apache/pulsar#21070", "apache/pulsar-client-cpp#587"),
    side="client",
    clients={"official": "<=3.13.0"},
    seen=("pulsar-client 3.13.0",),
    shadow=Shadow(
        name="test_a_client_that_discarded_a_buffer_delivers_all_other_messages_in_order",
        by="small history",
        statement="A client that discarded such a buffer delivers other messages in the wrong order.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ByClient():
            return with_client(state, step, broken, REPEATED_DISCARDS)
        case DeliveredLate() as late if _was_discarded(state, late):
            return broken.passing()
        case _:
            return None


def _was_discarded(state: Example, late: DeliveredLate) -> bool:
    """Whether a client of the subscription discarded chunks of a message, which need not be all that are stored."""
    of_message = {
        one.position
        for one in late.state.topics[late.subscription.topic].log
        if (one.producer, one.part.sequence_id) == (late.message.producer, late.message.sequence_id)
    }
    return any(
        consumer.client.variant.repeated_discards_buffer and not consumer.client.delayed.isdisjoint(of_message)
        for chunking in (late.state, *(past.after.chunking for past in state.trace))
        for consumer in chunking.consumers.values()
        if consumer.subscription == late.subscription
    )


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, received = steps
    yield (*before, delivering_last_twice(received))
