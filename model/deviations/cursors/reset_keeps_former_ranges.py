from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.cursors.acked import Acked, with_entries
from model.cursors.cursor import Cursor
from model.cursors.log import TopicLog
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by, pasts_since_load
from model.deviations.subscriptions import before, persisting, reset_by
from model.events import CursorRead
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.operations import Unload
from model.subscription_operations import ReadCursor
from model.subscriptions.counts import Count, MarkDeleteLags
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="reset-keeps-former-ranges",
    rule="ACK-16",
    also=("ACK-02", "SERVE-04"),
    statement="A cursor that is reset, or moved by a seek, is persisted at its new position with its former ranges. If the broker is killed before the next ack is persisted, the messages in these ranges are acknowledged again, and not redelivered. If the new mark-delete position itself is in one of them, the backlog is one too low.",
    cause="ManagedCursorImpl.internalResetCursor persists the new mark-delete position (internalAsyncMarkDelete), and clears individualDeletedMessages and batchDeletedIndexes only when that is done. persistPositionToLedger writes what is in them. Read in 2.6.0, 2.10.1, 2.11.0, 3.3.6 and 4.0.8; 4.2.4 clears them after that, too. The backlog after recovery leaves out the ranges' entries from the mark-delete position on, which is itself counted (getNumberOfEntries asks for their cardinality).",
    searched="2026-11-30: `reset cursor individualDeletedMessages persisted`; nearest is apache/pulsar#26304: a reset is discarded because another mark-delete is queued after it.",
    side="broker",
    releases=(">=2.6.0,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="reset-not-persisted",
        by="seeded defect",
        statement="A reset is answered without being persisted.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    for subscription in reset_by(state.past):
        former, log = before(state).consumption.cursors[subscription], state.consumption.log(subscription.topic)
        placed = {one.mark_delete for one in state.consumption.cursors[subscription].past[0].states}
        kept = frozenset(one for position in placed for one in _with_former(former, position, log))
        yield from persisting(state, subscription, kept)


def _with_former(cursor: Cursor, mark_delete: Position, log: TopicLog) -> Iterator[Acked]:
    """The states with outdated ranges. Those up to an earlier mark-delete may have been removed when that was
    persisted."""
    purged = {state.mark_delete for moment in cursor.past for state in moment.states}
    for state in cursor.possible:
        for first in {max(mark_delete, one) for one in (state.mark_delete, *purged)}:
            kept = [position for position in log.all_after(first) if state.has(position)]
            after = with_entries(Acked(mark_delete), log, kept)
            yield replace(after, parts=state.parts.put([(at, 0) for at in state.parts if after.has(at)]))


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """The mark-delete position is recovered where a reset put it, right before acknowledged entries."""
    match broken.evidence:
        case MarkDeleteLags(subscription, mark_delete) if _was_recovered_at(state, subscription, mark_delete):
            return broken.passing()
        case _:
            return None


def _was_recovered_at(state: Example, subscription: SubscriptionId, mark_delete: Position) -> bool:
    """Whether the broker was killed since a reset to this position."""
    is_killed = False
    for past in state.trace:
        is_killed |= is_reloaded_by(past, subscription.topic) and not isinstance(past.step.operation, Unload)
        if is_killed and subscription in reset_by(past):
            after = past.after.consumption
            log, cursor = after.log(subscription.topic), after.cursors[subscription]
            placed = {one.mark_delete for one in (*cursor.possible, *cursor.past[0].states)}
            return log.at_or_before(mark_delete) in placed
    return False


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """The entry at the mark-delete position, if a range has that, until the topic is reloaded."""
    if wrong.of != "backlog":
        return None
    steps = (one.step for one in pasts_since_load(state, wrong.subscription.topic))
    return (-1, -1) if any(_is_within_range(one, wrong.subscription) for one in (*steps, step)) else None


def _is_within_range(step: Step, subscription: SubscriptionId) -> bool:
    match step.operation, step.outcome:
        case ReadCursor(topic, name), CursorRead(mark_delete=mark_delete, ranges=ranges):
            is_here = SubscriptionId(topic, name) == subscription
            return is_here and any(one.after < mark_delete <= one.last for one in ranges)
        case _:
            return False
