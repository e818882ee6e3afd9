from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from model.deduplication.topic_observer import WrongLastSequenceId
from model.deviation import Deviation, Shadow
from model.deviations.facts import by_java, is_by
from model.events import Opened
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="last-sequence-id-not-adopted",
    rule="DEDUP-09",
    also=("DEDUP-12",),
    statement="When the Go client has created a producer, its LastSequenceID is -1, whatever the broker answered. It is right once a message is confirmed.",
    cause="newPartitionProducer sets lastSequenceID to -1, and only a send receipt changes it. Of ProducerSuccess, grabCnx uses the last sequence id for the next one alone (producer_partition.go, 0.19.0).",
    side="client",
    clients={"go": "==0.19.0"},
    seen=("Go client 0.19.0",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_the_go_client_may_say_nothing_of_the_last_sequence_id",
        by="small history",
        statement="LastSequenceID is another id that is wrong, or the client is not Go's.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence, step.outcome:
        case WrongLastSequenceId(), Opened(last_sequence_id=-1) if is_by(state, step, "go"):
            return broken.passing()
        case _:
            return None


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    *before, opened = steps
    yield (*before, replace(opened, outcome=Opened(0)))
    yield (*before, by_java(opened))
