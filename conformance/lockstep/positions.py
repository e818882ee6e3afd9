"""Where the messages of one example stand, by their business ids: what was sent says so, and so does what is delivered.

Operations name messages by business id; the broker knows positions. Nothing is asked of the broker here.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.cursors.log import EntryKey, key_of
from model.events import Answer, Delivery, Stored
from model.key_shared.hashing import sticky_hash
from model.log import Position
from model.vocabulary import ChunkNumber, Entry, HashRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabout:
    """Where one message stands."""

    topic: str
    """The real name."""
    position: Position
    batch_index: int = -1
    """-1: it stands alone."""
    batch_size: int = 0
    """0: it stands alone."""


class Whereabouts:
    """What is known of an example's messages."""

    def __init__(self) -> None:
        self._found: dict[str, Whereabout] = {}
        self._batch_sizes: dict[tuple[str, Position], int] = {}
        self._keys: dict[tuple[str, Position], EntryKey] = {}
        self._chunks: dict[tuple[str, Position], ChunkNumber] = {}
        self._begun: set[str | None] = set()
        self._unanswered: defaultdict[str, deque[tuple[str, str, Sequence[Entry]]]] = defaultdict(deque)

    def sending(self, session: str, topic: str, producer: str, entries: Sequence[Entry]) -> None:
        """A session sent entries to a topic, by its real name; the answers come later, in the order of sending."""
        self._unanswered[session].append((topic, producer, entries))

    def answered(self, session: str, answers: Sequence[Answer]) -> None:
        """The answers to a session's oldest send that had none."""
        topic, producer, entries = self._unanswered[session].popleft()
        for entry, answer in zip(entries, answers, strict=True):
            if isinstance(answer, Stored):
                self._store(topic, answer.position, entry)
                self._keys[topic, answer.position] = key_of(entry, producer)

    def _store(self, topic: str, position: Position, entry: Entry) -> None:
        if entry.chunk is not None:
            self._chunks[topic, position] = entry.chunk
        size = len(entry.messages) if entry.is_batch else 0
        self._batch_sizes[topic, position] = size
        for index, message in enumerate(entry.messages):
            self._found[message.business_id] = Whereabout(
                topic=topic, position=position, batch_index=index if size else -1, batch_size=size
            )

    def entries_before(self, topic: str, position: Position) -> list[Position]:
        """The entries of a topic that are known and stand before a position, the nearest first."""
        return sorted((at for where, at in self._batch_sizes if where == topic and at < position), reverse=True)

    def last_before(self, topic: str, position: Position) -> Delivery | None:
        """The last message that is known to stand before a position."""
        entry = next(iter(self.entries_before(topic, position)), None)
        found = [(one, name) for name, one in self._found.items() if (one.topic, one.position) == (topic, entry)]
        if not found:
            return None
        last, name = max(found, key=lambda one: one[0].batch_index)
        return Delivery(last.position, last.batch_index, last.batch_size, name)

    def delivered(self, topic: str, message: Delivery) -> None:
        """A message was delivered; one whose answer was lost is found by that."""
        if (chunk := self._chunks.get((topic, message.position))) is not None:
            self._begun.add(chunk.uuid)
        self._batch_sizes.setdefault((topic, message.position), message.batch_size)
        self._found.setdefault(
            message.business_id,
            Whereabout(
                topic=topic,
                position=message.position,
                batch_index=message.batch_index,
                batch_size=message.batch_size,
            ),
        )

    def find(self, business_id: str, *, topic: str) -> Whereabout | None:
        """Where a message stands; None if it is not known to stand in this topic."""
        found = self._found.get(business_id)
        return found if found is not None and found.topic == topic else None

    def batch_size(self, topic: str, position: Position) -> int | None:
        """How many messages an entry holds; 0 for a single one, None where that is not known."""
        return self._batch_sizes.get((topic, position))

    def has_key(self, topic: str, position: Position) -> bool:
        """Whether an entry is known to have a key."""
        found = self._keys.get((topic, position))
        return found is not None and found.key is not None

    def begun(self, topic: str, positions: Iterable[Position]) -> frozenset[Position]:
        """Those of these entries that are chunks, of messages of which others were delivered or are not among these."""
        chunks = {position: chunk for position in positions if (chunk := self._chunks.get((topic, position)))}
        there = Counter(chunk.uuid for chunk in chunks.values())
        return frozenset(
            position
            for position, chunk in chunks.items()
            if chunk.uuid in self._begun or there[chunk.uuid] < chunk.chunks
        )

    def hash_of(self, topic: str, position: Position, within: HashRange) -> int | None:
        """What Key_Shared subscriptions go by for an entry, of these hashes; None where that is not known."""
        key = self._keys.get((topic, position))
        return None if key is None else sticky_hash(key.hashed_by, within)
