from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.chunking.evidence import PayloadDiffers
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_by
from model.events import DueReceived
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunks-without-uncompressed-size-cut-off",
    rule="CHUNK-04",
    statement="The Go client delivers only the last chunk of a chunked message whose producer sends no uncompressed size, as pulsar-client does without compression. There is no error.",
    cause="MessageReceived of consumer_partition.go assembles the message, but resets its reader to the assembled buffer only if the metadata has an uncompressed_size above 0 (0.19.0). Otherwise it reads on in the buffer of the last chunk.",
    side="client",
    clients={"go": "==0.19.0"},
    seen=("Go client 0.19.0",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_the_go_client_may_deliver_the_last_chunk_alone_and_nothing_else",
        by="small history",
        statement="The Go client delivers a payload that is neither the message nor its last chunk, or another client delivers the last chunk.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence, step.outcome:
        case PayloadDiffers(_, delivery, message), DueReceived(log=log) if message.is_split:
            last = {one.part.digest for one in log if one.position == message.position}
            is_last_alone = delivery.digest in last and is_by(state, step, "go", broken)
            return broken.passing() if is_last_alone else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, received = steps
    assert isinstance(received.outcome, DueReceived)
    other = [
        replace(one, received=tuple(replace(each, digest="0") for each in one.received))
        for one in received.outcome.traffic
    ]
    yield (*before, replace(received, outcome=replace(received.outcome, traffic=tuple(other))))
