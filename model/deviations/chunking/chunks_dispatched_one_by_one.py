from __future__ import annotations

from model.chunking.evidence import Scattered
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunks-dispatched-one-by-one",
    rule="CHUNK-14",
    statement="A Shared subscription with several consumers dispatches the chunks of a message to different consumers, so that no application receives it.",
    cause="PersistentDispatcherMultipleConsumers gives each consumer as many entries as it has permits for, whatever they are. From 2.11.0 on SharedConsumerAssignor gives all chunks of a message to one consumer; 2.6.0 and 2.10.1 have no such class.",
    side="broker",
    releases=(">=2.6.0,<2.11.0",),
    seen=("2.10.1", "2.6.0"),
    gone=("2.11.0", "3.3.6", "4.0.8"),
    occurrence="In 5 of 5 replays on both releases.",
    shadow=Shadow(
        name="test_chunks_of_one_message_at_two_consumers_are_a_deviation_only_after_a_reassignment",
        by="small history",
        statement="A Key_Shared subscription dispatches the chunks of a message to two consumers, although its hash was not reassigned.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Scattered(entries=entries, consumers=consumers) if all(one.kind == "Shared" for one in consumers):
            is_sent_once = sum(len(one.holds & entries) for one in consumers) <= len(entries)
            return broken.passing() if is_sent_once else None
        case _:
            return None
