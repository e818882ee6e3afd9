from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import failed, is_current_ledger_empty
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Skip

ENTRY = Deviation(
    name="skip-of-empty-topic-fails",
    rule="SERVE-01",
    statement="A skip past the last message is answered with an internal error (500) if the topic's current ledger has no entries: in a topic without messages, or that was reloaded since the last one.",
    cause="ManagedLedgerImpl.getPositionAfterN returns the position before the first entry of the current ledger. That is after the last confirmed entry, of the ledger before, so ManagedCursorImpl.asyncMarkDelete refuses it (2.6.0, lines 1566 to 1572). 2.9.1 and 2.10.1 accept it if there is no entry in between. 2.7.4 has the same lines.",
    side="broker",
    releases=(">=2.6.0,<=2.8.1", "==2.5.0"),
    seen=("2.6.0", "2.7.4", "2.8.1", "2.7.1", "2.5.0"),
    gone=("4.0.8",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_skip_fails_only_in_a_topic_without_entries_in_its_current_ledger",
        by="small history",
        statement="A skip fails in a topic that was sent messages since it was reloaded, or with another error.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match failed(step, broken, Skip, "/skip/"):
        case (topic, message) if "Invalid mark deleted position" in message and is_current_ledger_empty(state, topic):
            return broken.passing()
        case _:
            return None
