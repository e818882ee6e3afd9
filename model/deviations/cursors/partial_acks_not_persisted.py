from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from model.cursors.cursor import Moment, changes_entries, killed
from model.cursors.row import Row
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before, is_graceful, recovering, reloaded_by
from model.example.state import Example
from model.example.step import Step

ENTRY = Deviation(
    name="partial-acks-not-persisted",
    rule="ACK-15",
    statement="An individual ack of a part of a batch is not persisted while no entry after mark-delete is acknowledged. A kill loses it, however old it is.",
    cause="ManagedCursorImpl.asyncDelete returns before it persists anything, and without marking the cursor as dirty, if individualDeletedMessages is empty after the ack. Batch index acks are not in there, so they wait for the next ack of a whole entry. Read in 2.10.1, 2.11.0, 3.3.6, 4.0.8, 4.2.4 and 5.0.0-M1.",
    upstream=("apache/pulsar#26498",),
    side="broker",
    releases=(">=2.10.1,<=5.0.1",),
    seen=("4.0.8", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="partial-acks-never-persisted",
        statement="Parts of batches are not persisted with the acks of whole entries, either.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    for subscription in () if is_graceful(step) else reloaded_by(state.past):
        then = before(state).consumption
        cursor, persisting = then.cursors[subscription], then.topics[subscription.topic].persisting
        past = tuple(cursor.past)
        written = [moment for number, moment in enumerate(past) if not _is_passed_over(past, number)]
        if len(written) < len(past):
            after = killed(replace(cursor, past=Row.of(*written)), step.at, persisting)
            yield from recovering(state, subscription, after.possible)


def _is_passed_over(past: Sequence[Moment], number: int) -> bool:
    """Whether only parts of batches were acknowledged, individually, with no entry after mark-delete acknowledged."""
    moment = past[number]
    is_of_parts = number > 0 and moment.is_individual and not changes_entries(past, number)
    return is_of_parts and any(not len(state.words) for state in moment.states)
