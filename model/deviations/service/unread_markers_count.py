from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import Acked
from model.cursors.log import TopicLog
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reopened
from model.deviations.subscriptions import skipping
from model.events import CursorRead
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscriptions.counts import Count, Peeked

ENTRY = Deviation(
    name="unread-markers-count",
    rule="SERVE-04",
    statement="On a topic with replicated subscriptions, a marker that no dispatcher has read yet counts as an unacknowledged message: in the backlog, which grows with every snapshot while there is no consumer, in peeks, which return markers, and in skips, which skip fewer messages.",
    cause="Only a dispatcher that reads a marker acknowledges it (AbstractBaseDispatcher.filterEntriesForConsumer). ManagedCursorImpl counts entries without looking at them (getNumberOfEntriesInBacklog, asyncGetNthEntry, asyncSkipEntries).",
    upstream=("apache/pulsar#6437",),
    side="broker",
    releases=(">=2.10,<=5.0.1",),
    seen=("4.2.4", "4.0.8", "3.3.6", "2.11.0", "5.0.1"),
    shadow=Shadow(
        name="test_the_backlog_has_no_more_than_the_markers_after_mark_delete",
        by="small history",
        statement="The backlog has more entries than there are markers and unacknowledged messages, or less than there are unacknowledged messages.",
    ),
    occurrence="Every time.",
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    match step.outcome:
        case CursorRead(mark_delete=mark_delete, stored_after=stored) if wrong.of == "backlog" and stored is not None:
            return 1, stored - wrong.state.log(wrong.subscription.topic).count_after(mark_delete)
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    if not is_reopened(state, step.operation.topic):
        yield from skipping(state, step, _fewer)


def _fewer(one: Acked, log: TopicLog, count: int) -> range:
    """How many messages a skip may skip, if markers count."""
    if not log.has_markers:
        return range(0)
    is_open = log.may_have_more_markers_after(one.mark_delete)
    return range(0 if is_open else max(0, count - log.markers_after(one.mark_delete)), count)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Peeked(possible, log, nth, position):
            is_it = any(_is_among_markers(one, log, nth, position) for one in possible)
            return broken.passing() if is_it else None
        case _:
            return None


def _is_among_markers(state: Acked, log: TopicLog, nth: int, position: Position | None) -> bool:
    """Whether an entry may be the ``nth`` unacknowledged one if some of the markers before it, or it itself, count."""
    if not log.has_markers or position is None or position <= state.mark_delete:
        return False
    messages = sum(left <= position for left in state.unacknowledged(log))
    most = log.markers_after(state.mark_delete) - log.markers_after(position)
    is_open = position > log.last or log.may_have_more_markers_after(state.mark_delete)
    is_marker = position not in log
    return messages + is_marker <= nth and (is_open or nth <= messages + most + is_marker)
