from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.deduplication.account import WrongLastId
from model.deviation import Deviation, Shadow
from model.deviations.facts import by_java, is_by
from model.events import Sent
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="last-sequence-id-of-batch-is-lowest",
    rule="DEDUP-19",
    statement="After a batch, LastSequenceID of the Go client's producer is the lowest sequence id of the batch.",
    cause="ReceivedSendReceipt of producer_partition.go stores the sequence id of the pending item, which is that of the batch's first message (0.19.0).",
    side="client",
    clients={"go": "==0.19.0"},
    seen=("Go client 0.19.0",),
    occurrence="After every batch.",
    shadow=Shadow(
        name="test_only_the_lowest_id_of_a_batch_of_the_go_client_is_known",
        by="small history",
        statement="LastSequenceID is an id inside the batch, or the client is not Go's.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case WrongLastId(_, reported, last) if last.is_batch and reported == last.lowest and is_by(state, step, "go"):
            return broken.passing()
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, sent = steps
    assert isinstance(sent.outcome, Sent)
    assert sent.outcome.last_sequence_id is not None
    inside = replace(sent.outcome, last_sequence_id=sent.outcome.last_sequence_id + 1)
    yield (*before, replace(sent, outcome=inside))
    yield (*before[:-1], by_java(before[-1]), sent)
