"""The replicated subscriptions of all clusters: which take part (REPL-18), and which snapshots their updates have.

These are snapshots that the caches of their dispatchers held (REPL-11, REPL-12).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from model.cluster_events import ClusterCursor
from model.log import Position
from model.replication.evidence import (
    EXCUSED,
    CheckResult,
    Evicted,
    Finding,
    MarkersOfNone,
    MovedByOthers,
    NotPublished,
)
from model.replication.logs import Log, Logs, is_passed
from model.replication.tracked import ReplicatedTopic
from model.rules.catalogue import carries


@carries("REPL-18")
def only_what_takes_part(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A topic without replication, or without a replicated subscription, has no markers.

    A subscription that is not replicated exists in no other cluster. Updates of its name do not move it.
    """
    for log in topic.left(logs):
        cluster = log.cluster
        for cursor in log.read.cursors:
            is_plain = not cursor.is_replicated and topic.own.get((cursor.subscription, cluster)) is False
            if is_plain and topic.is_replicated_subscription(cursor.subscription):
                yield _moved(topic, log, cursor)
            if (cursor.subscription, cluster) in topic.own:
                continue
            may_come = any(target == cluster for _, target in topic.links_so_far)
            if not (may_come and topic.is_replicated_subscription(cursor.subscription)):
                yield f"{cluster} has subscription {cursor.subscription} of another cluster, but it is not replicated"
    yield from _unasked_markers(topic, logs)
    for (subscription, _), is_replicated in topic.own.items():
        if not is_replicated and not topic.is_replicated_subscription(subscription):
            yield None


def _moved(topic: ReplicatedTopic, log: Log, cursor: ClusterCursor) -> CheckResult:
    """Whether anything but the acks of its own consumers moved a subscription that is not replicated."""
    if any(one.at == (cursor.subscription, log.cluster) for one in topic.administered):
        return EXCUSED
    own = topic.acknowledged_at.get((cursor.subscription, log.cluster), frozenset())
    because = f"{cursor.subscription} has more messages acknowledged in {log.cluster} than its own consumers acked"
    by_others = log.passed(cursor) - own
    return Finding(because, MovedByOthers(log.cluster, cursor, by_others)) if by_others else None


