from __future__ import annotations

from collections.abc import Iterator

from model.chunking.evidence import LeftOut
from model.deviation import Deviation, Shadow
from model.deviations.chunks import naming
from model.events import Acknowledged
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunk-duplicates-not-acked",
    aliases=("chunk-repeated-unacknowledged",),
    rule="CHUNK-07",
    statement="pulsar-client acknowledges chunks that are stored twice only once. The other copies stay in the backlog, and mark-delete does not pass them.",
    cause="The id of a chunked message contains only the ids of the chunks that it was assembled from (ChunkMessageIdImpl, pulsar-client 3.13.0).",
    side="client",
    clients={"official": "<=3.13.0"},
    seen=("pulsar-client 3.13.0",),
    shadow=Shadow(
        name="test_a_client_that_acknowledges_one_repeated_chunk_acknowledges_all_of_them",
        by="small history",
        statement="The client acknowledges some copies of a chunk that is stored several times, but not all.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case LeftOut(message, chunks=(), copies=copies) if copies.isdisjoint(message.repeated):
            return broken.passing()
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, acknowledged = steps
    assert isinstance(acknowledged.outcome, Acknowledged)
    (message,) = acknowledged.outcome.messages
    yield (*before, naming(acknowledged, lambda position: None if position == message.position else position))
