"""The logs of all clusters as they were read back: messages by business id, snapshots put together from markers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from model.log import Position
from model.replication.words import (
    ClusterRead,
    GeoCursor,
    GeoEntry,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response in a log: at which index, from which cluster, and the position that it tells."""

    index: int
    cluster: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSeen:
    """A snapshot of one cluster, as its own log has it: the indexes of its requests, the answers, and the result."""

    name: str
    requests: tuple[int, ...]
    answers: tuple[Answer, ...]
    taken: SnapshotTaken | None
    taken_index: int | None


@dataclass(frozen=True)
class Log:
    """One cluster's log of a topic, and its subscriptions."""

    cluster: str
    read: ClusterRead

    @property
    def entries(self) -> tuple[GeoEntry, ...]:
        """Everything that is stored, in its order."""
        return self.read.entries

    @cached_property
    def _positions(self) -> list[Position]:
        return [entry.position for entry in self.entries]

    def count_up_to(self, position: Position) -> int:
        """How many entries there are up to a position, that one included."""
        return bisect_right(self._positions, position)

    def messages(self, origin: str | None = None) -> tuple[str, ...]:
        """The messages that were published at one cluster, or at any, in the order of this log."""
        return tuple(
            entry.message
            for entry in self.entries
            if entry.message is not None and (origin is None or entry.origin == origin)
        )

    def passed(self, cursor: GeoCursor) -> frozenset[str]:
        """The messages that a subscription holds for acknowledged."""
        return frozenset(
            entry.message for entry in self.entries if entry.message is not None and is_passed(cursor, entry.position)
        )

    def cursor(self, subscription: str) -> GeoCursor | None:
        """The subscription of this name, if this cluster has it."""
        return next((one for one in self.read.cursors if one.subscription == subscription), None)

    @cached_property
    def snapshots(self) -> tuple[SnapshotSeen, ...]:
        """The snapshots that this cluster began, in the order in which it did."""
        return tuple(self._snapshot(name) for name in dict.fromkeys(self._begun()))

    def _begun(self) -> Iterator[str]:
        for entry in self.entries:
            if isinstance(entry.marker, SnapshotRequest) and entry.origin == self.cluster:
                yield entry.marker.snapshot

    def _snapshot(self, name: str) -> SnapshotSeen:
        requests: list[int] = []
        answers: list[Answer] = []
        taken: SnapshotTaken | None = None
        taken_index: int | None = None
        for index, entry in enumerate(self.entries):
            match entry.marker:
                case SnapshotRequest(snapshot) if snapshot == name and entry.origin == self.cluster:
                    requests.append(index)
                case SnapshotResponse(snapshot, cluster, position) if snapshot == name:
                    answers.append(Answer(index=index, cluster=cluster, position=position))
                case SnapshotTaken(snapshot) if snapshot == name and taken is None:
                    taken, taken_index = entry.marker, index
                case _:
                    pass
        return SnapshotSeen(
            name=name, requests=tuple(requests), answers=tuple(answers), taken=taken, taken_index=taken_index
        )

    def updates(self, subscription: str) -> tuple[tuple[int, SubscriptionUpdated], ...]:
        """The updates that this cluster published of a subscription, with their indexes."""
        return tuple(
            (index, entry.marker)
            for index, entry in enumerate(self.entries)
            if isinstance(entry.marker, SubscriptionUpdated)
            and entry.origin == self.cluster
            and entry.marker.subscription == subscription
        )


Logs = Mapping[str, Log]
"""The logs by the clusters' labels."""


def is_passed(cursor: GeoCursor, position: Position) -> bool:
    """Whether a subscription holds a position for acknowledged."""
    return position <= cursor.mark_delete or any(after < position <= last for after, last in cursor.acknowledged)
