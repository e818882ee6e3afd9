"""Pending acks as intervals: from when to when a message is unacknowledged at a consumer.

An interval begins with the dispatch (or the receipt, if no proxy saw the dispatch). It ends when something *may* have
released the message: an ack, a nack, a redelivery request, the consumer's leave, a fault, a seek. If one of these is in
progress at the dispatch, it may release the message at once. Without a proxy, a message may wait in the client since
its send, and may be released before the receipt; its interval begins with the send. A nack counts for the whole entry,
because the client requests the whole batch.

To contradict a dispatch to another consumer, a pending ack must be *sure*. An unconfirmed ack, and a nack, which the
client delays, may reach the broker any time later, but not after a redelivery that has no other reason. A redelivery
request may also arrive a little later. Without a proxy the end of a connection is not recorded either, so a message
that was received twice may have been pending at either consumer, or at none.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.invariants.order import earliest_from_here, starts
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Evidence, Ints, TopicEvents, found


def at_one_consumer(
    topic: TopicEvents, dispatches: Ints, group: Ints, because: str, *, is_once: bool = False
) -> Evidence:
    """Whether, in each subscription, the messages of each group were pending at one consumer at a time.

    ``is_once``: whether not even twice at one consumer. Only the last dispatch of an entry to a consumer has a recorded
    time, so two at the same time are one.
    """
    of_subscription = topic.codes("subscription")[dispatches]

    def decide(topic: TopicEvents, subscription: int) -> Evidence:
        own = of_subscription == subscription
        rows = dispatches[own]
        if not len(rows):
            return NOTHING
        end = _surely_until(topic, subscription, rows)
        return _overlaps(topic, rows, starts(topic, rows), end, group[own], because, is_once=is_once)

    return topic.over_own_subscriptions(decide)


def _overlaps(
    topic: TopicEvents, rows: Ints, start: Ints, end: Ints, group: Ints, because: str, *, is_once: bool
) -> Evidence:
    """Compare each interval with the longest one of its group among those that began before it.

    If that one is at the same consumer, an overlap with another consumer was found earlier, at the beginning of the
    later one of these two.
    """
    consumer = topic.codes("consumer")[rows]
    order = np.lexsort((start, group))
    order = order[end[order] > start[order]]
    rows, start, end, group, consumer = rows[order], start[order], end[order], group[order], consumer[order]
    judged = len(rows)
    if judged < 2:
        return Evidence(judged)
    ends, rank = np.unique(end, return_inverse=True)
    lasting = group * len(ends) + rank
    longest = np.maximum.accumulate(lasting)
    holder = np.maximum.accumulate(np.where(lasting == longest, np.arange(len(rows)), 0))[:-1]
    later = np.arange(1, len(rows))
    is_elsewhere = start[holder] < start[later] if is_once else consumer[holder] != consumer[later]
    bad = later[(group[holder] == group[later]) & (start[later] < end[holder]) & is_elsewhere]
    return found(judged, bad, because, lambda index: (rows[holder[index - 1]], rows[index]))


def _earliest(topic: TopicEvents, rows: Ints) -> Ints:
    """The earliest time at which each may have been dispatched."""
    sends = topic.at_a_position(topic.rows(Kind.SEND))
    sent = np.full(topic.messages, NEVER)
    np.minimum.at(sent, topic.message[sends], topic.invoked[sends])
    sent = np.where(sent == NEVER, 0, sent)[topic.message[rows]]
    return np.where(topic.invoked[rows] == UNKNOWN_TIME, sent, topic.invoked[rows])


def _surely_until(topic: TopicEvents, subscription: int, rows: Ints) -> Ints:
    """Until when each was surely pending; its beginning if that is never sure."""
    since = _earliest(topic, rows)
    end = np.minimum(
        ends(topic, subscription, rows, since), _ends_by_earlier_requests(topic, subscription, rows, since)
    )
    is_unseen = topic.invoked[rows] == UNKNOWN_TIME
    if not is_unseen.any():
        return end
    given = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    times = np.bincount(topic.message[given], minlength=topic.messages)
    return np.where(is_unseen & (times[topic.message[rows]] > 1), since, end)


def _ends_by_earlier_requests(topic: TopicEvents, subscription: int, rows: Ints, since: Ints) -> Ints:
    """When each may have been released by an earlier request of any consumer."""
    message, consumer, at_consumer = topic.message, topic.codes("consumer"), topic.at_consumer
    acks = topic.at_a_position(topic.of(subscription, topic.rows(Kind.ACK, outcomes=[CallOutcome.UNKNOWN])))
    nacks = topic.at_a_position(topic.of(subscription, topic.rows(Kind.NACK)))
    arrived = _arrived(topic, subscription, nacks)
    by_ack = _released(message[rows], since, message[acks], topic.invoked[acks], np.full(len(acks), NEVER))
    by_nack = _released(at_consumer[rows], since, at_consumer[nacks], topic.invoked[nacks], arrived)
    return np.minimum(
        np.minimum(by_ack, by_nack), _ends_by_redelivery_request(topic, subscription, consumer[rows], since)
    )


def _arrived(topic: TopicEvents, subscription: int, nacks: Ints) -> Ints:
    """By when each nack has surely arrived at the broker; :data:`NEVER` if unknown.

    That is just before the next dispatch of its entry, if nothing else can have released it at that consumer.
    """
    given = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    if not len(given) or not len(nacks):
        return np.full(len(nacks), NEVER)
    invoked, consumer, at_consumer = topic.invoked[nacks], topic.codes("consumer")[nacks], topic.at_consumer
    own, which = np.unique(at_consumer[given], return_inverse=True)
    first = np.full(len(own), NEVER)
    np.minimum.at(first, which, _earliest(topic, given))
    place = np.minimum(np.searchsorted(own, at_consumer[nacks]), len(own) - 1)
    since = first[place]
    is_known = (own[place] == at_consumer[nacks]) & (since <= invoked)
    begun = starts(topic, given)
    again = _released(topic.place[nacks], invoked, topic.place[given], begun, begun)
    otherwise = np.minimum(
        _ends_for_consumer(topic, subscription, consumer, since),
        _ends_by_redelivery_request(topic, subscription, consumer, since),
    )
    return np.where(is_known & (again < otherwise), again - 1, NEVER)


def _ends_by_redelivery_request(topic: TopicEvents, subscription: int, consumers: Ints, since: Ints) -> Ints:
    """When a redelivery request of each consumer may have arrived, sent before ``since`` or later."""
    asked = topic.of(subscription, topic.rows(Kind.REDELIVER))
    arrived = topic.completed[asked] + topic.setting.on_its_way_ns
    return _released(consumers, since, topic.codes("consumer")[asked], topic.invoked[asked], arrived)


def ends(topic: TopicEvents, subscription: int, rows: Ints, start: Ints) -> Ints:
    """When each may have been released for the first time since ``start``; :data:`NEVER` without a release."""
    end = _ends_for_consumer(topic, subscription, topic.codes("consumer")[rows], start)
    for kind, numbers in ((Kind.ACK, topic.message), (Kind.NACK, topic.place)):
        events = topic.at_a_position(topic.of(subscription, topic.rows(kind)))
        by_these = _released(numbers[rows], start, numbers[events], topic.invoked[events], topic.completed[events])
        end = np.minimum(end, by_these)
    return end


def _ends_for_consumer(topic: TopicEvents, subscription: int, consumers: Ints, start: Ints) -> Ints:
    """When all messages of each consumer may have been released for the first time since ``start``."""
    of_consumer = topic.of(subscription, topic.rows(Kind.REDELIVER, Kind.UNSUBSCRIBE))
    of_all = topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP))
    consumer = topic.codes("consumer")[of_consumer]
    by_consumer = _released(consumers, start, consumer, topic.invoked[of_consumer], topic.completed[of_consumer])
    invoked = np.concatenate([topic.invoked[of_all], topic.fault_spans[:, 0]])
    completed = np.concatenate([topic.completed[of_all], topic.fault_spans[:, 1]])
    for_all = _released(np.zeros_like(consumers), start, np.zeros_like(invoked), invoked, completed)
    return np.minimum(by_consumer, for_all)


def _released(group: Ints, start: Ints, releasing: Ints, invoked: Ints, completed: Ints) -> Ints:
    """For each start, when the first release of its group that ends after it may have taken effect."""
    if not len(releasing):
        return np.full(len(start), NEVER)
    times = np.sort(np.concatenate([start, completed]))
    width = len(times) + 1
    order = np.lexsort((completed, releasing))
    releasing, invoked, completed = releasing[order], invoked[order], completed[order]
    ranked = releasing * width + np.searchsorted(times, completed)
    found = np.searchsorted(ranked, group * width + np.searchsorted(times, start), side="left")
    is_there = np.append(releasing, -1)[found] == group
    earliest = np.append(earliest_from_here(releasing, invoked), NEVER)[found]
    return np.where(is_there, np.maximum(start, earliest), NEVER)
