"""When snapshots begin: after new messages, and while all replicators are connected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from model.cluster_events import ClusterEntry
from model.replication.evidence import EXCUSED, SLACK_MS, BegunDisconnected, BegunWithoutNews, CheckResult, Finding
from model.replication.logs import Log, Logs, SnapshotSeen
from model.replication.tracked import ReplicatedTopic
from model.rules.catalogue import carries

COINCIDENCES = 2
"""How often a message may be stored in the millisecond of a snapshot's begin, if that is not a third of all."""


@carries("REPL-02")
def none_without_news(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """Between the begins of a completed snapshot and of the next one, a message is published.

    A consumer whose subscription is not replicated may end the snapshots of a cluster without a replicated one. A
    marker or a subscription then restarts them without a complete snapshot, so one begins at once.

    A message before a snapshot's request may have been stored in the millisecond in which the snapshot began, or later.
    The broker then counts it as new. The logs do not show this, so it is excused unless it happens often. Snapshots
    that begin until another one is complete have the same reason, so they count as one. A replicated message keeps the
    time of its own cluster, which says nothing about when it was stored here. Nor is it known when a cluster learned
    that its last snapshot is stored, and thus complete.
    """
    for log in logs.values():
        restarts = topic.unreplicated.get(log.cluster, 0)
        judged = 0
        coincidences: list[tuple[SnapshotSeen, SnapshotSeen]] = []
        for after in log.snapshots[1:]:
            done = _completed_before(log, after)
            if done is None:
                continue
            at = log.entries[after.requests[0]].position
            because = f"{log.cluster} began a snapshot at {at}, with nothing published since {done.name} began"
            between = log.entries[done.requests[0] : after.requests[0]]
            may_be_new = _has_message(_stored_lately(log, done.requests[0])) or _may_be_incomplete(
                log, done, after, timeout_ms=topic.made.timeout_ms
            )
            is_counted = bool(coincidences) and done is coincidences[-1][0]
            judged += not is_counted
            if _has_message(between):
                yield None
            elif restarts:
                restarts -= 1
                yield EXCUSED
            elif not may_be_new:
                yield Finding(because, BegunWithoutNews(log.cluster, ((done, after),)))
            elif is_counted:
                yield EXCUSED
            else:
                coincidences.append((done, after))
                because = f"{because}, for the {len(coincidences)}th time of {judged}"
                found = BegunWithoutNews(log.cluster, tuple(coincidences), judged)
                yield Finding(because, found) if are_often(len(coincidences), judged) else EXCUSED


def are_often(coincidences: int, judged: int) -> bool:
    """Whether these are too many to be coincidences."""
    return coincidences > COINCIDENCES and 3 * coincidences > judged


def _has_message(entries: Iterable[ClusterEntry]) -> bool:
    return any(entry.message is not None for entry in entries)


def _may_be_incomplete(log: Log, done: SnapshotSeen, after: SnapshotSeen, *, timeout_ms: float) -> bool:
    """Whether a snapshot may have been stored just after the next one began, which a message before it explains.

    One whose result came as late as its timeout may have been dropped.
    """
    since_ms = log.entries[after.requests[0]].published_ms - SLACK_MS
    surely = [
        one
        for one in log.snapshots
        if _is_before(one, after)
        and (taken_ms := _published_ms(log, one)) <= since_ms
        and taken_ms - log.entries[one.requests[0]].published_ms <= timeout_ms
    ]
    if done in surely:
        return False
    first = max((one.requests[0] for one in surely), default=0)
    # The broker may count a message that was stored just before the last sure one as new, too.
    return _has_message(log.entries[first : after.requests[0]]) or _has_message(_stored_lately(log, first))


def _is_before(one: SnapshotSeen, after: SnapshotSeen) -> bool:
    return one.taken_index is not None and one.taken_index < after.requests[0]


def _published_ms(log: Log, complete: SnapshotSeen) -> float:
    assert complete.taken_index is not None
    return log.entries[complete.taken_index].published_ms


def _stored_lately(log: Log, request: int) -> Sequence[ClusterEntry]:
    """The entries that may have been stored just before this request: those after the last old one of this cluster."""
    since_ms = log.entries[request].published_ms - SLACK_MS
    before = log.entries[:request]
    old = (n for n, entry in enumerate(before, 1) if entry.origin == log.cluster and entry.published_ms <= since_ms)
    return before[max(old, default=0) :]


def _completed_before(log: Log, snapshot: SnapshotSeen) -> SnapshotSeen | None:
    """The snapshot that was completed last before this one began."""
    done = [one for one in log.snapshots if _is_before(one, snapshot)]
    return max(done, key=lambda one: one.taken_index or 0, default=None)


@carries("REPL-03")
def none_while_disconnected(topic: ReplicatedTopic, logs: Logs) -> Iterator[CheckResult]:
    """While a replicator is not connected, its cluster begins no snapshot.

    Of a topic that is not replicated, REPL-18 judges any markers.
    """
    if not topic.is_replicated:
        return
    read_ms = topic.read.at_ms if topic.read is not None else 0
    for (source, target), cuts in topic.cut.items():
        if (source, target) not in topic.links or (source, target) in topic.changed:
            continue
        log = logs[source]
        for since_ms, until_ms in cuts:
            end_ms = until_ms if until_ms is not None else max(since_ms, read_ms)
            begun = [one.requests[0] for one in log.snapshots]
            within = [index for index in begun if since_ms < log.entries[index].published_ms < end_ms]
            new_by_ms = end_ms - 2 * topic.made.period_ms
            is_new = any(e.message and since_ms < e.published_ms < new_by_ms for e in log.entries)
            for index in within:
                at = log.entries[index].position
                because = f"{source} began a snapshot at {at} while its replicator to {target} was not connected"
                yield Finding(because, BegunDisconnected(source, index))
            if is_new and not within:
                yield None
