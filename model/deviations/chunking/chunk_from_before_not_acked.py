from __future__ import annotations

from collections.abc import Iterator

from model.chunking.evidence import LeftOut
from model.deviation import Deviation, Shadow
from model.deviations.chunks import naming, one_before
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Acknowledge

ENTRY = Deviation(
    name="chunk-from-before-not-acked",
    rule="CHUNK-07",
    statement="A consumer of pulsar-client resubscribes, or requests the redelivery of everything, while it has the first chunks of a message, and its last chunk, which is at a lower position, comes again and completes the message. An ack of the message, or a cumulative one of a later message, leaves out those first chunks. They stay in the backlog.",
    cause="Seen on the wire; the code was not read. It needs chunk-buffers-survive-resubscribe, and chunks of one message in the wrong order.",
    side="client",
    clients={"official": "<=3.13.0"},
    seen=("pulsar-client 3.13.0",),
    occurrence="In 10 of 10 replays each on 3.3.6 and 4.0.8.",
    shadow=Shadow(
        name="test_a_client_leaves_out_only_first_chunks_that_it_had_before_it_resubscribed",
        by="small history",
        statement="The client leaves out the last chunk of such a message, or it leaves out the first one of a message whose chunks came in their order.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case LeftOut(is_from_before=True) as left_out if isinstance(step.operation, Acknowledge):
            return broken.passing() if left_out.is_cumulative or left_out.is_all_but_last else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, acknowledged = steps
    yield (*before, naming(acknowledged, one_before))
