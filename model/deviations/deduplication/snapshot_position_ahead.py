from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication.observer import written_up_to
from model.deduplication.producer_state import NONE, ProducerState
from model.deduplication.snapshots import WrongId
from model.deduplication.topic_observer import TopicView
from model.deviation import Deviation, Shadow
from model.deviations.loads import recovering
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position

ENTRY = Deviation(
    name="snapshot-position-ahead",
    rule="DEDUP-12",
    also=("DEDUP-10",),
    statement="A snapshot that is taken while a full ledger closes has the position of the ledger's last entry, but not its sequence id. After an unload that message is stored twice.",
    cause="The timer takes the last confirmed entry as the snapshot's position (4.0.8: MessageDeduplication, line 673). The last entry of a ledger is confirmed before the ledger closes (OpAddEntry, line 273), and its sequence id is recorded afterwards (lines 279 and 312). 3.0.7, 4.2.4 and 5.0.0-M1 have the same code.",
    searched="2026-11-30: `deduplication takeSnapshot position ledger rollover duplicate`; nothing similar.",
    side="broker",
    releases=(">=2.11,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "5.0.1"),
    shadow=Shadow(name="replay-skips-one", statement="The replay leaves out the first entry after the snapshot."),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case WrongId(view, read, producer, highest):
            is_ahead = any(_is_ahead(view, one, highest, read.position) for one in view.state(producer))
            return broken.passing() if is_ahead else None
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Recovery begins behind the last entry of a full ledger, whose id it does not know."""
    yield from recovering(state, _without_last)


def _is_ahead(view: TopicView, state: ProducerState, highest: int, position: Position) -> bool:
    """Whether a snapshot at this position lacks only the id of its last entry, which filled a ledger or was in flight.

    The position moves from the last entry of a full ledger to the beginning of the next one.
    """
    stored = ((n, one.position) for n, one in enumerate(state.entries) if n >= state.since)
    last = max(((at, n) for n, at in stored if at is not None and at <= position), default=None)
    if last is None:
        return False
    at, n = last
    is_there = at == position or position.entry < 0
    is_last = at.entry + 1 == view.ledger_room or (at == position and state.entries[n].was_in_flight)
    least = written_up_to(replace(state, entries=state.entries[:n]), position)
    return is_there and is_last and least <= highest < written_up_to(state, position)


def _without_last(view: TopicView, state: ProducerState) -> Iterator[ProducerState]:
    last = state.entries[-1] if len(state.entries) > state.since else None
    if last is not None and last.position is not None and last.position.entry + 1 == view.ledger_room:
        after = replace(state, entries=(*state.entries[:-1], replace(last, counts=NONE)))
        yield replace(after, pushed=after.written, persisted=after.written)
