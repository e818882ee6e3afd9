"""Which consumer of a Shared subscription has the chunks of a message, as a dispatcher remembers it.

The dispatcher remembers by uuid which consumer it sent the first chunk of a message, until it sends the last chunk. It
does not forget a consumer that left. A later chunk whose uuid it does not remember waits for the first chunk. Such a
chunk is stuck: it stays in the replay queue, and meanwhile nothing else is read.

No document says this; it is what releases do, and it tells which starvation of a subscription has a known cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from model.vocabulary import ChunkNumber


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is remembered for one subscription.

    ``pairs``: the uuids of messages whose first chunk a consumer was sent, and whose last one it was not, with that
    consumer; ``orphaned``: those whose consumer has left.
    """

    pairs: frozenset[tuple[str, str]] = frozenset()
    orphaned: frozenset[str] = frozenset()

    def sent(self, name: str, chunk: ChunkNumber) -> Assignment:
        """A consumer was sent a chunk."""
        assert chunk.uuid is not None
        pairs, orphaned = self.pairs, self.orphaned
        if chunk.chunk_id == 0:
            pairs, orphaned = pairs | {(chunk.uuid, name)}, orphaned - {chunk.uuid}
        if chunk.is_last:
            pairs -= {(chunk.uuid, name)}
        return Assignment(pairs, orphaned)

    def without(self, name: str) -> Assignment:
        """A consumer left, or subscribed again under its name, which makes it another consumer."""
        gone = frozenset((uuid, consumer) for uuid, consumer in self.pairs if consumer == name)
        return replace(self, pairs=self.pairs - gone, orphaned=self.orphaned | {uuid for uuid, _ in gone})

    def holder(self, uuid: str | None) -> str | None:
        """The consumer that is sent the next chunk of a message."""
        return next((name for one, name in self.pairs if one == uuid), None)

    def is_stuck(self, free: Iterable[ChunkNumber]) -> bool:
        """Whether one of these chunks, which nobody has and nobody acknowledged, has no consumer to be sent to."""
        chunks = list(free)
        begun = {chunk.uuid for chunk in chunks if chunk.chunk_id == 0}
        remembered = begun | {uuid for uuid, _ in self.pairs}
        return any(chunk.uuid in self.orphaned or chunk.uuid not in remembered for chunk in chunks)


NOTHING_SENT: Final = Assignment()
"""What a dispatcher remembers that was just made."""
