"""Reads back one topic in several clusters: logs with their markers, and subscriptions.

An entry never changes, so each is read once. A reading waits until the clusters are quiet: every replicator has sent
everything, and the stats have been the same for some snapshot periods. A topic without replication is quiet at once, or
never.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from conformance.clients.admin.http import AdminError
from conformance.clients.admin.markers import read_marker
from conformance.clients.admin.stored_log import last_stored, stored_positions
from conformance.clients.admin.types import InternalStats, ReplicationStats, RestEntry
from conformance.clusters import RunningCluster
from conformance.harness_error import HarnessError
from conformance.lockstep.clusters import PERIOD_MS, Link, ReplicationWorld, now_ms
from conformance.wait import Deadline, retry
from model.cluster_events import ClusterCursor, ClusterEntry, ClusterRead, ClustersRead
from model.log import EARLIEST, Position
from model.payloads import business_id_of
from model.replication.logs import Log, SnapshotSeen, is_passed
from model.vocabulary import REPLICATOR

STILL_PERIODS: Final = 3
"""A topic is quiet after so many snapshot periods without a change."""

QUIET_TIMEOUT_S: Final = 20.0
"""How long a reading waits for that; after that the model judges what there is."""

ALONE_TIMEOUT_S: Final = 2 * STILL_PERIODS * PERIOD_MS / 1000
"""The same for a topic that is not replicated. Later markers never end (`request-without-remote-cluster`)."""

_STILL_S: Final = STILL_PERIODS * PERIOD_MS / 1000
_PAUSE_S: Final = PERIOD_MS / 1000

MARKERS_TIMEOUT_S: Final = 3.0
"""How long a dispatcher may take to read the last markers; a cluster without responses writes more and more."""

READ_TIMEOUT_S: Final = 20.0
"""How long one cluster's log may take to be read. If the machine is too busy to complete snapshots in time, three
clusters begin new ones and write markers without end."""

READERS: Final = 4
"""How many entries are requested at once: each takes a request, and three clusters write thousands of markers."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The stats of all clusters: the ends of their logs, their cursors and their replicators."""

    logs: list[tuple[str, dict[str, str]]]
    replicators: dict[Link, ReplicationStats]

    def are_through(self, links: Iterable[Link]) -> bool:
        """Whether the replicators of these links are connected and have sent everything."""
        stats = [self.replicators.get(link) for link in links]
        return all(one is not None and one.is_through for one in stats)


class TooMuchToRead(HarnessError):
    """A cluster's log is too large to be read in time; a later reading continues it."""