def _unasked_markers(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """The markers of a topic that is to have none."""
    takes_part = not topic.own or any(topic.own.values())
    for log in topic.left(logs):
        cluster = log.cluster
        is_alone = cluster not in {source for source, _ in topic.links_so_far}
        if takes_part and not is_alone:
            continue
        why = "the topic is not replicated" if is_alone else "no subscription is replicated"
        is_reached = takes_part and any(target == cluster for _, target in topic.links_so_far)
        markers = [one for one in log.entries if one.marker is not None and not (is_reached and one.origin != cluster)]
        because = f"{why}, but the log of {cluster} has {len(markers)} markers"
        yield Finding(because, MarkersOfNone(cluster, tuple(markers))) if markers else None


@carries("REPL-12")
def updates_are_snapshots_that_were_passed(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """An update has the positions of a snapshot that mark-delete has passed, and each update those of a later one.

    A killed broker may lose progress and pass a snapshot again. Cursors are read before the log, so they may lack an
    update that arrived after the read began.
    """
    read_ms = topic.read.at_ms if topic.read is not None and topic.read.at_ms else math.inf
    for log in logs.values():
        known_until_ms = -math.inf if log.cluster in topic.killed else read_ms
        for cursor in log.read.cursors:
            yield from _updates_of(log, cursor, known_until_ms)


def _updates_of(log: Log, cursor: ClusterCursor, known_until_ms: float) -> Iterator[CheckResult]:
    latest = -1
    for index, update in log.updates(cursor.subscription):
        at = log.entries[index].position
        alike = log.taken_with(update.positions)
        # Concurrent snapshots may have the same positions. The update may be of any complete one.
        complete_by_then = [one for one in alike if one[0] < index]
        if not alike:
            listed = _listed(update.positions)
            yield f"the update of {cursor.subscription} by {log.cluster} at {at} has {listed}, which is no snapshot"
        elif not complete_by_then:
            yield f"the update of {cursor.subscription} by {log.cluster} at {at} has a snapshot that was not complete"
        elif log.entries[index].published_ms >= known_until_ms:
            yield None
        elif not is_passed(cursor, local := complete_by_then[0][1].local):
            yield (
                f"the update of {cursor.subscription} by {log.cluster} at {at} has the snapshot at {local}, but "
                f"the mark-delete position is {cursor.mark_delete}"
            )
        elif complete_by_then[-1][0] < latest:
            yield f"the update of {cursor.subscription} by {log.cluster} at {at} has an older snapshot than the last"
        else:
            latest = complete_by_then[0][0]
            yield None


@carries("REPL-12")
def the_latest_is_published(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """A snapshot that was cached before mark-delete passed it was published since, or a later one was.

    This is judged only for subscriptions with consumers in one cluster, and for the last snapshots, which later ones
    did not evict from the cache. A snapshot before the last message of a consumer was cached by then. A snapshot after
    its first unacknowledged message had not been passed.
    """
    if not topic.is_quiet:
        return
    for (subscription, cluster), reads in topic.reads.items():
        log, others = logs[cluster], [other for label, other in logs.items() if label != cluster]
        cursor = log.cursor(subscription)
        if cursor is None or any(other.updates(subscription) for other in others):
            continue
        meant = [(at, log.taken_with(update.positions)[-1:]) for at, update in log.updates(subscription)]
        updates = [(at, one.local) for at, last in meant for _, one in last]
        published = max((local for _, local in updates), default=None)
        for index, snapshot in sorted(log.taken, key=lambda one: one[1].local)[-topic.made.cached :]:
            was_cached = any(ahead.first <= snapshot.local and index < log.count_up_to(ahead.last) for ahead in reads)
            if not was_cached or snapshot.local > cursor.mark_delete:
                continue
            if published is None or published < snapshot.local:
                because = (
                    f"{cluster} has {subscription} at {cursor.mark_delete} and had cached the earlier snapshot at "
                    f"{snapshot.local}, but its last update is {f'at {published}' if published else 'missing'}"
                )
                yield Finding(because, NotPublished(subscription, cluster, index))
            else:
                yield None


@carries("REPL-11")
def updates_are_cached_snapshots(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """An update never has a snapshot that later ones had evicted from the cache, the oldest first.

    Whichever it evicts: of the snapshots that were read before an update, no more than the cache holds are in that
    update and later ones.
    """
    for (subscription, cluster), reads in topic.reads.items():
        log = logs[cluster]
        for ahead in reads:
            read = log.count_up_to(ahead.last)
            kept = [one for at, one in log.taken if at < read and one.local >= ahead.first]
            if len(kept) > topic.made.cached:
                yield None
        published: list[tuple[int, int, Position]] = []
        for index, update in log.updates(subscription):
            alike = log.taken_with(update.positions)
            by_then = [one.last for one in reads if one.begun_ms <= log.entries[index].published_ms]
            if not alike or not by_then:
                continue
            read, at = log.count_up_to(max(by_then)), log.entries[index].position
            published.append((read, alike[-1][0], at))
            later = [one for taken, one in log.taken if alike[-1][0] < taken < read]
            if len(later) >= topic.made.cached:
                because = (
                    f"the update of {subscription} by {cluster} at {at} has a snapshot that {len(later)} "
                    f"later ones had evicted from its cache of {topic.made.cached}"
                )
                yield Finding(because, Evicted())
        yield from _more_than_cached(f"{subscription} by {cluster}", published, topic.made.cached)


def _more_than_cached(whose: str, published: Sequence[tuple[int, int, Position]], cached: int) -> Iterator[str]:
    """``published``: of each update, how many entries were read by then, which snapshot it has, and where it is."""
    for number, (read, _, at) in enumerate(published):
        had = {taken for _, taken, _ in published[number:] if taken < read}
        if len(had) > cached:
            yield (
                f"the updates of {whose} from {at} on have {len(had)} different snapshots that were read before, "
                f"more than its cache of {cached}"
            )
            return


def _listed(positions: Mapping[str, Position]) -> str:
    return ", ".join(f"{cluster} {position}" for cluster, position in sorted(positions.items()))
