from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_terminated_at_empty_ledger
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.reader_operations import AvailabilityRead, HasMessageAvailable

ENTRY = Deviation(
    name="last-message-id-of-empty-ledger",
    rule="ACK-20",
    statement="A topic is terminated while its last ledger is empty, as after a reload. GetLastMessageId answers as on an empty topic, so a reader stops although messages are left.",
    cause="ManagedLedgerImpl.asyncTerminate sets lastConfirmedEntry to entry -1 of the current ledger, although it is empty, where initializeBookKeeper goes back to the last ledger with an entry; after a reload it is the stored position of the termination. ServerCnx.getLargestBatchIndexWhenPossible answers an entry id of -1 with the ids of an empty topic. Read in the byte code of 4.0.8. Of an empty current ledger after a restart, apache/pulsar#1550 mended the same.",
    upstream=("apache/pulsar#1550",),
    side="broker",
    releases=(">=3.3.6,<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8", "3.3.6"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_topic_that_ends_in_an_empty_ledger_hides_its_messages_from_readers",
        by="small history",
        statement="The last ledger has an entry, or the topic is not terminated.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case HasMessageAvailable(name), AvailabilityRead(is_available=False):
            reader = state.readers.get(name)
        case _:
            return None
    return broken.passing() if reader is not None and is_terminated_at_empty_ledger(state, reader.topic) else None
