"""The dispatcher's assignment of chunked messages to the consumers of a Shared subscription.

The dispatcher stores by uuid which consumer it sent the first chunk of a message, until it sends the last chunk. It
keeps the assignment of a consumer that left. A later chunk with an unknown uuid waits for the first chunk. Such a chunk
is stuck: it stays in the replay queue, and meanwhile the dispatcher reads nothing else.

No document says this. It is the behavior of releases, and explains some starvations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from model.vocabulary import ChunkNumber


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of one subscription.

    ``pairs``: the uuids of messages of which a consumer was sent the first chunk but not the last, with that consumer.
    ``orphaned``: those whose consumer left. ``maybe_orphaned``: those whose first chunk may have been in flight to a
    consumer that left. ``left``: the chunks of either that were unacknowledged when that consumer left. ``reassigned``:
    orphaned uuids of which another consumer was sent a first chunk. The dispatcher has sent a last one to the consumer
    that left, and may have sent it another first chunk with the same uuid.
    """

    pairs: frozenset[tuple[str, str]] = frozenset()
    orphaned: frozenset[str] = frozenset()
    maybe_orphaned: frozenset[str] = frozenset()
    left: frozenset[ChunkNumber] = frozenset()
    reassigned: frozenset[str] = frozenset()

    def sent(self, name: str, chunk: ChunkNumber) -> Assignment:
        assert chunk.uuid is not None
        pairs, orphaned, reassigned = self.pairs, self.orphaned, self.reassigned
        if chunk.chunk_id == 0:
            reassigned |= orphaned & {chunk.uuid}
            pairs, orphaned = pairs | {(chunk.uuid, name)}, orphaned - {chunk.uuid}
        if chunk.is_last:
            pairs -= {(chunk.uuid, name)}
        maybe_orphaned = self.maybe_orphaned - {chunk.uuid}
        return replace(self, pairs=pairs, orphaned=orphaned, maybe_orphaned=maybe_orphaned, reassigned=reassigned)

    def without(self, name: str, in_flight: Iterable[ChunkNumber] = (), free: Iterable[ChunkNumber] = ()) -> Assignment:
        """A consumer left, or subscribed again, which makes it another consumer.

        ``in_flight``: the chunks that it may have been sent and did not receive. ``free``: the unacknowledged chunks
        that no other consumer has.
        """
        gone = frozenset((uuid, consumer) for uuid, consumer in self.pairs if consumer == name)
        assigned = {uuid for uuid, _ in self.pairs}
        begun = {one.uuid for one in in_flight if one.chunk_id == 0 and one.uuid is not None} - assigned
        orphaned = self.orphaned | {uuid for uuid, _ in gone}
        after = replace(self, pairs=self.pairs - gone, orphaned=orphaned, maybe_orphaned=self.maybe_orphaned | begun)
        return replace(after, left=self.left | after._of_leavers(free))

    def holder(self, uuid: str | None) -> str | None:
        """The consumer that is sent the next chunk of a message."""
        return next((name for one, name in self.pairs if one == uuid), None)

    def is_stuck(self, free: Iterable[ChunkNumber]) -> bool:
        """Whether one of these unacknowledged, unassigned chunks, in the order of the log, cannot be assigned.

        The first chunk of its message may come after it, but is not read before it is dispatched.
        """
        remembered = {uuid for uuid, _ in self.pairs}
        for chunk in free:
            if chunk.chunk_id == 0 and chunk.uuid is not None:
                remembered.add(chunk.uuid)
                if chunk.uuid in self.reassigned:
                    return True
            if chunk.uuid in self.orphaned or chunk.uuid not in remembered:
                return True
        return False

    def may_be_stuck(self, free: Iterable[ChunkNumber]) -> bool:
        """Whether one of these chunks may have been assigned to a consumer that left."""
        return any(chunk.uuid in self.maybe_orphaned for chunk in free)

    def sent_to_leaver(self, free: Iterable[ChunkNumber]) -> int:
        """How many chunks the broker may have sent to a consumer that left: of these, and of those acknowledged since.

        An ack by another consumer takes none of them off the count.
        """
        return len(self.left | self._of_leavers(free))

    def _of_leavers(self, free: Iterable[ChunkNumber]) -> frozenset[ChunkNumber]:
        return frozenset(chunk for chunk in free if chunk.uuid in self.orphaned | self.maybe_orphaned)


NOTHING_SENT: Final = Assignment()
"""The assignment of a new dispatcher."""
