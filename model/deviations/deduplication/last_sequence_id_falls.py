from __future__ import annotations

from model.deduplication.account import WrongLastId
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="last-sequence-id-falls",
    rule="DEDUP-19",
    statement="After a message with a lower sequence id is confirmed, last_sequence_id of pulsar-client returns that id, although the broker has a higher one.",
    cause="ProducerImpl::ackReceived of the C++ client assigns the id of the latest receipt to lastSequenceIdPublished_, instead of the maximum of both; so does ReceivedSendReceipt of the Go client's producer (0.19.0). The Java client takes the maximum.",
    side="client",
    clients={"official": "<=3.13.0", "go": "==0.19.0"},
    seen=("pulsar-client 3.13.0", "Go client 0.19.0"),
    shadow=Shadow(
        name="test_an_account_below_the_latest_id_is_found_while_the_deviations_are_known",
        by="small history",
        statement="After a duplicate, last_sequence_id of the producer is below the id of that duplicate.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case WrongLastId(session, reported, counted=counted) if reported == counted and session.client == "official":
            return broken.passing() if session.highest is not None and counted < session.highest else None
        case _:
            return None
