"""Document 000 over histories: nothing confirmed is lost, nothing is stored twice, producers keep their order.

Confirmations are compared with the log that was read back after them; without that they are not judged. Chunks are left
to ``chunking``, and topics whose deduplication is switched to the machines.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import RELOADS, CallOutcome, Kind
from conformance.pipeline.invariants.order import starts
from conformance.pipeline.topic import NOTHING, Evidence, Flags, Ints, TopicEvents, found

NO_PAIRS: Ints = np.empty((0, 2), dtype=np.int64)


def lost(topic: TopicEvents) -> Evidence:
    """DEDUP-15: a confirmed message is in the log at the confirmed position, if the log was read back later.

    Another message at that position is a loss, too: another producer, sequence id, payload or key. A message that was
    confirmed without a position is anywhere in the log.
    """
    if topic.read_back is None:
        return NOTHING
    sends = _confirmed_before_reading(topic, CallOutcome.OK)
    logs = topic.rows(Kind.LOG)
    stored = np.full(topic.messages, -1)
    stored[topic.message[logs]] = logs
    there = stored[topic.message[sends]]
    missing, known = np.flatnonzero(there < 0), np.flatnonzero(there >= 0)
    others = known[_are_others(topic, sends[known], there[known])]
    nothing = "a message that was confirmed is not in the log: nothing is there"
    another = "a message that was confirmed is not in the log: another one is there"
    nowhere = "a message that was confirmed is not in the log"
    judged, unplaced = _lost_without_position(topic)
    return (
        found(len(sends), missing, nothing, lambda index: (sends[index], topic.read_back))
        + found(0, others, another, lambda index: (sends[index], there[index]))
        + found(judged, unplaced, nowhere, lambda rows: (rows, topic.read_back))
    )


def _lost_without_position(topic: TopicEvents) -> tuple[int, Ints]:
    """How many messages were confirmed without a position, and those that the log does not have."""
    sends = topic.rows(Kind.SEND, outcomes=[CallOutcome.OK])
    sends = sends[~topic.present("ledger")[sends] & (topic.completed[sends] <= topic.invoked[topic.read_back])]
    sends = sends[(topic.codes("producer")[sends] >= 0) & (topic.numbers("sequence_id", -1)[sends] >= 0)]
    return len(sends), sends[~np.isin(topic.sent_as[sends], topic.sent_as[topic.rows(Kind.LOG)])]


def _are_others(topic: TopicEvents, sends: Ints, logs: Ints) -> Flags:
    is_chunk = topic.present("chunk_id")[logs]
    return (
        topic.differ("producer", sends, logs)
        | topic.differ("sequence_id", sends, logs)
        | (topic.differ("digest", sends, logs) & ~is_chunk)
        | ~topic.keeps("key", sends, logs)
    )


def falsely_confirmed(topic: TopicEvents) -> Evidence:
    """DEDUP-03: for a message confirmed as a duplicate, the log has its sequence id or a higher one of its producer."""
    if topic.read_back is None:
        return NOTHING
    sends = _confirmed_before_reading(topic, CallOutcome.DUPLICATE)
    logs = topic.rows(Kind.LOG)
    producer = topic.codes("producer")
    ids = topic.numbers("sequence_id", -1)
    highest = np.full(int(producer.max()) + 2, -1)  # the last one is for events without a producer
    np.maximum.at(highest, producer[logs], ids[logs])
    bad = sends[ids[sends] > highest[producer[sends]]]
    because = "a message was confirmed as a duplicate, but its producer has no sequence id as high in the log"
    return found(len(sends), bad, because, lambda rows: (rows, topic.read_back))


def stored_twice(topic: TopicEvents) -> Evidence:
    """DEDUP-02: under deduplication a producer's sequence id is in the log once."""
    judged, twice, _ = _not_rising(topic)
    because = "a sequence id is in the log for the second time, under deduplication"
    return found(judged, twice, because, lambda pairs: pairs.T)


def out_of_order(topic: TopicEvents) -> Evidence:
    """DEDUP-13: under deduplication a producer's messages are in the log in the order of their sequence ids."""
    judged, _, late = _not_rising(topic)
    because = "a message is in the log after one of its producer with a higher sequence id"
    return found(judged, late, because, lambda pairs: pairs.T)


def forgotten(topic: TopicEvents) -> Evidence:
    """DEDUP-12: after a reload of the topic, no id is stored that is at or below a confirmed one of its producer.

    It uses sends only, and needs no reading of the log.
    """
    reloads = sorted((completed, invoked) for name, invoked, completed in topic.faults if name in RELOADS)
    if not topic.is_deduplicated or not reloads:
        return NOTHING
    sends = topic.rows(Kind.SEND, outcomes=[CallOutcome.OK, CallOutcome.DUPLICATE])
    sends = sends[(topic.codes("producer")[sends] >= 0) & (topic.numbers("sequence_id", -1)[sends] >= 0)]
    stored = topic.at_a_position(np.intersect1d(sends, topic.rows(Kind.SEND, outcomes=[CallOutcome.OK])))
    loaded, unloaded = np.array(reloads, dtype=np.int64).T
    last = np.searchsorted(loaded, topic.invoked[stored], side="left")
    stored, last = stored[last > 0], last[last > 0]
    before = _highest_confirmed(topic, sends, stored, np.maximum.accumulate(unloaded)[last - 1])
    is_known = before >= 0
    stored, before = stored[is_known], before[is_known]
    ids = topic.numbers("sequence_id", -1)
    bad = np.flatnonzero(ids[stored] <= ids[before])
    because = "a sequence id was stored, although one as high was confirmed before the topic was reloaded"
    return found(len(stored), bad, because, lambda index: (before[index], stored[index]))


