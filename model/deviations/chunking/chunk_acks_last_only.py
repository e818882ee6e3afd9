from __future__ import annotations

from collections.abc import Iterator

from model.chunking.evidence import LeftOut
from model.deviation import Deviation, Shadow
from model.deviations.chunks import naming
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Acknowledge

ENTRY = Deviation(
    name="chunk-acks-last-only",
    rule="CHUNK-07",
    statement="pulsar-client acknowledges the last chunk of a chunked message only. The other ones stay in the backlog.",
    cause="The message id of a chunked message is that of its last chunk (pulsar-client 3.1.0 and 3.3.0, seen on the wire; the code was not read).",
    side="client",
    clients={"official": "<3.5.0"},
    seen=("pulsar-client 3.1.0",),
    shadow=Shadow(
        name="test_a_client_that_acknowledges_one_repeated_chunk_acknowledges_all_of_them",
        by="small history",
        statement="The client leaves out the last chunk of a message, or only some of the others.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case LeftOut(is_all_but_last=True, is_from_before=False) if isinstance(step.operation, Acknowledge):
            return broken.passing()
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, acknowledged = steps
    yield (*before, naming(acknowledged, lambda _: None))
