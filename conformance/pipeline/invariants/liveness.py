"""Stuck subscriptions: a message is due, none is pending, consumers are connected, and nothing is dispatched for long.

Only readings of a mark-delete position are judged, because they show that the subscription still has a backlog. A topic
without a proxy is not judged: a message that its application has not received may wait in the client.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.invariants.cursors import perhaps_acknowledged
from conformance.pipeline.invariants.key_shared import KEY_SHARED
from conformance.pipeline.invariants.order import are_of_type, is_undisturbed, starts
from conformance.pipeline.invariants.pending_acks import ends
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Evidence, Ints, TopicEvents, found

MOVEMENTS = (
    Kind.DISPATCH,
    Kind.ACK,
    Kind.ACK_CUMULATIVE,
    Kind.NACK,
    Kind.REDELIVER,
    Kind.SUBSCRIBE,
    Kind.UNSUBSCRIBE,
    Kind.BEGIN,
    Kind.SKIP,
)
"""Events that trigger a dispatch or show one."""

FEW = 64
"""After so many messages a due one is searched first, then among twice as many, and so on."""

LONG_AGO = np.iinfo(np.int64).min
"""Before every time, also :data:`UNKNOWN_TIME`."""


def keys_stuck(topic: TopicEvents) -> Evidence:
    """KEY-13: a Key_Shared subscription without pending acks dispatches the messages that are due."""
    return _stuck(topic, is_key_shared=True)


def stuck(topic: TopicEvents) -> Evidence:
    """DEDUP-16: any other subscription without pending acks dispatches the messages that are due."""
    return _stuck(topic, is_key_shared=False)


def _stuck(topic: TopicEvents, *, is_key_shared: bool) -> Evidence:
    dispatches = topic.rows(Kind.DISPATCH)
    if not np.any(topic.invoked[dispatches] != UNKNOWN_TIME):
        return NOTHING

    def decide(topic: TopicEvents, subscription: int) -> Evidence:
        joins = topic.of(subscription, topic.rows(Kind.SUBSCRIBE))
        is_asked_for = bool(np.any(are_of_type(topic, joins, KEY_SHARED))) == is_key_shared
        if not len(joins) or not is_asked_for or not is_undisturbed(topic, subscription):
            return NOTHING
        return _silent(topic, subscription)

    return topic.over_subscriptions(decide)


def _silent(topic: TopicEvents, subscription: int) -> Evidence:
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[CallOutcome.OK])))
    attended = _attended(topic, subscription, _unmoved(topic, subscription, readings))
    if not len(attended):
        return Evidence(len(readings))
    settled_ns = perhaps_acknowledged(topic, subscription)
    quiet = _without_pending_acks(topic, subscription, attended, settled_ns)
    due = _first_due(topic, subscription, quiet, settled_ns)
    bad = np.flatnonzero(due >= 0)
    because = "no message is pending, and consumers are connected, but a message that is due is not dispatched for long"
    return found(len(readings), bad, because, lambda index: (due[index], quiet[index]))


def _unmoved(topic: TopicEvents, subscription: int, readings: Ints) -> Ints:
    """Those that follow a long time without any of :data:`MOVEMENTS`."""
    rows = topic.of(subscription, topic.rows(*MOVEMENTS))
    begun = np.concatenate([starts(topic, rows), topic.fault_spans[:, 0]])
    over = np.concatenate([topic.completed[rows], topic.fault_spans[:, 1]])
    at_ns = topic.invoked[readings]
    unmoved: Ints = readings[latest_end(begun, over, at_ns) < at_ns - topic.setting.stuck_after_ns]
    return unmoved


def _attended(topic: TopicEvents, subscription: int, readings: Ints) -> Ints:
    """Those at which a consumer was connected that never left."""
    joins = topic.of(subscription, topic.rows(Kind.SUBSCRIBE, outcomes=[CallOutcome.OK]))
    leaves = topic.of(subscription, topic.rows(Kind.UNSUBSCRIBE))
    consumer = topic.codes("consumer")
    left = np.full(int(consumer.max()) + 2, LONG_AGO)  # the last one is for events without a consumer
    np.maximum.at(left, consumer[leaves], topic.completed[leaves])
    staying = joins[left[consumer[joins]] < topic.invoked[joins]]
    attended: Ints = readings[topic.invoked[readings] >= topic.completed[staying].min(initial=NEVER)]
    return attended


def _without_pending_acks(topic: TopicEvents, subscription: int, readings: Ints, settled_ns: Ints) -> Ints:
    """Those at which no message was pending; ``settled_ns``: when each message may have been acknowledged."""
    dispatches = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    start = starts(topic, dispatches)
    end = np.minimum(ends(topic, subscription, dispatches, start), settled_ns[topic.message[dispatches]])
    at_ns = topic.invoked[readings]
    free: Ints = readings[latest_end(start, end, at_ns) <= at_ns]
    return free


def latest_end(begun: Ints, over: Ints, at_ns: Ints) -> Ints:
    """For each time, the last end of the intervals that began by then; :data:`LONG_AGO` without one."""
    order = np.argsort(begun)
    latest = np.append(LONG_AGO, np.maximum.accumulate(over[order]))
    ends_ns: Ints = latest[np.searchsorted(begun[order], at_ns, side="right")]
    return ends_ns


def _first_due(topic: TopicEvents, subscription: int, readings: Ints, settled_ns: Ints) -> Ints:
    """For each mark-delete position the first message after it that is due; -1 without one.

    It was sent long before the reading, and no ack may cover it.
    """
    logs, place = topic.rows(Kind.LOG), topic.place
    logs = logs[~topic.present("chunk_uuid")[logs]]
    sends = topic.at_a_position(topic.rows(Kind.SEND, outcomes=[CallOutcome.OK]))
    sent_ns = np.full(topic.messages, NEVER)
    np.minimum.at(sent_ns, topic.message[sends], topic.completed[sends])
    logs = logs[sent_ns[topic.message[logs]] != NEVER]
    message = topic.message[logs]
    begin = place[topic.of(subscription, topic.rows(Kind.BEGIN))[0]]
    first = np.searchsorted(place[logs], np.maximum(place[readings], begin), side="right")
    by_ns, read_ns = topic.invoked[readings] - topic.setting.stuck_after_ns, topic.completed[readings]
    due = np.full(len(readings), -1)
    for number, start in enumerate(first.tolist()):
        length = FEW
        while start < len(logs) and due[number] < 0:  # mostly it is near
            near = message[start : start + length]
            found_there = np.flatnonzero((sent_ns[near] <= by_ns[number]) & (settled_ns[near] > read_ns[number]))
            if len(found_there):
                due[number] = logs[start + found_there[0]]
            start, length = start + length, 2 * length
    return due
