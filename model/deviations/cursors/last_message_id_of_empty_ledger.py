from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.events import Terminated
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import Terminate
from model.reader_operations import AvailabilityRead, HasMessageAvailable

ENTRY = Deviation(
    name="last-message-id-of-empty-ledger",
    rule="ACK-20",
    statement="A topic is terminated while its last ledger is empty, as after a reload. GetLastMessageId answers as on an empty topic, so a reader stops although messages are left.",
    cause="After the termination the last position of the managed ledger is entry -1 of the empty ledger, and GetLastMessageIdResponse has that. Clients take it for an empty topic. Inferred from the answers of 4.0.8; its code was not read.",
    upstream=(),
    side="broker",
    releases=("==4.0.8",),
    seen=("4.0.8",),
    occurrence="In 5 of 5 replays.",
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
    if reader is None or not any(
        past.step.operation == Terminate(reader.topic)
        and isinstance(past.step.outcome, Terminated)
        and past.step.outcome.end.entry < 0
        for past in state.trace
    ):
        return None
    return broken.passing()
