"""Document 004 over histories: one consumer at a time for each key, as intervals.

A message is outstanding at a consumer from when it was sent there (or, where nobody saw that, taken there) until
something *may* have released it: an acknowledgment or a negative one, the consumer's leaving or giving all back, a
fault, a seek. Whatever begins while such a thing goes on may be released at once. So every interval is one in which the
message was surely outstanding, and two of one key that overlap at different consumers break KEY-01.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import Kind
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Flags, Found, Ints, Topic, found

KEY_SHARED = "Key_Shared"


def one_consumer_at_a_time(topic: Topic) -> Found:
    """KEY-01: messages of one key are outstanding at one consumer at a time."""
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    dispatches = dispatches[(topic.codes("key")[dispatches] >= 0) & _is_key_shared(topic, dispatches)]
    total = NOTHING
    for subscription in topic.subscriptions():
        own = topic.of(subscription, dispatches)
        if len(own):
            total += _overlaps(topic, own, _starts(topic, own), _ends(topic, subscription, own))
    return total


def _is_key_shared(topic: Topic, rows: Ints) -> Flags:
    code = topic.codes("subscription_type")
    there = np.flatnonzero(code >= 0)
    types, first = np.unique(code[there], return_index=True)
    shared = [topic.name("subscription_type", row) == KEY_SHARED for row in there[first]]
    return np.isin(code[rows], types[shared])


def _overlaps(topic: Topic, rows: Ints, start: Ints, end: Ints) -> Found:
    """Compare each interval with the one of its key that lasts longest among those that began before it.

    Where that one is at the same consumer, an overlap with another one's was noticed before, when the later of
    these two began.
    """
    judged = len(rows)
    key, consumer = topic.codes("key")[rows], topic.codes("consumer")[rows]
    order = np.lexsort((start, key))
    order = order[end[order] > start[order]]
    rows, start, end, key, consumer = rows[order], start[order], end[order], key[order], consumer[order]
    if len(rows) < 2:
        return Found(judged=judged)
    ends, rank = np.unique(end, return_inverse=True)
    lasting = key * len(ends) + rank
    longest = np.maximum.accumulate(lasting)
    holder = np.maximum.accumulate(np.where(lasting == longest, np.arange(len(rows)), 0))[:-1]
    later = np.arange(1, len(rows))
    bad = later[(key[holder] == key[later]) & (start[later] < end[holder]) & (consumer[holder] != consumer[later])]
    because = "a message was sent to a consumer while one of the same key was outstanding at another"
    return found(judged, bad, because, lambda index: (rows[holder[index - 1]], rows[index]))


def _starts(topic: Topic, rows: Ints) -> Ints:
    invoked = topic.invoked[rows]
    return np.where(invoked == UNKNOWN_TIME, topic.completed[rows], invoked)


def _ends(topic: Topic, subscription: int, rows: Ints) -> Ints:
    """Until when each was surely outstanding; :data:`NEVER` where nothing released it."""
    start = _starts(topic, rows)
    of_message = topic.of(subscription, topic.at_a_position(topic.rows(Kind.ACK, Kind.NACK)))
    of_consumer = topic.of(subscription, topic.rows(Kind.REDELIVER, Kind.UNSUBSCRIBE))
    of_all = topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP))
    faults = np.array([(invoked, completed) for _, invoked, completed in topic.faults], dtype=np.int64).reshape(-1, 2)
    by_message = _released(
        topic.message[rows], start, topic.message[of_message], topic.invoked[of_message], topic.completed[of_message]
    )
    consumer = topic.codes("consumer")
    by_consumer = _released(
        consumer[rows], start, consumer[of_consumer], topic.invoked[of_consumer], topic.completed[of_consumer]
    )
    invoked = np.concatenate([topic.invoked[of_all], faults[:, 0]])
    completed = np.concatenate([topic.completed[of_all], faults[:, 1]])
    for_all = _released(np.zeros_like(rows), start, np.zeros_like(invoked), invoked, completed)
    return np.minimum(np.minimum(by_message, by_consumer), for_all)


def _released(group: Ints, start: Ints, releasing: Ints, invoked: Ints, completed: Ints) -> Ints:
    """For each start, when the first release of its group that was not over by then may have taken effect."""
    if not len(releasing):
        return np.full(len(start), NEVER)
    times = np.unique(np.concatenate([start, completed]))
    width = len(times) + 1
    order = np.lexsort((completed, releasing))
    releasing, invoked, completed = releasing[order], invoked[order], completed[order]
    ranked = releasing * width + np.searchsorted(times, completed)
    found = np.searchsorted(ranked, group * width + np.searchsorted(times, start), side="left")
    is_there = np.append(releasing, -1)[found] == group
    earliest = np.append(_earliest_from_here(releasing, invoked), NEVER)[found]
    return np.where(is_there, np.maximum(start, earliest), NEVER)


def _earliest_from_here(group: Ints, times: Ints) -> Ints:
    """In rows sorted by group: the earliest time of each row and those behind it in its group."""
    values, rank = np.unique(times, return_inverse=True)
    ranked = np.minimum.accumulate((group * len(values) + rank)[::-1])[::-1]
    return values[ranked - group * len(values)]
