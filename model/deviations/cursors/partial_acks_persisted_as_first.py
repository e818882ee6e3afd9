from __future__ import annotations

from collections.abc import Iterator

from model.cursors.acked import Acked, all_bits
from model.cursors.log import TopicLog
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import is_graceful, recovering, reloaded_by
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.evidence import StarvingAlone

ENTRY = Deviation(
    name="partial-acks-persisted-as-first",
    rule="ACK-15",
    also=("ACK-09", "ACK-10", "SERVE-03"),
    statement="If several batches are partly acknowledged, a kill leaves of each the messages that are left of the first one: messages that nobody acknowledged are lost, and acknowledged ones are redelivered.",
    cause="ManagedCursorImpl.buildBatchEntryDeletionIndexInfoList adds the delete set of each batch to the builder of the one before without clearing it, so each begins with that of the first (2.6.0, lines 2404 to 2419). apache/pulsar#9504 describes it and clears the set; 2.9.1 has that line.",
    upstream=("apache/pulsar#9504",),
    side="broker",
    releases=(">=2.6.0,<2.6.4", ">=2.7.0,<2.7.1"),
    seen=("2.6.0",),
    gone=("2.10.1", "3.3.6", "4.0.8"),
    fixed=(
        "2.6.4",
        "2.7.1",
    ),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_kill_gives_all_batches_the_parts_of_the_first_by_a_deviation_and_no_others",
        by="small history",
        statement="One batch is partly acknowledged and another of its messages is lost, or the first of several has lost one.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    for subscription in () if is_graceful(step) else reloaded_by(state.past):
        log, possible = state.consumption.log(subscription.topic), state.consumption.cursors[subscription].possible
        alike = (one.with_parts_of_first(log) for one in possible if len(one.parts) > 1)
        yield from recovering(state, subscription, alike)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """A batch that is left without messages is not dispatched, and counts as unacknowledged all the same."""
    match broken.evidence:
        case StarvingAlone(subscription) if (cursor := state.consumption.cursors.get(subscription)) is not None:
            log = state.consumption.log(subscription.topic)
            return broken.passing() if any(_has_emptied(one, log) for one in cursor.possible) else None
        case _:
            return None


def _has_emptied(state: Acked, log: TopicLog) -> bool:
    """Whether all messages of an entry are acknowledged, but not the entry."""
    return any(bits == all_bits(log, position) for position, bits in state.parts.items())