def _highest_confirmed(topic: TopicEvents, sends: Ints, rows: Ints, before_ns: Ints) -> Ints:
    """For each row, the send of its producer's highest id confirmed before that time; -1 without one."""
    producer, ids = topic.codes("producer"), topic.numbers("sequence_id", -1)
    order = sends[np.lexsort((topic.completed[sends], producer[sends]))]
    if not len(order):
        return np.full(len(rows), -1)
    values, rank = np.unique(ids[order], return_inverse=True)
    rising = producer[order] * len(values) + rank
    highest = np.maximum.accumulate(rising)
    holder = np.maximum.accumulate(np.where(rising == highest, np.arange(len(order)), 0))
    times = np.unique(np.concatenate([topic.completed[order], before_ns]))
    width = len(times) + 1
    confirmed = producer[order] * width + np.searchsorted(times, topic.completed[order])
    at = np.searchsorted(confirmed, producer[rows] * width + np.searchsorted(times, before_ns), side="left") - 1
    is_own = (at >= 0) & (producer[order][at] == producer[rows])
    return np.where(is_own, order[holder[at]], -1)


def missed(topic: TopicEvents) -> Evidence:
    """DEDUP-16: a drained subscription has received all messages after its beginning by then.

    ``chunking`` judges chunked messages. A subscription that was created more than once, or set to another position, is
    not judged.
    """
    return topic.over_own_subscriptions(_missed)


def _missed(topic: TopicEvents, subscription: int) -> Evidence:
    begins = topic.of(subscription, topic.rows(Kind.BEGIN))
    drained = topic.of(subscription, topic.rows(Kind.DRAINED, outcomes=[CallOutcome.OK]))
    if len(begins) != 1 or not len(drained) or len(topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP))):
        return NOTHING
    logs, place = topic.rows(Kind.LOG), topic.place
    is_whole = ~topic.present("chunk_id")[logs]
    due = logs[is_whole & (place[logs] > place[begins[0]]) & (place[logs] <= place[drained[-1]])]
    given = np.zeros(topic.messages, dtype=np.bool_)
    dispatches = topic.of(subscription, topic.rows(Kind.DISPATCH))
    given[topic.message[dispatches[starts(topic, dispatches) <= topic.completed[drained[-1]]]]] = True
    bad = due[~given[topic.message[due]]]
    because = "a message was never delivered to a subscription that has nothing left"
    return found(len(due), bad, because, lambda rows: (rows, drained[-1]))


def _confirmed_before_reading(topic: TopicEvents, outcome: CallOutcome) -> Ints:
    sends = topic.rows(Kind.SEND, outcomes=[outcome])
    if outcome is CallOutcome.OK:
        sends = topic.at_a_position(sends)
    return sends[topic.completed[sends] <= topic.invoked[topic.read_back]]


def _not_rising(topic: TopicEvents) -> tuple[int, Ints, Ints]:
    """How many messages of a deduplicated log were compared; pairs with the same sequence id; pairs in the wrong order.

    In a correct log every producer's ids rise, which one comparison of neighbours shows. Only an incorrect one needs
    the pairs.
    """
    if not topic.is_deduplicated:
        return 0, NO_PAIRS, NO_PAIRS
    rows = topic.rows(Kind.LOG)
    producer, ids = topic.codes("producer"), topic.numbers("sequence_id", -1)
    is_own = ~topic.present("chunk_id")[rows] & ~topic.present("replicated_from")[rows]
    rows = rows[(producer[rows] >= 0) & (ids[rows] >= 0) & is_own]
    rows = rows[np.argsort(producer[rows], kind="stable")]
    same = producer[rows][1:] == producer[rows][:-1]
    if not np.any(same & (ids[rows][1:] <= ids[rows][:-1])):
        return len(rows), NO_PAIRS, NO_PAIRS
    return len(rows), *_pairs(rows, producer[rows], ids[rows])


def _pairs(rows: Ints, producer: Ints, ids: Ints) -> tuple[Ints, Ints]:
    """Of rows grouped by producer: each repeated id with its first row, each late id with an earlier, higher one."""
    values, ranks = np.unique(ids, return_inverse=True)
    rising = producer * len(values) + ranks
    index = np.arange(len(rows))
    highest = np.maximum.accumulate(rising)
    holder = np.maximum.accumulate(np.where(rising == highest, index, 0))
    _, first, group = np.unique(rising, return_index=True, return_inverse=True)
    is_twice = first[group] != index
    is_late = ~is_twice & (rising < highest)
    twice = np.column_stack([rows[first[group]], rows])[is_twice]
    late = np.column_stack([rows[holder], rows])[is_late]
    return twice, late
