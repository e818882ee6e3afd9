"""The state of readers: each has a position of its own in its topic's log, which nothing else moves (ACK-20).

A client remembers the last message that it handed to the application. What comes next follows from the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.cursors.log import Place, TopicLog


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of a topic. ``after``: its next message is the first one after this place (batch index -1: after the
    whole entry)."""

    topic: str
    after: Place

    def following(self, log: TopicLog) -> Iterator[Place]:
        """The messages after its position, in order."""
        position, index = self.after.position, self.after.batch_index
        if position in log and index >= 0:
            yield from (place for place in log.places_at(position) if place.batch_index > index)
        for following in log.all_after(position):
            yield from log.places_at(following)

    def has_passed(self, place: Place) -> bool:
        """Whether a message is at or before its position."""
        position, index = self.after.position, self.after.batch_index
        if place.position != position:
            return place.position < position
        return index < 0 or place.batch_index <= index
