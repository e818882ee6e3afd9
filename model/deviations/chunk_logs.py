"""What brokers with deduplication store of chunked messages, for the deviations of it on chunked topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from model.chunking.evidence import DeliveredLate, LogDiffers, NotWhole
from model.chunking.state import Act, ChunkTopic, Reloaded
from model.chunking.stored_chunks import in_part_or_twice, is_explained
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.example.state import Judgement
from model.judgement import Broken
from model.traffic import Life, LoggedPart

ONLY_LAST: Final = ChunksVariant(only_last_deduplicated=True)
RECOVERY_COUNTS: Final = ChunksVariant(only_last_deduplicated=True, recovery_counts_unfinished=True)
EACH: Final = ChunksVariant(each_deduplicated=True)

Lost = Callable[[Sequence[Act]], set[int]]
"""The messages that a broker may confirm without all their chunks, by sequence id."""


def explained(
    broken: Broken, variant: ChunksVariant, lost: Lost, narrower: ChunksVariant = DOCUMENT
) -> Judgement | None:
    """What is left of a violation if a broker is of this kind, and neither of the ``narrower`` kind nor as documented.

    It may lose messages, and those that it stores in part or twice are delivered late.
    """
    match broken.evidence:
        case NotWhole(topic, name, entries, sequence_id):
            is_affected = sequence_id in lost(topic.producers[name].acts)
        case LogDiffers(topic, name, entries):
            is_affected = True
        case DeliveredLate(state, subscription, message):
            topic, name = state.topics[subscription.topic], message.producer
            entries = [entry for entry in topic.log if entry.producer == name]
            is_affected = message.sequence_id in in_part_or_twice(entries)
        case _:
            return None
    is_so = is_affected and topic.deduplication and _is_of(topic, name, entries, variant, narrower)
    return broken.passing() if is_so else None


def _is_of(
    topic: ChunkTopic, name: str, entries: Sequence[LoggedPart], variant: ChunksVariant, narrower: ChunksVariant
) -> bool:
    is_otherwise = any(is_explained(topic, name, entries, one) for one in (DOCUMENT, narrower))
    return not is_otherwise and is_explained(topic, name, entries, variant)


def split(acts: Sequence[Act]) -> set[int]:
    """The messages of which a chunk before the last one was sent."""
    return {send.sequence_id for act in acts if isinstance(act, Life) for send in act.sends if not send.is_last}


def split_before_reload(acts: Sequence[Act]) -> set[int]:
    """Those that were sent before the topic was reloaded last."""
    last = max((number for number, act in enumerate(acts) if isinstance(act, Reloaded)), default=0)
    return split(acts[:last])
