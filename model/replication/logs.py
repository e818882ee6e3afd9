"""The logs of all clusters as they were read back: messages by business id, snapshots from their markers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from model.cluster_events import (
    ClusterCursor,
    ClusterEntry,
    ClusterRead,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)
from model.log import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response in a log: its index, its cluster, and the position that it contains."""

    index: int
    cluster: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSeen:
    """A snapshot in its cluster's own log: the indexes of its requests, the responses, and the result."""

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
    def entries(self) -> tuple[ClusterEntry, ...]:
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

    def passed(self, cursor: ClusterCursor) -> frozenset[str]:
        """The messages that a subscription has acknowledged."""
        return frozenset(
            entry.message for entry in self.entries if entry.message is not None and is_passed(cursor, entry.position)
        )

    def cursor(self, subscription: str) -> ClusterCursor | None:
        """The subscription of this name, if this cluster has it."""
        return next((one for one in self.read.cursors if one.subscription == subscription), None)

    @cached_property
    def snapshots(self) -> tuple[SnapshotSeen, ...]:
        """The snapshots that this cluster began, in order."""
        requests: dict[str, list[int]] = {}
        answers: dict[str, list[Answer]] = {}
        taken: dict[str, tuple[int, SnapshotTaken]] = {}
        for index, entry in enumerate(self.entries):
            match entry.marker:
                case SnapshotRequest(name) if entry.origin == self.cluster:
                    requests.setdefault(name, []).append(index)
                case SnapshotResponse(name, cluster, position):
                    answers.setdefault(name, []).append(Answer(index=index, cluster=cluster, position=position))
                case SnapshotTaken(name) as complete:
                    taken.setdefault(name, (index, complete))
                case _:
                    pass
        return tuple(
            SnapshotSeen(
                name=name,
                requests=tuple(requested),
                answers=tuple(answers.get(name, ())),
                taken=taken[name][1] if name in taken else None,
                taken_index=taken[name][0] if name in taken else None,
            )
            for name, requested in requests.items()
        )

    @cached_property
    def requested(self) -> Mapping[str, Sequence[ClusterEntry]]:
        """The requests in this log, by the name of their snapshot, whichever cluster began it."""
        found: dict[str, list[ClusterEntry]] = {}
        for entry in self.entries:
            if isinstance(entry.marker, SnapshotRequest):
                found.setdefault(entry.marker.snapshot, []).append(entry)
        return found

    @cached_property
    def responded(self) -> frozenset[tuple[str, Position]]:
        """The responses of this cluster in its log: the name of the snapshot, and the position in it."""
        markers = (entry.marker for entry in self.entries)
        responses = (one for one in markers if isinstance(one, SnapshotResponse) and one.cluster == self.cluster)
        return frozenset((one.snapshot, one.position) for one in responses)

    @cached_property
    def taken(self) -> tuple[tuple[int, SnapshotTaken], ...]:
        """The complete snapshots that this cluster began, each with its index, in the order of this log."""
        seen = ((one.taken_index, one.taken) for one in self.snapshots)
        return tuple(sorted(((at, one) for at, one in seen if at is not None and one is not None), key=itemgetter(0)))

    @cached_property
    def _taken_with(self) -> dict[frozenset[tuple[str, Position]], list[tuple[int, SnapshotTaken]]]:
        found: dict[frozenset[tuple[str, Position]], list[tuple[int, SnapshotTaken]]] = {}
        for index, one in self.taken:
            found.setdefault(frozenset(one.positions.items()), []).append((index, one))
        return found

    def taken_with(self, positions: Mapping[str, Position]) -> Sequence[tuple[int, SnapshotTaken]]:
        return self._taken_with.get(frozenset(positions.items()), ())

    def up_to(self, position: Position | None) -> frozenset[str]:
        """The messages up to a position, that one included; none up to None."""
        count = 0 if position is None else self.count_up_to(position)
        return frozenset(entry.message for entry in self.entries[:count] if entry.message is not None)

    def updated_to(self, subscription: str) -> tuple[Position, ...]:
        """The positions of this cluster in the updates of a subscription that reached it, in order.

        The first of these updates creates a missing subscription.
        """
        markers = (entry.marker for entry in self.entries if entry.origin != self.cluster)
        updates = (one for one in markers if isinstance(one, SubscriptionUpdated) and one.subscription == subscription)
        return tuple(at for one in updates if (at := one.positions.get(self.cluster)) is not None)

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


def is_passed(cursor: ClusterCursor, position: Position) -> bool:
    """Whether a subscription has acknowledged a position."""
    return position <= cursor.mark_delete or any(after < position <= last for after, last in cursor.acknowledged)


def updated_to(logs: Logs, subscription: str, cluster: str) -> Position | None:
    """The highest position of a cluster in the others' last updates of a subscription, if there is one."""
    last = (log.updates(subscription)[-1:] for label, log in logs.items() if label != cluster)
    return max((at for one in last for _, update in one if (at := update.positions.get(cluster))), default=None)
