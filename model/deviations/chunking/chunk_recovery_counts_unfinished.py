from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication.producer_state import ProducerState
from model.deduplication.topic_observer import TopicView
from model.deviation import Deviation, Shadow
from model.deviations.chunk_logs import ONLY_LAST, RECOVERY_COUNTS, explained, split_before_reload
from model.deviations.loads import recovered_to_last, recovering
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="chunk-recovery-counts-unfinished",
    rule="CHUNK-13",
    also=("DEDUP-09", "DEDUP-12"),
    statement="With deduplication, a chunked message that is in flight during an unload is confirmed and lost. Recovery counts its first chunks as the message, so the last chunk is a duplicate. If a chunk of an older message was stored again last, recovery falls back to that message, and later ones are stored again.",
    cause="MessageDeduplication.replayCursor takes the sequence id of every entry, also of chunks that are not the last, and the last one counts, not the highest (4.0.8, line 254). Recording a persisted entry checks that (line 531). 4.2.4 has the same code. It needs a recovery without a snapshot after the chunks.",
    searched="2026-11-30: `deduplication chunked message replayCursor recovery`; nearest is apache/pulsar#20948, whose repair leaves recovery as it was.",
    side="broker",
    releases=(">=3.0.1,<=5.0.1",),
    seen=("4.0.8", "3.3.6", "5.0.0-M1", "5.0.1"),
    shadow=Shadow(
        name="test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log",
        by="small history",
        statement="A message that was sent only after the unload is confirmed, although the log has only its first chunk.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return explained(broken, RECOVERY_COUNTS, split_before_reload, ONLY_LAST)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The recovery counts the chunk that is the last entry, whose message may be unfinished, or an older one."""
    yield from recovering(state, _to_last_chunk)


def _to_last_chunk(view: TopicView, state: ProducerState) -> Iterator[ProducerState]:
    last = state.entries[-1] if len(state.entries) > state.since else None
    if last is not None and last.entry.is_part and last.entry.highest != state.written:
        counted = replace(last, counts=last.entry.highest)
        yield recovered_to_last(replace(state, entries=(*state.entries[:-1], counted)))
