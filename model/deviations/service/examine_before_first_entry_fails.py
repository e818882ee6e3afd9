from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.read_operations import ExamineMessage
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="examine-before-first-entry-fails",
    rule="SERVE-01",
    statement="An examination of a message counted from the end, by a number greater than that of all messages, is answered with an internal error (Incorrect parameter). Counted from the beginning, the last message is the answer.",
    cause="PersistentTopicsBase.internalExamineMessageAsync subtracts the number from the number of entries without a check, and reads before the first entry of a ledger (byte code of 4.0.8).",
    side="broker",
    releases=(">=3.0.0,<=5.0.1",),
    seen=("4.0.8", "3.0.0", "3.0.7", "3.2.0", "3.3.6", "4.2.4", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_an_examination_from_the_end_may_fail",
        by="small history",
        statement="An examination from the beginning fails with this error, or one from the end with another.",
    ),
)

ERROR = "Incorrect parameter"


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case ExamineMessage(from_end=True), ErrorAnswer(code="500", message=message) | Refused("500", message):
            return broken.passing() if message.startswith(ERROR) else None
        case _:
            return None
