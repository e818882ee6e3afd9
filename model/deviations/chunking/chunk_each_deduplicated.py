from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication import observer
from model.deduplication.producer_state import ProducerState
from model.deduplication.topic_observer import WrongAnswer
from model.deviation import Deviation, Shadow
from model.deviations.chunk_logs import EACH, explained, split
from model.deviations.clusters import lost_from_home
from model.deviations.loads import changing, sessions_in
from model.deviations.subscriptions import before
from model.events import LogRead
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunk-each-deduplicated",
    aliases=("chunk-each-judged",),
    rule="CHUNK-13",
    also=("REPL-01",),
    statement="With deduplication every chunked message is lost. All chunks have the sequence id of the message, so those after the first are confirmed as duplicates. A cluster with deduplication loses them, too, if another one without it replicates them to it.",
    cause="MessageDeduplication.isDuplicate compares the sequence id of every entry, chunk or not, and of replicated entries that of the original producer (2.11.0). apache/pulsar#20948 changed that for all chunks but the last.",
    upstream=("apache/pulsar#20948",),
    side="broker",
    releases=(">=2.5.1,<=2.11.0", "==3.1.0", "==3.0.0"),
    seen=("3.1.0", "2.11.0", "2.6.0", "2.5.1", "3.0.0"),
    gone=("3.3.6", "4.0.8"),
    shadow=Shadow(
        name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
        by="small history",
        statement="A message that is not split is confirmed, too, although the log does not have it.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence, step.outcome:
        case WrongAnswer(view, states, entry, answer, around), _ if view.enabled:
            counting = (_counting_each(one) for one in states if not one.cut)
            after = frozenset(new for one in counting for new in observer.send(one, entry, answer, around))
            return broken.passing(frozenset(map(_counting_each, after))) if after else None
        case _, LogRead(is_deduplicated=True):
            later = state.remote_of(step.operation.topic).droppable.later_chunks
            lost = lost_from_home(broken, lambda one: one.position in later)
            return lost or explained(broken, EACH, split)
        case _:
            return explained(broken, EACH, split)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The broker counts each chunk that was stored so far."""
    for session in sessions_in(before(state), step):
        yield from changing(state, session, _counting_each)


def _counting_each(state: ProducerState) -> ProducerState:
    parts = [one.entry.highest for one in state.entries[state.since :] if one.entry.is_part]
    if not parts or len(set(parts)) < len(parts):
        return state  # such a broker stores no second chunk of a message
    entries = tuple(replace(one, counts=one.entry.highest) if one.entry.is_part else one for one in state.entries)
    after = observer.settle(replace(state, entries=entries), all_answered=True)
    return replace(after, pushed=max(state.pushed, after.written))
