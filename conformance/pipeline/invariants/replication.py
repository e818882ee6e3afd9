"""Document 001 over histories: messages are replicated once and in order; positions are never ahead.

Each function judges a topic in all clusters that replicate it. The logs show which messages were replicated. A
replicated subscription is judged by its cursors in every cluster, and by the consumers of all. Snapshots decide which
acks reach another cluster, so positions may lag; whether they catch up is judged only after a long time without faults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.invariants.clusters import Replicated, Way
from conformance.pipeline.invariants.cursors import are_acknowledged_by, covering_holes
from conformance.pipeline.invariants.liveness import latest_end
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Evidence, Flags, Ints, found

BEFORE_ALL = UNKNOWN_TIME
"""When messages before a subscription's beginning count as acknowledged."""


def ahead(topic: Replicated) -> Evidence:
    """REPL-14: every message that mark-delete covers in one cluster was acknowledged in some cluster.

    As for ACK-01, with messages identified across clusters, and without those before a beginning. A subscription that
    was created more than once in a cluster is not judged. A case prefers a message that is in every cluster: if one is
    missing in a cluster, every later reading covers it.
    """
    return _over_replicated_subscriptions(topic, _ahead)


def _ahead(topic: Replicated, subscription: int, number: int, due: Flags) -> Evidence:
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[CallOutcome.OK])))
    readings = topic.at(number, readings)
    logs = topic.at(number, topic.logs)
    logs = logs[are_acknowledged_by(topic, logs)]
    same = topic.of_logs(logs)
    acknowledged = np.where(due[same], topic.perhaps_acknowledged(subscription)[same], BEFORE_ALL)
    because = "mark-delete covers a message of a replicated subscription that was not acknowledged in any cluster"
    return covering_holes(topic, logs, acknowledged, readings, because, rather=topic.are_everywhere[same])


def missed_everywhere(topic: Replicated) -> Evidence:
    """REPL-14: if a replicated subscription is drained in one cluster, its messages were delivered in some cluster.

    A consumer that fails over to the drained cluster receives none of them.
    """
    return _over_replicated_subscriptions(topic, _missed_everywhere)


def _missed_everywhere(topic: Replicated, subscription: int, number: int, due: Flags) -> Evidence:
    drained = topic.at(number, topic.of(subscription, topic.rows(Kind.DRAINED, outcomes=[CallOutcome.OK])))
    if not len(drained):
        return NOTHING
    logs = topic.at(number, topic.logs)
    logs = logs[~topic.present("chunk_id")[logs] & (topic.place[logs] <= topic.place[drained[-1]])]
    logs = logs[due[topic.of_logs(logs)]]
    given = topic.same_of(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    is_given = np.append(
        topic.perhaps_acknowledged(subscription) < NEVER, False
    )  # the last one is for unknown messages
    is_given[given] = True
    bad = logs[~is_given[topic.of_logs(logs)]]
    because = "a message of a replicated subscription was never delivered in any cluster, and one has nothing left"
    return found(len(logs), bad, because, lambda rows: (rows, drained[-1]))


def left_behind(topic: Replicated) -> Evidence:
    """REPL-13: a replicated subscription reaches its position of one cluster in every other one, within a bound.

    It can only follow while later messages are published and acknowledged. So a reading is judged if there was no fault
    for ``VerificationSetting.follows_within_ns`` before it, and mark-delete of the other cluster advanced from the
    position in the first half of that time. A subscription that was set to another position is not judged.
    """
    return _over_replicated_subscriptions(topic, _left_behind)


def _left_behind(topic: Replicated, subscription: int, number: int, due: Flags) -> Evidence:
    if len(topic.of(subscription, topic.rows(Kind.SEEK))):
        return NOTHING
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[CallOutcome.OK])))
    own = _undisturbed(topic, topic.at(number, readings))
    total = NOTHING
    for other in range(len(topic.clusters)):
        if other != number:
            total += _lagging(topic, own, topic.at(other, readings), _demanded(topic, number, other, due))
    return total


