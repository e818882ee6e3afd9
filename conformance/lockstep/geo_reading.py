"""Reads back what several clusters have of one topic: logs with their markers, and subscriptions.

What an entry says never changes, so each is read once. A reading waits until the clusters write nothing more for one
another: until what they say of themselves has stood still for some snapshot periods. On a topic that takes part in
nothing that is at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import permutations
from typing import Final

from conformance.clusters import Cluster
from conformance.lockstep.geo_world import PERIOD_MS, GeoWorld
from conformance.systems.admin_http import AdminError
from conformance.systems.admin_types import InternalStats, RestEntry
from conformance.systems.deadline import Deadline
from conformance.systems.markers import read_marker
from conformance.systems.stored_log import stored_positions
from conformance.trouble import Trouble
from model.log import Position
from model.replication.words import ClusterRead, ClustersRead, GeoCursor, GeoEntry

STILL_PERIODS: Final = 5
"""For how many snapshot periods nothing may change until a reading counts as quiet."""

QUIET_TIMEOUT_S: Final = 20.0
"""How long a reading waits for that; then what there is will do: it is judged by what it shows."""

_PAUSE_S: Final = PERIOD_MS / 1000


class Reading:
    """Reads one topic, any number of times."""

    def __init__(self, world: GeoWorld, labels: Sequence[str], topic: str) -> None:
        """``topic`` by its real name, which is the same in all clusters."""
        self._world = world
        self._labels = tuple(labels)
        self._topic = topic
        self._entries: dict[tuple[str, Position], GeoEntry] = {}

    def quiet(self) -> ClustersRead:
        """Read everything, once nothing changes any more."""
        deadline = Deadline.after(QUIET_TIMEOUT_S)
        last, stands_since = self._accounts(), time.monotonic()
        while not deadline.passed and time.monotonic() - stands_since < STILL_PERIODS * PERIOD_MS / 1000:
            time.sleep(_PAUSE_S)
            now = self._accounts()
            if now != last:
                last, stands_since = now, time.monotonic()
        is_still = time.monotonic() - stands_since >= STILL_PERIODS * PERIOD_MS / 1000
        is_cut = any(self._world.is_cut(link) for link in permutations(self._labels, 2))
        return self._now(is_quiet=is_still and not is_cut)

    def _now(self, *, is_quiet: bool) -> ClustersRead:
        read = {label: self._cluster(label) for label in self._labels}
        links = permutations(self._labels, 2)
        return ClustersRead(
            clusters=read,
            reconnected=tuple(link for link in links if self._world.has_reconnected(link, self._topic)),
            consumed=tuple(
                (name, label)
                for label in self._labels
                for name, told in self._cluster_of(label).admin.stats(self._topic).subscriptions.items()
                if told.consumers and told.consumers[0].available_permits > 0
            ),
            is_quiet=is_quiet,
        )

    def messages(self, label: str) -> dict[str, Position]:
        """The messages that a cluster has, each with where it stands first."""
        found: dict[str, Position] = {}
        for entry in self._log(label):
            if entry.message is not None:
                found.setdefault(entry.message, entry.position)
        return found

    def mark_delete(self, label: str, subscription: str) -> Position | None:
        """Where a subscription is; None if the cluster has none of that name."""
        told = self._internal(label).cursors.get(subscription)
        return None if told is None else Position.parse(told.mark_delete_position)

    def _accounts(self) -> list[tuple[str, dict[str, str]]]:
        told = [self._internal(label) for label in self._labels]
        return [
            (one.last_confirmed_entry, {name: cursor.mark_delete_position for name, cursor in one.cursors.items()})
            for one in told
        ]

    def _cluster_of(self, label: str) -> Cluster:
        return self._world.clusters.cluster(label)

    def _internal(self, label: str) -> InternalStats:
        deadline = Deadline.after(QUIET_TIMEOUT_S)
        while True:
            try:
                return self._cluster_of(label).admin.internal_stats(self._topic)
            except AdminError as error:  # a topic that is being loaded
                if error.status < 500 or deadline.passed:
                    raise Trouble(f"cluster {label} does not say what it has of {self._topic}: {error}") from error
            time.sleep(_PAUSE_S)

    def _cluster(self, label: str) -> ClusterRead:
        # The cursors first: what they have passed is then in the log that is read behind them.
        cursors = self._cursors(label)
        return ClusterRead(entries=tuple(self._log(label)), cursors=cursors)

    def _cursors(self, label: str) -> tuple[GeoCursor, ...]:
        internal = self._internal(label)
        stats = self._cluster_of(label).admin.stats(self._topic).subscriptions
        return tuple(
            GeoCursor(
                subscription=name,
                mark_delete=Position.parse(cursor.mark_delete_position),
                acknowledged=tuple((one.after, one.last) for one in cursor.acknowledged_ranges),
                backlog=stats[name].backlog,
                is_replicated=stats[name].replicated,
            )
            for name, cursor in internal.cursors.items()
            if name in stats
        )

    def _log(self, label: str) -> list[GeoEntry]:
        positions = stored_positions(self._internal(label))
        return [self._entry(label, position) for position in positions]

    def _entry(self, label: str, position: Position) -> GeoEntry:
        if (label, position) not in self._entries:
            read = self._cluster_of(label).admin.read_entry(self._topic, position)
            self._entries[label, position] = self._told(label, read)
        return self._entries[label, position]

    def _told(self, label: str, read: RestEntry) -> GeoEntry:
        labels = self._world.labels_by_name
        marker = read_marker(read, labels)
        is_message = read.marker_type is None
        return GeoEntry(
            position=read.position,
            origin=label if read.replicated_from is None else labels[read.replicated_from],
            published_ms=read.publish_time_ms,
            message=read.payload.decode() if is_message else None,
            marker=marker,
        )
