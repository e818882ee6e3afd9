"""The positions of one example's messages by business id, learned from send receipts and deliveries.

Operations name messages by business id, the broker by position. Nothing here sends a request to the broker.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.cursors.log import EntryKey, key_of
from model.events import Answer, Delivery, LoggedEntry, Stored
from model.key_shared.hashes import sticky_hash
from model.log import Position
from model.subscriptions.written import DELAY_TICKS
from model.vocabulary import ChunkNumber, Entry, HashRange


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePosition:
    topic: str
    """The real name."""
    position: Position
    batch_index: int = -1
    """-1: it is not in a batch."""
    batch_size: int = 0
    """0: it is not in a batch."""


class Positions:
    """The known positions and keys of an example's messages, and when delayed ones are due."""

    def __init__(self, *, delay_tick_ms: float | None = None) -> None:
        """``delay_tick_ms``: how exactly the broker keeps the time of delayed messages; None: it delivers at once."""
        self._delay_tick_ms = delay_tick_ms
        self._due_s: dict[str, float] = {}
        self._delayed: dict[tuple[str, Position], float] = {}
        self._found: dict[str, MessagePosition] = {}
        self._batch_sizes: dict[tuple[str, Position], int] = {}
        self._keys: dict[tuple[str, Position], EntryKey] = {}
        self._chunks: dict[tuple[str, Position], ChunkNumber] = {}
        self._begun: set[str | None] = set()
        self._unanswered: defaultdict[str, deque[tuple[str, str, Sequence[Entry]]]] = defaultdict(deque)

    def sending(self, session: str, topic: str, producer: str, entries: Sequence[Entry]) -> None:
        """Record entries that a session is sending to a topic (real name); its answers follow in that order."""
        for message in (message for entry in entries for message in entry.messages if message.delay_ms):
            if self._delay_tick_ms is not None:
                delay_ms = message.delay_ms + DELAY_TICKS * self._delay_tick_ms
                self._due_s[message.business_id] = time.monotonic() + delay_ms / 1000
        self._unanswered[session].append((topic, producer, entries))

    def answered(self, session: str, answers: Sequence[Answer]) -> None:
        """Record the answers to a session's oldest unanswered send."""
        topic, producer, entries = self._unanswered[session].popleft()
        for entry, answer in zip(entries, answers, strict=True):
            if isinstance(answer, Stored):
                self._store(topic, answer.position, entry)
                self._keys[topic, answer.position] = key_of(entry, producer)

    def read_back(self, topic: str, log: Sequence[LoggedEntry]) -> None:
        """Record what was read from a log. Receipts name only the sequence id, which all chunks of a message share, so
        with duplicates among these it may be another one that was stored."""
        names = {at.position: name for name, at in self._found.items() if at.topic == topic and at.batch_size == 0}
        others = [one for one in log if names.get(one.position) not in (None, one.entry.messages[0].business_id)]
        for one in others:
            del self._found[names[one.position]]
        for one in others:
            self._store(topic, one.position, one.entry)
            self._keys[topic, one.position] = key_of(one.entry, one.producer)
        for one in log:  # those that another cluster's producers sent, or whose receipt was lost
            self._keys.setdefault((topic, one.position), key_of(one.entry, one.producer))

    def _store(self, topic: str, position: Position, entry: Entry) -> None:
        if entry.chunk is not None:
            self._chunks[topic, position] = entry.chunk
        size = len(entry.messages) if entry.is_batch else 0
        self._batch_sizes[topic, position] = size
        if (due_s := self._due_s.get(entry.messages[0].business_id)) is not None:
            self._delayed[topic, position] = due_s
        for index, message in enumerate(entry.messages):
            self._found[message.business_id] = MessagePosition(
                topic=topic, position=position, batch_index=index if size else -1, batch_size=size
            )

    def entries_before(self, topic: str, position: Position) -> list[Position]:
        """The known entries of a topic before a position, the nearest first."""
        return sorted((at for where, at in self._batch_sizes if where == topic and at < position), reverse=True)

    def entries_after(self, topic: str, position: Position) -> list[Position]:
        """The known entries of a topic after a position, in order."""
        return sorted(at for where, at in self._batch_sizes if where == topic and at > position)

    def last_before(self, topic: str, position: Position) -> Delivery | None:
        """The last known message before a position."""
        entry = next(iter(self.entries_before(topic, position)), None)
        found = [(one, name) for name, one in self._found.items() if (one.topic, one.position) == (topic, entry)]
        if not found:
            return None
        last, name = max(found, key=lambda one: one[0].batch_index)
        return Delivery(last.position, last.batch_index, last.batch_size, name)

    def delivered(self, topic: str, message: Delivery) -> None:
        """Record a delivery, which locates messages whose receipt was lost."""
        if (chunk := self._chunks.get((topic, message.position))) is not None:
            self._begun.add(chunk.uuid)
        self._batch_sizes.setdefault((topic, message.position), message.batch_size)
        self._found.setdefault(
            message.business_id,
            MessagePosition(
                topic=topic,
                position=message.position,
                batch_index=message.batch_index,
                batch_size=message.batch_size,
            ),
        )

    def find(self, business_id: str, *, topic: str) -> MessagePosition | None:
        """The position of a message; None if it is not known to be in this topic."""
        found = self._found.get(business_id)
        return found if found is not None and found.topic == topic else None

    def batch_size(self, topic: str, position: Position) -> int | None:
        """How many messages an entry has; 0 if it is no batch, None if unknown."""
        return self._batch_sizes.get((topic, position))

    def has_key(self, topic: str, position: Position) -> bool:
        """Whether an entry is known to have a key."""
        found = self._keys.get((topic, position))
        return found is not None and found.key is not None

    def begun(self, topic: str, positions: Iterable[Position]) -> frozenset[Position]:
        """The chunks among these entries whose message has other chunks, delivered or not among these entries."""
        chunks = {position: chunk for position in positions if (chunk := self._chunks.get((topic, position)))}
        there = Counter(chunk.uuid for chunk in chunks.values())
        return frozenset(
            position
            for position, chunk in chunks.items()
            if chunk.uuid in self._begun or there[chunk.uuid] < chunk.chunks
        )

    def not_due(self, topic: str, positions: Iterable[Position]) -> frozenset[Position]:
        """The delayed messages among these entries whose time may not have come."""
        now_s = time.monotonic()
        return frozenset(position for position in positions if self._delayed.get((topic, position), 0.0) > now_s)

    def all_due_in_s(self, topic: str) -> float:
        """The time until all delayed messages of a topic are due; 0 if they are."""
        due_s = max((due_s for (where, _), due_s in self._delayed.items() if where == topic), default=0.0)
        return max(0.0, due_s - time.monotonic())

    def hash_of(self, topic: str, position: Position, within: HashRange) -> int | None:
        """The sticky key hash of an entry within a range; None if unknown."""
        key = self._keys.get((topic, position))
        return None if key is None else sticky_hash(key.hashed_by, within)
