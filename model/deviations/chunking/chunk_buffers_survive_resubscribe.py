from __future__ import annotations

from collections.abc import Iterator

from model.chunking.deliveries import BUFFERS_SURVIVE, REPEATED_DISCARDS
from model.deviation import Deviation, Shadow
from model.deviations.chunks import delivering_last_twice, with_client
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunk-buffers-survive-resubscribe",
    aliases=("chunk-buffers-survive",),
    rule="CHUNK-04",
    statement="A consumer of pulsar-client that resubscribes, or requests redelivery of everything, keeps its chunk buffers. The redelivered first chunks count as repeated, and the consumer does not deliver their messages.",
    cause="ConsumerImpl clears its queue of messages when it resubscribes or requests redelivery of everything, but not chunkedMessageCache_ (pulsar-client 3.13.0). It matters only together with chunk-repeated-discards-buffer.",
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
    """Without it, the other deviation that it needs explains nothing."""
    if with_client(state, step, broken, REPEATED_DISCARDS) is not None:
        return None
    return with_client(state, step, broken, BUFFERS_SURVIVE)


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, received = steps
    yield (*before, delivering_last_twice(received))
