from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.chunking.evidence import NotRefused
from model.chunking.sends import TOO_LARGE
from model.deviation import Deviation, Shadow
from model.events import Sent
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import Send

ENTRY = Deviation(
    name="too-large-keeps-queue-place",
    rule="CHUNK-01",
    statement="A message that pulsar-client refused as too large keeps its place in the producer's queue. Once the queue is full of them, the next message is refused because the queue is full, whatever its size.",
    cause="Concluded from the answers of pulsar-client 3.1.0 and 3.3.0, whose code was not read: with a queue of two places, two messages are refused as too large, and the next one as ProducerQueueIsFull.",
    side="client",
    clients={"official": "<3.5.0"},
    seen=("pulsar-client 3.1.0",),
    shadow=Shadow(
        name="test_a_full_queue_refuses_a_message_only_after_one_that_was_too_large",
        by="small history",
        statement="A message above the limit is refused because the queue is full, but none was refused as too large before; or it is stored.",
    ),
)

QUEUE_FULL = "ProducerQueueIsFull"


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case NotRefused(message, earlier) if message.error == QUEUE_FULL:
            return broken.passing() if any(other.error == TOO_LARGE for other in earlier) else None
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, sent = steps
    assert isinstance(sent.operation, Send)
    assert isinstance(sent.outcome, Sent)
    sending = replace(sent.operation, entries=sent.operation.entries[-1:])
    yield (*before, replace(sent, operation=sending, outcome=replace(sent.outcome, answers=sent.outcome.answers[-1:])))
