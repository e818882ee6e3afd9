from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from model.cursors.acked import Acked, without_entries
from model.cursors.cursor import mixed
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import is_graceful, recovering, reloaded_by
from model.example.holes import WrongHoles
from model.example.state import Example, Judgement
from model.example.step import Step
from model.holes import Holes
from model.judgement import Broken

ENTRY = Deviation(
    name="persisted-ranges-counted-by-entry",
    rule="ACK-21",
    also=("ACK-09", "ACK-10"),
    statement="Where acks are persisted as arrays of longs, managedLedgerMaxUnackedRangesToPersist counts acknowledged entries instead of ranges. With more acknowledged entries than that, an unload or a kill loses the acks of the last ledgers, however few ranges there are.",
    cause="OpenLongPairRangeSet.toRanges (4.2.4, 4.0.8) adds up the cardinality of the bit set of each ledger, and leaves out the ledgers after the one that passes the limit; PositionRangeSet.toRanges (5.0.1) leaves out that one as well. managedLedgerPersistIndividualAckAsLongArray is on by default in 4.2.4 and 5.0.1, and off in 4.0.8.",
    side="broker",
    releases=(">=4.2.4,<=5.0.1",),
    switched_on={"managedLedgerPersistIndividualAckAsLongArray=true": (">=4.0.8,<4.2.4",)},
    seen=("4.2.4", "5.0.1", "4.0.8"),
    shadow=Shadow(
        name="test_arrays_of_longs_lose_whole_ledgers_only",
        by="small history",
        statement="An ack of a ledger within the limit is lost, or a message that nobody acknowledged.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """All acks of the last ledgers are lost, and no others."""
    match broken.evidence:
        case WrongHoles(topic, redelivered=redelivered, missed=0):
            holes = state.holes[topic]
            lost = {holes.surely & left_out for left_out in _left_out(holes)}
            return broken.passing() if redelivered in lost else None
        case _:
            return None


def _left_out(holes: Holes) -> Iterator[int]:
    """The acknowledged messages from the ledger on that passes the limit, or of those after it."""
    count = 0
    for size, end in zip(holes.ledgers, accumulate(holes.ledgers), strict=True):
        count += (holes.after_mark_delete >> end - size & (1 << size) - 1).bit_count()
        if count > holes.limit:
            yield holes.acked >> end - size << end - size
            yield holes.acked >> end << end
            return


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The same on a subscription of the example: it may be recovered without the acks of the last ledgers."""
    for subscription in reloaded_by(state.past):
        before = state.past.before.consumption if state.past is not None else state.consumption
        limit = before.topics[subscription.topic].persisting.persisted_ranges
        cursor = before.cursors[subscription]
        states = cursor.possible if is_graceful(step) else frozenset(mixed(tuple(cursor.past)))
        yield from recovering(state, subscription, {one for full in states for one in _first_ledgers(full, limit)})


def _first_ledgers(state: Acked, limit: int) -> Iterator[Acked]:
    beyond = state.beyond()
    entries, count = Counter(position.ledger for position in beyond), 0
    for ledger in sorted(entries):
        count += entries[ledger]
        if count > limit:
            yield without_entries(state, [position for position in beyond if position.ledger >= ledger])
            yield without_entries(state, [position for position in beyond if position.ledger > ledger])
            return
