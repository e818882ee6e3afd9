"""The plan of a machine of chunked messages: sessions, sources, consumers, without the broker's answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from model.vocabulary import Compression, Content, Entry, Message

LIMIT_BYTES = 10240
"""The limit of the test brokers; on another one payloads are split elsewhere."""
ROOM_BYTES = LIMIT_BYTES - 12
"""What the shortest metadata leaves of it."""


@dataclass(frozen=True, slots=True)
class PayloadPick:
    """How to choose a payload: so many entries full, and so many bytes more or less."""

    rooms: int
    extra: int
    is_compressible: bool = False

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return max(1, self.rooms * ROOM_BYTES + self.extra)


@dataclass(slots=True)
class ChunkSource:
    """A producer's name, and the messages that it sends; it may have to send the last ones again."""

    name: str
    compression: Compression = "none"
    is_chunking: bool = True
    sequence_id: int = 0
    last: tuple[Entry, ...] = ()
    session: str | None = None


@dataclass(slots=True)
class ChunkPlan:
    """The plan of one example."""

    sources: dict[str, ChunkSource] = field(default_factory=dict)
    consumers: dict[str, list[str]] = field(default_factory=dict)
    _names: int = 0

    def fresh(self, letter: str) -> str:
        """A name that was not used before."""
        self._names += 1
        return f"{letter}{self._names}"

    def entries(self, source: ChunkSource, picks: list[PayloadPick]) -> tuple[Entry, ...]:
        """New messages of a source."""
        made = []
        for pick in picks:
            source.sequence_id += 1
            name = f"{source.name}{source.sequence_id}"
            content: Content = "pattern" if pick.is_compressible else "noise"
            message = Message(source.sequence_id, name, size_bytes=pick.size_bytes, content=content)
            made.append(Entry((message,)))
        source.last = tuple(made)
        return source.last