def _undisturbed(topic: Replicated, readings: Ints) -> Ints:
    begun, over = topic.fault_spans.T
    at_ns = topic.invoked[readings]
    undisturbed: Ints = readings[latest_end(begun, over, at_ns) < at_ns - topic.setting.follows_within_ns]
    return undisturbed


@dataclass(frozen=True, slots=True)
class _Demanded:
    """The position that a cluster must reach, by that of another one: the furthest rows here, by ``places`` there."""

    places: Ints
    furthest: Ints


def _demanded(topic: Replicated, number: int, other: int, due: Flags) -> _Demanded:
    here, there = topic.at(number, topic.logs), topic.at(other, topic.logs)
    first, same = _first(topic, topic.of_logs(here), here), topic.of_logs(there)
    return _Demanded(topic.place[there], np.maximum.accumulate(np.where(due[same], first[same], -1)))


def _lagging(topic: Replicated, own: Ints, readings: Ints, demanded: _Demanded) -> Evidence:
    """Compare the readings in one cluster with those in another one."""
    readings = readings[np.argsort(topic.completed[readings], kind="stable")]
    within_ns = topic.setting.follows_within_ns
    judged, bad = 0, list[tuple[int, int]]()
    for row in own.tolist():
        since_ns = int(topic.invoked[row]) - within_ns
        between = np.searchsorted(topic.completed[readings], [since_ns, since_ns + within_ns // 2], side="left")
        there = readings[between[0] : between[1]]
        places = np.unique(topic.place[there[topic.invoked[there] >= since_ns]])
        if len(places) < 2:  # it did not advance
            continue
        judged += 1
        logs = int(np.searchsorted(demanded.places, places[-2], side="right"))
        furthest = int(demanded.furthest[logs - 1]) if logs else -1
        if furthest >= 0 and topic.place[furthest] > topic.place[row]:
            bad.append((furthest, row))
    because = "a replicated subscription has not reached the position that another cluster passed long ago"
    return found(judged, np.array(bad, dtype=np.int64), because, lambda pairs: pairs.T)


def _over_replicated_subscriptions(
    topic: Replicated, decide: Callable[[Replicated, int, int, Flags], Evidence]
) -> Evidence:
    """The evidence on each replicated subscription in each cluster; ``due``: the messages after its beginnings."""
    total = NOTHING
    for subscription in sorted(topic.replicated):
        due = topic.due(subscription)
        if due is not None:
            for number in range(len(topic.clusters)):
                total += decide(topic, subscription, number, due)
    return total


def _first(topic: Replicated, messages: Ints, values: Ints) -> Ints:
    """The first value of each message; -1 without one."""
    first = np.full(topic.different, -1)
    first[messages[::-1]] = values[::-1]
    return first


# ------------------------------------------------------------------------------------------------------------- messages


def not_replicated(topic: Replicated) -> Evidence:
    """REPL-01: the messages that a cluster has passed on are in the log of each other one that was read back later."""
    return _over_ways(topic, _not_replicated)


def _not_replicated(topic: Replicated, way: Way) -> Evidence:
    passed = topic.at(way.source, topic.at_a_position(topic.rows(Kind.PASSED_ON, outcomes=[CallOutcome.OK])))
    target = topic.clusters[way.target]
    if target.read_back is None:
        return NOTHING
    read = topic.row_of(way.target, target.read_back)
    passed = passed[topic.completed[passed] <= topic.invoked[read]]
    is_due = topic.place[way.sources] <= topic.place[passed].max(initial=-1)
    bad = way.sources[is_due & ~np.isin(way.own, way.copies)]
    because = "a message was passed on to all other clusters, but is not in the log of one of them"
    return found(int(np.sum(is_due)), bad, because, lambda rows: (rows, read))


def replicated_twice(topic: Replicated) -> Evidence:
    """REPL-01: under deduplication a message is in another cluster's log once.

    Without deduplication a replicator may send a message again if it received no receipt.
    """
    return _over_ways(topic, _replicated_twice)


def _replicated_twice(topic: Replicated, way: Way) -> Evidence:
    if not topic.clusters[way.target].is_deduplicated:
        return NOTHING
    stored = np.bincount(way.own, minlength=topic.different)
    _, first, group = np.unique(way.copies, return_index=True, return_inverse=True)
    is_again = (first[group] != np.arange(len(group))) & (stored[way.copies] <= 1)
    pairs = np.column_stack([way.targets[first[group]], way.targets])[is_again]
    because = "a message that was replicated is in the log for the second time, under deduplication"
    return found(len(way.targets), pairs, because, lambda pairs: pairs.T)


def replicated_out_of_order(topic: Replicated) -> Evidence:
    """REPL-01: a cluster's messages are in another one's log in the order of its own.

    The first copy of each counts.
    """
    return _over_ways(topic, _replicated_out_of_order)


def _replicated_out_of_order(topic: Replicated, way: Way) -> Evidence:
    rank = _first(topic, way.own, np.arange(len(way.own)))
    _, first = np.unique(way.copies, return_index=True)
    first = np.sort(first)
    first = first[rank[way.copies[first]] >= 0]
    rows, ranks = way.targets[first], rank[way.copies[first]]
    highest = np.maximum.accumulate(ranks)
    holder = rows[np.searchsorted(highest, highest, side="left")]
    pairs = np.column_stack([holder, rows])[ranks < highest]
    because = "a message is after another one in a remote cluster's log, but before it in its own"
    return found(len(rows), pairs, because, lambda pairs: pairs.T)


def replicated_otherwise(topic: Replicated) -> Evidence:
    """REPL-01: a message has the same payload and key in another cluster."""
    return _over_ways(topic, _replicated_otherwise)


def _replicated_otherwise(topic: Replicated, way: Way) -> Evidence:
    stored = _first(topic, way.own, way.sources)
    is_one = np.bincount(way.own, minlength=topic.different)[way.copies] == 1
    copies, there = way.targets[is_one], stored[way.copies[is_one]]
    pairs = np.column_stack([there, copies])
    pairs = pairs[topic.differ("digest", there, copies) | ~topic.keeps("key", there, copies)]
    because = "a message has another payload or key in another cluster"
    return found(len(copies), pairs, because, lambda pairs: pairs.T)


def from_no_cluster(topic: Replicated) -> Evidence:
    """REPL-01: a message comes from another cluster of the topic."""
    logs = topic.rows(Kind.LOG)
    logs = logs[topic.present("replicated_from")[logs]]
    here = topic.codes("cluster")[logs]
    bad = np.ones(len(logs), dtype=np.bool_)
    for number, one in enumerate(topic.clusters):
        name = one.identity[2]
        is_own = here == topic.code("cluster", name)
        bad &= (topic.origin[logs] != number) | is_own
    because = "a message was replicated from no other cluster of the topic"
    return found(len(logs), logs[bad], because, lambda rows: (rows,))


def without_original(topic: Replicated) -> Evidence:
    """REPL-01: a message that was replicated is in the log of its own cluster, if that was read back whole.

    A later message of the same cluster shows that its log was read far enough.
    """
    return _over_ways(topic, _without_original)


def _without_original(topic: Replicated, way: Way) -> Evidence:
    if topic.clusters[way.source].read_back is None:
        return NOTHING
    is_known = np.isin(way.copies, way.own)
    last = int(np.flatnonzero(is_known)[-1]) if is_known.any() else 0
    bad = way.targets[:last][~is_known[:last]]
    because = "a message was replicated, but is not in the log of its own cluster"
    return found(last, bad, because, lambda rows: (rows,))


def _over_ways(topic: Replicated, decide: Callable[[Replicated, Way], Evidence]) -> Evidence:
    """The evidence on the replication between each two clusters."""
    return sum((decide(topic, way) for way in topic.ways), NOTHING)
