from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reopened, is_terminated_at_empty_ledger
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.read_operations import ReadMessage
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="read-of-absent-entry-fails",
    rule="SERVE-01",
    statement="A read of a message id whose ledger exists and whose entry does not is answered with an internal error (No such entry; LastConfirmedEntry is, in an open ledger; or Error while reading ledger, in the empty last ledger of a terminated topic that was reloaded), not with 404.",
    cause="PersistentTopicsBase.internalGetMessageById answers with 404 only if the ledger does not exist (LedgerNotExistException, apache/pulsar#21919), and passes all other failures of the read on (byte code of 3.3.6, 4.0.8, 4.2.4 and 5.0.1). When a terminated topic is loaded, its last ledger is the current one, also if it is empty and thus taken off the list of ledgers (ManagedLedgerImpl.initialize and initializeBookKeeper of 4.0.8).",
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
OF_EMPTY_LEDGER = "Error while reading ledger"


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case ReadMessage(topic, message=None), ErrorAnswer(code="500", message=message) | Refused("500", message):
            errors = (*ERRORS, OF_EMPTY_LEDGER) if _ends_in_empty_ledger(state, topic) else ERRORS
            return broken.passing() if message.startswith(errors) else None
        case _:
            return None


def _ends_in_empty_ledger(state: Example, topic: str) -> bool:
    """Whether a topic was terminated at an empty ledger, and reloaded since."""
    return is_reopened(state, topic) and is_terminated_at_empty_ledger(state, topic)
