from __future__ import annotations

from dataclasses import replace

from model.deduplication.account import WrongLastId
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="consecutive-batch-assumed",
    rule="DEDUP-19",
    statement="After a batch whose sequence ids have gaps, last_sequence_id of pulsar-client is too low: the lowest id of the batch plus its number of messages, minus one.",
    cause="ProducerImpl::ackReceived of the C++ client computes lastSequenceIdPublished_ as sequenceId + op.messagesCount_ - 1, as if the ids of a batch were consecutive. The Java client keeps the highest id of the batch.",
    side="client",
    clients={"official": "<=3.13.0"},
    seen=("pulsar-client 3.13.0",),
    shadow=Shadow(
        name="test_the_first_id_of_a_batch_is_found_while_the_deviations_are_known",
        by="small history",
        statement="After a batch, last_sequence_id of the producer is the lowest id of the batch.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case WrongLastId(session, reported, last, counted) if session.client == "official":
            end = last.lowest + len(last.messages) - 1
            if counted == end or reported != end:
                return None
            is_highest = last.highest == session.highest
            return broken.passing() if is_highest else replace(broken, evidence=replace(broken.evidence, counted=end))
        case _:
            return None
