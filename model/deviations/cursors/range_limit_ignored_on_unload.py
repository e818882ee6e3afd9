from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.counts import StoredBeyondLimit

ENTRY = Deviation(
    name="range-limit-ignored-on-unload",
    aliases=("many-ranges-stored",),
    rule="ACK-10",
    statement="After a second unload without an ack in between, the metadata store has the cursor, even if it has more ranges than managedLedgerMaxUnackedRangesToPersistInMetadataStore. Nothing is lost.",
    cause="ManagedCursorImpl.shouldPersistUnackRangesToLedger needs a cursor ledger that is open for writing. The ledger that the cursor recovered from is read-only until the next ack opens another one (4.0.8, line 2826). 2.11.0, 3.0.7, 3.3.6, 4.2.4 and 5.0.0-M1 have the same code.",
    side="broker",
    releases=(">=2.11,<=5.0.1",),
    seen=("4.0.8", "5.0.1"),
    shadow=Shadow(name="unload-goes-one-further", statement="After an unload one more entry is acknowledged."),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case StoredBeyondLimit(subscription):
            unload = next((past for past in state.trace if is_reloaded_by(past, subscription.topic)), None)
            cursor = None if unload is None else unload.before.consumption.cursors.get(subscription)
            return broken.passing() if cursor is not None and cursor.ledger.since_ms is None else None
        case _:
            return None
