"""From when to when messages are outstanding at consumers, as intervals.

A message is outstanding at a consumer from when it was sent there (or, where nobody saw that, taken there) until
something *may* have released it: an acknowledgment or a negative one, the consumer's leaving or giving all back, a
fault, a seek. Whatever begins while such a thing goes on may be released at once. What nobody saw sent may have waited
in the client since its producer sent it, and may have been released before it was taken: such things count from then.
A negative acknowledgment is one of an entry: the client asks for its whole batch again.

What one consumer is said to hold while another one is given something must be more than that, it must be *sure*. An
acknowledgment that nobody confirmed, and a negative one, which the client holds back, may come to the broker at any
time later, but not after the message was sent again for no other reason; a consumer that gives all back is heard a
little later, too. And where no proxy saw what was sent, nobody saw
a connection's end either: a message that came twice may have been with either consumer all the while, or with none.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import Kind, Outcome
from conformance.pipeline.invariants.order import earliest_from_here, starts
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Found, Ints, Topic, found


def at_one_consumer(topic: Topic, dispatches: Ints, group: Ints, because: str) -> Found:
    """Whether, in each subscription, the messages of each group were outstanding at one consumer at a time."""
    of_subscription = topic.codes("subscription")[dispatches]

    def decide(topic: Topic, subscription: int) -> Found:
        own = of_subscription == subscription
        rows = dispatches[own]
        if not len(rows):
            return NOTHING
        end = _surely_until(topic, subscription, rows)
        return _overlaps(topic, rows, starts(topic, rows), end, group[own], because)

    return topic.over_own_subscriptions(decide)


def _overlaps(topic: Topic, rows: Ints, start: Ints, end: Ints, group: Ints, because: str) -> Found:
    """Compare each interval with the one of its group that lasts longest among those that began before it.

    Where that one is at the same consumer, an overlap with another one's was noticed before, when the later of
    these two began.
    """
    consumer = topic.codes("consumer")[rows]
    order = np.lexsort((start, group))
    order = order[end[order] > start[order]]
    rows, start, end, group, consumer = rows[order], start[order], end[order], group[order], consumer[order]
    judged = len(rows)
    if judged < 2:
        return Found(judged)
    ends, rank = np.unique(end, return_inverse=True)
    lasting = group * len(ends) + rank
    longest = np.maximum.accumulate(lasting)
    holder = np.maximum.accumulate(np.where(lasting == longest, np.arange(len(rows)), 0))[:-1]
    later = np.arange(1, len(rows))
    bad = later[(group[holder] == group[later]) & (start[later] < end[holder]) & (consumer[holder] != consumer[later])]
    return found(judged, bad, because, lambda index: (rows[holder[index - 1]], rows[index]))


def _earliest(topic: Topic, rows: Ints) -> Ints:
    """From when each may have been on its way to its consumer."""
    sends = topic.at_a_position(topic.rows(Kind.SEND))
    sent = np.full(topic.messages, NEVER)
    np.minimum.at(sent, topic.message[sends], topic.invoked[sends])
    sent = np.where(sent == NEVER, 0, sent)[topic.message[rows]]
    return np.where(topic.invoked[rows] == UNKNOWN_TIME, sent, topic.invoked[rows])


def _surely_until(topic: Topic, subscription: int, rows: Ints) -> Ints:
    """Until when each was surely outstanding; not later than its beginning where that is never sure."""
    since = _earliest(topic, rows)
    end = np.minimum(ends(topic, subscription, rows, since), _ends_by_latecomers(topic, subscription, rows, since))
    is_unseen = topic.invoked[rows] == UNKNOWN_TIME
    if not is_unseen.any():
        return end
    given = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    times = np.bincount(topic.message[given], minlength=topic.messages)
    return np.where(is_unseen & (times[topic.message[rows]] > 1), since, end)


def _ends_by_latecomers(topic: Topic, subscription: int, rows: Ints, since: Ints) -> Ints:
    """When each was perhaps released by something that its consumer, or another one, had asked for before."""
    message, consumer, at_consumer = topic.message, topic.codes("consumer"), topic.at_consumer
    acks = topic.at_a_position(topic.of(subscription, topic.rows(Kind.ACK, outcomes=[Outcome.UNKNOWN])))
    nacks = topic.at_a_position(topic.of(subscription, topic.rows(Kind.NACK)))
    heard = _heard(topic, subscription, nacks)
    by_ack = _released(message[rows], since, message[acks], topic.invoked[acks], np.full(len(acks), NEVER))
    by_nack = _released(at_consumer[rows], since, at_consumer[nacks], topic.invoked[nacks], heard)
    return np.minimum(np.minimum(by_ack, by_nack), _ends_by_asking(topic, subscription, consumer[rows], since))


def _heard(topic: Topic, subscription: int, nacks: Ints) -> Ints:
    """By when each negative acknowledgment has surely come to the broker; :data:`NEVER` where that is not known.

    That is just before its entry was next sent to anybody, if nothing else can have released it at that consumer.
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
        _ends_for_consumer(topic, subscription, consumer, since), _ends_by_asking(topic, subscription, consumer, since)
    )
    return np.where(is_known & (again < otherwise), again - 1, NEVER)


def _ends_by_asking(topic: Topic, subscription: int, consumers: Ints, since: Ints) -> Ints:
    """When each consumer was perhaps heard to give back all that it had, asked for before ``since`` or later."""
    asked = topic.of(subscription, topic.rows(Kind.REDELIVER))
    heard = topic.completed[asked] + topic.setting.on_its_way_ns
    return _released(consumers, since, topic.codes("consumer")[asked], topic.invoked[asked], heard)


def ends(topic: Topic, subscription: int, rows: Ints, start: Ints) -> Ints:
    """When each was perhaps released for the first time since ``start``; :data:`NEVER` where nothing did."""
    end = _ends_for_consumer(topic, subscription, topic.codes("consumer")[rows], start)
    for kind, numbers in ((Kind.ACK, topic.message), (Kind.NACK, topic.place)):
        events = topic.at_a_position(topic.of(subscription, topic.rows(kind)))
        by_these = _released(numbers[rows], start, numbers[events], topic.invoked[events], topic.completed[events])
        end = np.minimum(end, by_these)
    return end


def _ends_for_consumer(topic: Topic, subscription: int, consumers: Ints, start: Ints) -> Ints:
    """When all that each consumer had since ``start`` was perhaps released for the first time."""
    of_consumer = topic.of(subscription, topic.rows(Kind.REDELIVER, Kind.UNSUBSCRIBE))
    of_all = topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP))
    consumer = topic.codes("consumer")[of_consumer]
    by_consumer = _released(consumers, start, consumer, topic.invoked[of_consumer], topic.completed[of_consumer])
    invoked = np.concatenate([topic.invoked[of_all], topic.fault_spans[:, 0]])
    completed = np.concatenate([topic.completed[of_all], topic.fault_spans[:, 1]])
    for_all = _released(np.zeros_like(consumers), start, np.zeros_like(invoked), invoked, completed)
    return np.minimum(by_consumer, for_all)


def _released(group: Ints, start: Ints, releasing: Ints, invoked: Ints, completed: Ints) -> Ints:
    """For each start, when the first release of its group that was not over by then may have taken effect."""
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
