from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.read_operations import ReadMessage
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="read-of-absent-entry-fails",
    rule="SERVE-01",
    statement="A read of a message id whose ledger exists and whose entry does not is answered with an internal error (No such entry; or LastConfirmedEntry is, in an open ledger), not with 404.",
    cause="PersistentTopicsBase.internalGetMessageById answers with 404 only if the ledger does not exist (LedgerNotExistException, apache/pulsar#21919), and passes all other failures of the read on (byte code of 3.3.6, 4.0.8, 4.2.4 and 5.0.1).",
    upstream=("apache/pulsar#21919",),
    side="broker",
    releases=(">=3.3.6,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "4.2.4", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_read_of_what_does_not_exist_may_fail",
        by="small history",
        statement="A read of an existing message fails with this error, or a read of a missing one with another.",
    ),
)

ERRORS = ("No such entry", "LastConfirmedEntry is ")


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case ReadMessage(message=None), ErrorAnswer(code="500", message=message) | Refused("500", message):
            return broken.passing() if message.startswith(ERRORS) else None
        case _:
            return None
