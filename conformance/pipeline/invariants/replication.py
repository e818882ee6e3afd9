"""Document 001 over histories: what is replicated comes whole, once and in order; positions are never ahead.

Each function is given a topic in all clusters that replicate it. What was replicated is told by the logs; a replicated
subscription is judged by its readings in every cluster and by what consumers did in any. Where a cluster acknowledges
for another one, it goes by snapshots, so positions may be behind; that they come after all is judged only
where everything was quiet for long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conformance.history.recorded import Kind, Outcome
from conformance.pipeline.invariants.clusters import Replicated, Way
from conformance.pipeline.invariants.cursors import are_acknowledged_by, covering_holes
from conformance.pipeline.invariants.liveness import latest_end
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Flags, Found, Ints, found

BEFORE_ALL = UNKNOWN_TIME
"""When what a subscription never had to give counts as acknowledged."""


def ahead(topic: Replicated) -> Found:
    """REPL-14: what mark-delete of a replicated subscription has passed in any cluster was acknowledged in one of them.

    As for ACK-01, but messages are known again in the other clusters. What stands before a beginning is left out. A
    subscription that was made more than once in a cluster is not judged. What did not come to every cluster is told
    last: once it was passed over, every later reading covers it.
    """
    return _over_replicated_subscriptions(topic, _ahead)


def _ahead(topic: Replicated, subscription: int, number: int, due: Flags) -> Found:
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[Outcome.OK])))
    readings = topic.at(number, readings)
    logs = topic.at(number, topic.logs)
    logs = logs[are_acknowledged_by(topic, logs)]
    same = topic.of_logs(logs)
    acknowledged = np.where(due[same], topic.perhaps_acknowledged(subscription)[same], BEFORE_ALL)
    because = "mark-delete covers a message of a replicated subscription that nobody had acknowledged in any cluster"
    return covering_holes(topic, logs, acknowledged, readings, because, rather=topic.are_everywhere[same])


def missed_everywhere(topic: Replicated) -> Found:
    """REPL-14: what a replicated subscription has to give was delivered in some cluster, once one has nothing left.

    Up to where nothing is left, a consumer that comes to that cluster is given nothing any more.
    """
    return _over_replicated_subscriptions(topic, _missed_everywhere)


def _missed_everywhere(topic: Replicated, subscription: int, number: int, due: Flags) -> Found:
    drained = topic.at(number, topic.of(subscription, topic.rows(Kind.DRAINED, outcomes=[Outcome.OK])))
    if not len(drained):
        return NOTHING
    logs = topic.at(number, topic.logs)
    logs = logs[~topic.present("chunk_id")[logs] & (topic.place[logs] <= topic.place[drained[-1]])]
    logs = logs[due[topic.of_logs(logs)]]
    given = topic.same_of(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    is_given = np.append(topic.perhaps_acknowledged(subscription) < NEVER, False)  # the last one: for what is unknown
    is_given[given] = True
    bad = logs[~is_given[topic.of_logs(logs)]]
    because = "a message of a replicated subscription was never delivered in any cluster, and one has nothing left"
    return found(len(logs), bad, because, lambda row: (row, drained[-1]))


def left_behind(topic: Replicated) -> Found:
    """REPL-13: where a replicated subscription was in one cluster, it comes to in each other one, before long.

    It can only follow while something is published and acknowledged behind that. So a reading is judged if nothing
    disturbed for as long as ``Setting.follows_within_ns`` before it, and mark-delete of the other cluster was there and
    then went on, in the first half of that time. A subscription that was set to another position is not judged.
    """
    return _over_replicated_subscriptions(topic, _left_behind)


def _left_behind(topic: Replicated, subscription: int, number: int, due: Flags) -> Found:
    if len(topic.of(subscription, topic.rows(Kind.SEEK))):
        return NOTHING
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[Outcome.OK])))
    own = _undisturbed(topic, topic.at(number, readings))
    total = NOTHING
    for other in range(len(topic.clusters)):
        if other != number:
            total += _behind(topic, own, topic.at(other, readings), _demanded(topic, number, other, due))
    return total


def _undisturbed(topic: Replicated, readings: Ints) -> Ints:
    begun, over = topic.fault_spans.T
    at_ns = topic.invoked[readings]
    undisturbed: Ints = readings[latest_end(begun, over, at_ns) < at_ns - topic.setting.follows_within_ns]
    return undisturbed


@dataclass(frozen=True, slots=True)
class _Demanded:
    """How far a cluster has to come, by how far another one is: the furthest rows here, by ``places`` there."""

    places: Ints
    furthest: Ints


def _demanded(topic: Replicated, number: int, other: int, due: Flags) -> _Demanded:
    here, there = topic.at(number, topic.logs), topic.at(other, topic.logs)
    first, same = _first(topic, topic.of_logs(here), here), topic.of_logs(there)
    return _Demanded(topic.place[there], np.maximum.accumulate(np.where(due[same], first[same], -1)))


def _behind(topic: Replicated, own: Ints, readings: Ints, demanded: _Demanded) -> Found:
    """Readings in one cluster, held against those in another one."""
    readings = readings[np.argsort(topic.completed[readings], kind="stable")]
    within_ns = topic.setting.follows_within_ns
    judged, bad = 0, list[tuple[int, int]]()
    for row in own.tolist():
        since_ns = int(topic.invoked[row]) - within_ns
        between = np.searchsorted(topic.completed[readings], [since_ns, since_ns + within_ns // 2], side="left")
        there = readings[between[0] : between[1]]
        places = np.unique(topic.place[there[topic.invoked[there] >= since_ns]])
        if len(places) < 2:  # nothing went on
            continue
        judged += 1
        logs = int(np.searchsorted(demanded.places, places[-2], side="right"))
        furthest = int(demanded.furthest[logs - 1]) if logs else -1
        if furthest >= 0 and topic.place[furthest] > topic.place[row]:
            bad.append((furthest, row))
    because = "a replicated subscription has not come to where it was in another cluster long ago, where it went on"
    return found(judged, np.array(bad, dtype=np.int64), because, lambda pair: pair)


def _over_replicated_subscriptions(topic: Replicated, decide: Callable[[Replicated, int, int, Flags], Found]) -> Found:
    """What is found of each replicated subscription in each cluster, given which messages it has to give."""
    total = NOTHING
    for subscription in sorted(topic.replicated):
        due = topic.due(subscription)
        if due is not None:
            for number in range(len(topic.clusters)):
                total += decide(topic, subscription, number, due)
    return total


def _first(topic: Replicated, messages: Ints, values: Ints) -> Ints:
    """For each of all messages the value that stands first with it; -1 where none does."""
    first = np.full(topic.different, -1)
    first[messages[::-1]] = values[::-1]
    return first


# ------------------------------------------------------------------------------------------------------------- messages


def not_replicated(topic: Replicated) -> Found:
    """REPL-01: what a cluster has passed on stands in the log of each other one that was read back after that."""
    return _over_ways(topic, _not_replicated)


def _not_replicated(topic: Replicated, way: Way) -> Found:
    passed = topic.at(way.source, topic.at_a_position(topic.rows(Kind.PASSED_ON, outcomes=[Outcome.OK])))
    target = topic.clusters[way.target]
    if target.read_back is None:
        return NOTHING
    read = topic.row_of(way.target, target.read_back)
    passed = passed[topic.completed[passed] <= topic.invoked[read]]
    is_due = topic.place[way.sources] <= topic.place[passed].max(initial=-1)
    bad = way.sources[is_due & ~np.isin(way.own, way.copies)]
    because = "a message was passed on to all other clusters, but is not in the log of one of them"
    return found(int(np.sum(is_due)), bad, because, lambda row: (row, read))


def replicated_twice(topic: Replicated) -> Found:
    """REPL-01: under deduplication a message stands in another cluster's log once.

    Without it a replicator may send again what it was not told to be stored.
    """
    return _over_ways(topic, _replicated_twice)


def _replicated_twice(topic: Replicated, way: Way) -> Found:
    if not topic.clusters[way.target].is_deduplicated:
        return NOTHING
    stored = np.bincount(way.own, minlength=topic.different)
    _, first, group = np.unique(way.copies, return_index=True, return_inverse=True)
    is_again = (first[group] != np.arange(len(group))) & (stored[way.copies] <= 1)
    pairs = np.column_stack([way.targets[first[group]], way.targets])[is_again]
    because = "a message that was replicated is in the log for the second time, under deduplication"
    return found(len(way.targets), pairs, because, lambda pair: pair)


def replicated_out_of_order(topic: Replicated) -> Found:
    """REPL-01: a cluster's messages stand in another one's log in the order of its own.

    Where one is there several times, the first counts.
    """
    return _over_ways(topic, _replicated_out_of_order)


def _replicated_out_of_order(topic: Replicated, way: Way) -> Found:
    rank = _first(topic, way.own, np.arange(len(way.own)))
    _, first = np.unique(way.copies, return_index=True)
    first = np.sort(first)
    first = first[rank[way.copies[first]] >= 0]
    rows, ranks = way.targets[first], rank[way.copies[first]]
    highest = np.maximum.accumulate(ranks)
    holder = rows[np.searchsorted(highest, highest, side="left")]
    pairs = np.column_stack([holder, rows])[ranks < highest]
    because = "a message stands in another cluster's log behind one that it stands in front of in its own"
    return found(len(rows), pairs, because, lambda pair: pair)


def replicated_otherwise(topic: Replicated) -> Found:
    """REPL-01: a message is the same in another cluster: its payload, and its key."""
    return _over_ways(topic, _replicated_otherwise)


def _replicated_otherwise(topic: Replicated, way: Way) -> Found:
    stored = _first(topic, way.own, way.sources)
    is_one = np.bincount(way.own, minlength=topic.different)[way.copies] == 1
    copies, there = way.targets[is_one], stored[way.copies[is_one]]
    pairs = np.column_stack([there, copies])
    pairs = pairs[topic.differ("digest", there, copies) | topic.differ("key", there, copies)]
    because = "a message is another one in another cluster: its payload or key differs"
    return found(len(copies), pairs, because, lambda pair: pair)


def _over_ways(topic: Replicated, decide: Callable[[Replicated, Way], Found]) -> Found:
    """What is found from each cluster to each other one."""
    return sum((decide(topic, way) for way in topic.ways), NOTHING)
