"""What a cluster with deduplication may drop of a log that another cluster, without it, replicates to it.

Releases that compare the sequence ids of producers for replicated messages, too, drop a message whose id is not above
that of an earlier one: for document 000 it is a duplicate. Those that compare positions at the source store it. Both
are allowed. A new message that is dropped is not: a later chunk, or a batch that starts with an earlier id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from model.events import LoggedEntry
from model.log import Position
from model.vocabulary import Entry


@dataclass(frozen=True, slots=True)
class Droppable:
    """Positions in the source's log: of duplicates, of chunks after the first one of a message, and of batches that
    begin with an earlier id than the last one."""

    duplicates: frozenset[Position] = frozenset()
    later_chunks: frozenset[Position] = frozenset()
    overlapping: frozenset[Position] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.duplicates or self.later_chunks or self.overlapping)


NOTHING: Final = Droppable()


@dataclass(slots=True)
class _Producer:
    """The highest id of a producer, of its messages before the last one, and with it."""

    before: int = -1
    highest: int = -1

    def add(self, entry: Entry) -> bool:
        """Count an entry: whether it is a later chunk of the last message."""
        is_later = entry.chunk is not None and entry.chunk.chunk_id > 0 and entry.highest == self.highest
        if not is_later:
            self.before = self.highest
        self.highest = max(self.highest, entry.highest)
        return is_later


def droppable(log: Iterable[LoggedEntry]) -> Droppable:
    """What of a log a cluster may drop that deduplicates by sequence ids and receives all of it."""
    producers: dict[str, _Producer] = {}
    duplicates: set[Position] = set()
    later_chunks: set[Position] = set()
    overlapping: set[Position] = set()
    for one in log:
        producer = producers.setdefault(one.producer, _Producer())
        is_later_chunk = producer.add(one.entry)
        if one.entry.highest <= producer.before:
            duplicates.add(one.position)
        elif is_later_chunk:
            later_chunks.add(one.position)
        elif one.entry.lowest <= producer.before:
            overlapping.add(one.position)
    return Droppable(frozenset(duplicates), frozenset(later_chunks), frozenset(overlapping))