class Reading:
    """Reads one topic, any number of times."""

    def __init__(self, world: ReplicationWorld, labels: Sequence[str], topic: str, links: Sequence[Link]) -> None:
        """``topic``: its real name, the same in all clusters. ``links``: those that replicate it."""
        self._world = world
        self._labels = tuple(labels)
        self.topic: Final = topic
        self.links = tuple(links)
        self._before: dict[str, ClusterRead] = {}
        """What clusters had before they were lost."""
        self._entries: dict[tuple[str, Position], ClusterEntry] = {}

    @property
    def _links(self) -> tuple[Link, ...]:
        """The links between clusters that are not lost."""
        return tuple(link for link in self.links if self._world.lost.keys().isdisjoint(link))

    @property
    def _live(self) -> list[str]:
        return [label for label in self._labels if label not in self._world.lost]

    def remember(self, label: str) -> None:
        """Keep what a cluster has, which is about to be lost."""
        self._before[label] = self._cluster(label)

    def forget(self, label: str) -> None:
        """A cluster has lost what it had."""
        self._entries = {at: entry for at, entry in self._entries.items() if at[0] != label}

    def quiet(self, *, closed: Set[str] = frozenset()) -> ClustersRead:
        """Read everything once the topic is quiet.

        It does not wait for a link that is cut or held, where clusters begin snapshots without responses. Nor does it
        wait for ``closed`` clusters: they closed the replicators of an idle topic and need not open them again.
        It waits for a healed link, whose replicator reconnects after its backoff.
        """
        clusters = self._world.clusters
        if any(clusters.is_cut(*link) or clusters.is_held(*link) for link in self._links):
            return self._now(is_quiet=False)
        awaited = [link for link in self._links if link[0] not in closed]
        deadline = Deadline.after(QUIET_TIMEOUT_S if self._links else ALONE_TIMEOUT_S)
        last, stands_since = self._look(), time.monotonic()

        def is_quiet() -> bool:
            return time.monotonic() - stands_since >= _STILL_S and last.are_through(awaited)

        while not is_quiet() and not deadline.passed:
            time.sleep(_PAUSE_S)
            now = self._look()
            if now != last:
                last, stands_since = now, time.monotonic()
        read = self._now(is_quiet=is_quiet() and last.are_through(self._links))
        deadline = Deadline.after(MARKERS_TIMEOUT_S)
        while read.is_quiet and _leaves_only_markers(read) and not deadline.passed:
            time.sleep(_PAUSE_S)
            read = self._now(is_quiet=True)
        return read

    def _now(self, *, is_quiet: bool) -> ClustersRead:
        at_ms = now_ms()
        live = self._live
        read = {label: self._cluster(label) if label in live else self._before[label] for label in self._labels}
        return ClustersRead(
            clusters=read,
            reconnected=tuple(link for link in self.links if self.has_reconnected(link)),
            consumed=tuple(
                (name, label)
                for label in live
                for name, stats in self._cluster_of(label).admin.stats(self.topic).subscriptions.items()
                if stats.consumers and stats.consumers[0].available_permits > 0
            ),
            is_quiet=is_quiet,
            closed=self._world.closed(self._labels, self.topic),
            at_ms=at_ms,
        )

    def messages(self, label: str) -> dict[str, Position]:
        """The messages of a cluster, each with its first position."""
        found: dict[str, Position] = {}
        for entry in self._log(label):
            if entry.message is not None:
                found.setdefault(entry.message, entry.position)
        return found

    def snapshots(self, label: str, *, after: str | None = None) -> tuple[SnapshotSeen, ...]:
        """The snapshots that a cluster began, all or those after a message, with their markers in its log."""
        entries = self._log(label)
        first = next((index for index, one in enumerate(entries) if one.message == after), len(entries))
        found = Log(label, ClusterRead(entries=tuple(entries), cursors=())).snapshots
        return tuple(one for one in found if after is None or one.requests[0] > first)

    def began_ms(self, label: str, snapshot: SnapshotSeen) -> int:
        """When a cluster began a snapshot, by the broker's clock, in milliseconds since 1970."""
        return self._log(label)[snapshot.requests[0]].published_ms

    def ends(self) -> dict[str, Position]:
        """The position of the last entry of each cluster that has entries."""
        # Not the last confirmed position: in a new ledger that may be before the first entry, which no cursor reaches.
        last = {label: last_stored(self._internal(label)) for label in self._live}
        return {label: position for label, position in last.items() if position is not None}

    def left(self, ends: Mapping[str, Position]) -> dict[Link, Position]:
        """The links that have not replicated everything up to these ends, and the positions of their replicators.

        The ends are fixed because each snapshot stores more entries.
        """
        replicators = {link: REPLICATOR + self._cluster_of(link[1]).name for link in self._links}
        passed = {link: self.mark_delete(link[0], name) or EARLIEST for link, name in replicators.items()}
        return {link: at for link, at in passed.items() if at < ends.get(link[0], EARLIEST)}

    def not_replicated(self, link: Link) -> tuple[str, ...]:
        """The messages published at the source of a link after the last one that the target has."""
        source, target = link
        there = self.messages(target)
        own = [entry.message for entry in self._log(source) if entry.message is not None and entry.origin == source]
        replicated = max((index + 1 for index, message in enumerate(own) if message in there), default=0)
        return tuple(own[replicated:])

    def has_reconnected(self, link: Link) -> bool:
        """Whether the topic's replicator has reconnected over a link."""
        return self._world.has_reconnected(link, self.topic)

    def mark_delete(self, label: str, subscription: str) -> Position | None:
        """A subscription's mark-delete position; None if the cluster has no such subscription."""
        cursor = self._internal(label).cursors.get(subscription)
        return None if cursor is None else Position.parse(cursor.mark_delete_position)

    def cursor(self, label: str, subscription: str) -> ClusterCursor | None:
        """A subscription in a cluster, None if there is none."""
        return next((one for one in self._cursors(label) if one.subscription == subscription), None)

    def _look(self) -> _Look:
        stats = [self._internal(label) for label in self._live]
        logs = [
            (one.last_confirmed_entry, {name: cursor.mark_delete_position for name, cursor in one.cursors.items()})
            for one in stats
        ]
        return _Look(logs, self._world.replicators(self._labels, self.topic))

    def _cluster_of(self, label: str) -> RunningCluster:
        return self._world.clusters.cluster(label)

    def _internal(self, label: str) -> InternalStats:
        try:
            return retry(lambda: self._cluster_of(label).admin.internal_stats(self.topic), QUIET_TIMEOUT_S)
        except AdminError as error:
            raise HarnessError(f"cluster {label} does not say what it has of {self.topic}: {error}") from error

    def _cluster(self, label: str) -> ClusterRead:
        # The cursors first: the log, which is read later, then has all entries before them.
        cursors = self._cursors(label)
        return ClusterRead(entries=tuple(self._log(label)), cursors=cursors)

    def _cursors(self, label: str) -> tuple[ClusterCursor, ...]:
        internal = self._internal(label)
        stats = self._cluster_of(label).admin.stats(self.topic).subscriptions
        return tuple(
            ClusterCursor(
                subscription=name,
                mark_delete=Position.parse(cursor.mark_delete_position),
                acknowledged=tuple((one.after, one.last) for one in cursor.acknowledged_ranges),
                backlog=stats[name].backlog,
                is_replicated=stats[name].replicated,
            )
            for name, cursor in internal.cursors.items()
            if name in stats
        )

    def _log(self, label: str) -> list[ClusterEntry]:
        positions = list(stored_positions(self._internal(label)))
        admin = self._cluster_of(label).admin
        deadline = Deadline.after(READ_TIMEOUT_S)
        new = [position for position in positions if (label, position) not in self._entries]
        with ThreadPoolExecutor(READERS) as readers:
            for position, read in zip(new, readers.map(partial(admin.read_entry, self.topic), new), strict=True):
                self._entries[label, position] = self._entry(label, read)
                if deadline.passed and position != new[-1]:
                    readers.shutdown(cancel_futures=True)
                    raise TooMuchToRead(f"cluster {label} has more of {self.topic} than can be read in time")
        return [self._entries[label, position] for position in positions]

    def _entry(self, label: str, read: RestEntry) -> ClusterEntry:
        labels = self._world.labels_by_name
        marker = read_marker(read, labels)
        is_message = read.marker_type is None
        return ClusterEntry(
            position=read.position,
            origin=label if read.replicated_from is None else labels[read.replicated_from],
            published_ms=read.publish_time_ms,
            message=business_id_of(read.payload) if is_message else None,
            marker=marker,
        )


def _leaves_only_markers(read: ClustersRead) -> bool:
    """Whether a consumer has permits left, and its subscription a backlog in which there is no message."""
    return any(
        cursor.backlog and all(is_passed(cursor, one.position) for one in there.entries if one.message is not None)
        for label, there in read.clusters.items()
        for cursor in there.cursors
        if (cursor.subscription, label) in read.consumed
    )
