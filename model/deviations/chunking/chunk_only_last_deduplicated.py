from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from model.deduplication import chunks, observer
from model.deduplication.producer_state import Circumstances, ProducerState, ProducerStates, StoredEntry
from model.deduplication.topic_observer import WrongAnswer, WrongLog
from model.deviation import Deviation, Shadow
from model.deviations.chunk_logs import ONLY_LAST, explained
from model.deviations.loads import judged_by, unanswered
from model.events import Answer, LoggedEntry
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.vocabulary import Entry

ENTRY = Deviation(
    name="chunk-only-last-deduplicated",
    aliases=("chunk-last-judged",),
    rule="CHUNK-13",
    statement="With deduplication only the last chunk of a message is deduplicated. The other chunks are stored again whenever they are sent again.",
    cause="MessageDeduplication compares and records an entry only if it is the last chunk of its message (4.0.8, line 447), and does not remember which chunks the log has. If a producer loses its connection between two chunks and sends both again, the log has them twice. If it sends a complete message again, all chunks but the last stay in the backlog of every subscription. Since apache/pulsar#20948; 4.2.4 has the same code.",
    upstream=("apache/pulsar#20948",),
    side="broker",
    releases=(">=3.0.1,<=5.0.1",),
    seen=("5.0.0-M1", "4.0.8", "3.3.6", "5.0.1"),
    gone=("2.11.0",),
    shadow=Shadow(
        name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
        by="small history",
        statement="A later message is confirmed, although the log has only its first chunk.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case WrongAnswer(view, states, entry, _, around) as wrong if view.enabled and entry.chunk is not None:
            if view.reloads == 0 and any(map(_counts_a_chunk, states)):
                return None
            return judged_by(broken, wrong, partial(_judged, around=around))
        case WrongLog(view, name, states, entries) if view.enabled:
            topic = step.operation.topic
            again = [] if topic is None else [one for one in unanswered(state, topic, name) if one.is_part]
            after = frozenset(new for one in states for new in _read_with(again, one, entries))
            return broken.passing(after) if after else None
        case _:
            return explained(broken, ONLY_LAST, lambda _: set())


def _judged(states: ProducerStates, entry: Entry, answer: Answer, around: Circumstances) -> ProducerStates:
    if entry.chunk is None:
        return frozenset()
    return frozenset(new for one in states for new in chunks.judged(one, entry, answer, around, ONLY_LAST))


def _counts_a_chunk(state: ProducerState) -> bool:
    """Whether a broker counts a chunk as a message, which this one does at most in a recovery."""
    return any(one.entry.is_part and one.is_counted for one in state.entries)


def _read_with(again: Sequence[Entry], state: ProducerState, found: Sequence[LoggedEntry]) -> Iterator[ProducerState]:
    """The state after a read of the log, if it has some of these chunks, whose answers are missing."""
    for stored in _stored_with(again, state.entries, found):
        yield from observer.read_back(replace(state, entries=stored), found)


def _stored_with(
    again: Sequence[Entry], stored: Sequence[StoredEntry], found: Sequence[LoggedEntry]
) -> Iterator[tuple[StoredEntry, ...]]:
    """The entries, with those of the log among them that are chunks which were stored again."""
    if not found:
        yield tuple(stored)
        return
    is_found = bool(stored) and stored[0].entry == found[0].entry and stored[0].position in (None, found[0].position)
    if is_found or (stored and stored[0].maybe is not None):
        rests = _stored_with(again, stored[1:], found[1:] if is_found else found)
        yield from ((stored[0], *rest) for rest in rests)
    if found[0].entry in again:
        after = StoredEntry(found[0].entry, found[0].position)
        yield from ((after, *rest) for rest in _stored_with(again, stored, found[1:]))
