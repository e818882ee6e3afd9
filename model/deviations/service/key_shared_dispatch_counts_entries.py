from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import sent_beyond_permits
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="key-shared-dispatch-counts-entries",
    rule="SERVE-13",
    statement="The consumer of a Key_Shared subscription is sent as many entries as it gave permits for messages, also if all batches are alike. With batches of ten messages, a consumer that asks for ten gets a hundred.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers subtracts one permit for each entry that it assigns to a consumer (filterAndGroupEntriesForDispatching; before 4.0 trySendMessagesToConsumers). It never divides by the number of messages in an entry, as the dispatcher of Shared subscriptions does since apache/pulsar#7266. Read in the byte code of 4.0.8; that of 3.3.6, 4.2.4 and 5.0.1 uses no average either.",
    upstream=("apache/pulsar#23263",),
    side="broker",
    releases=("<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8", "3.3.6"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_permits_that_count_entries_explain_no_more_entries",
        by="small history",
        statement="A Key_Shared consumer is sent more entries than it gave permits, or no entry is a batch.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """No more entries than permits, of which some are batches."""
    match sent_beyond_permits(state, step, broken):
        case "Key_Shared", sizes if max(sizes, default=1) != 1:
            return broken.passing()
        case _:
            return None
