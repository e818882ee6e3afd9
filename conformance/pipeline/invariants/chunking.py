"""Document 002 over histories: chunks agree, are stored once, and are delivered as one whole message.

The position of a chunked message is that of its last chunk. The machines check the buffers of consumers.
"""

from __future__ import annotations

import numpy as np

from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.invariants.order import are_of_type, given_late, starts
from conformance.pipeline.topic import NOTHING, Evidence, Flags, Ints, TopicEvents, found


def chunks_agree(topic: TopicEvents) -> Evidence:
    """CHUNK-02: the chunks of one uuid agree in number, producer and sequence id; chunk ids are below the number.

    The number is that of the send that was confirmed at the last one.
    """
    logs = _chunks(topic)
    order = logs[np.argsort(topic.codes("chunk_uuid")[logs], kind="stable")]
    one, other = order[:-1], order[1:]
    same = topic.codes("chunk_uuid")[one] == topic.codes("chunk_uuid")[other]
    differs = np.zeros(len(one), dtype=np.bool_)
    for name in ("chunks", "producer", "sequence_id"):
        differs |= topic.differ(name, one, other)
    bad = np.flatnonzero(same & differs)
    chunk = topic.numbers("chunk_id", -1)[logs]
    outside = logs[(chunk < 0) | (chunk >= topic.numbers("chunks", 0)[logs])]
    contradict = "two chunks of one message contradict each other"
    no_room = "a chunk id is not below the number of chunks"
    sends = topic.at_a_position(topic.rows(Kind.SEND, outcomes=[CallOutcome.OK]))
    there = np.full(topic.messages, -1)
    there[topic.message[logs]] = logs
    sends = sends[there[topic.message[sends]] >= 0]
    announced = sends[topic.differ("chunks", sends, there[topic.message[sends]])]
    another = "a message has another number of chunks in the log than its producer sent"
    return (
        found(len(logs), bad, contradict, lambda index: (one[index], other[index]))
        + found(0, outside, no_room, lambda rows: (rows,))
        + found(0, announced, another, lambda rows: (rows, there[topic.message[rows]]))
    )


def stored_once_in_order(topic: TopicEvents) -> Evidence:
    """CHUNK-13: under deduplication a message has one uuid in the log, and each chunk once, in order."""
    if not topic.is_deduplicated:
        return NOTHING
    logs = _chunks(topic)
    logs = logs[~topic.present("replicated_from")[logs]]
    uuid, chunk = topic.codes("chunk_uuid"), topic.numbers("chunk_id", -1)
    order = logs[np.argsort(uuid[logs], kind="stable")]
    one, other = order[:-1], order[1:]
    wrong = np.flatnonzero((uuid[one] == uuid[other]) & (chunk[other] != chunk[one] + 1))
    begins = order[np.append(np.ones(min(1, len(order)), dtype=np.bool_), uuid[one] != uuid[other])]
    headless = begins[chunk[begins] != 0]
    again = _same_message(topic, begins)
    return (
        found(len(logs), wrong, "a chunk does not follow the one before it", lambda index: (one[index], other[index]))
        + found(0, headless, "a message has no first chunk", lambda rows: (rows,))
        + found(0, again, "a chunked message is in the log a second time", lambda pairs: pairs.T)
    )


def _same_message(topic: TopicEvents, begins: Ints) -> Ints:
    """First chunks of one producer and sequence id under different uuids."""
    producer, ids = topic.codes("producer"), topic.numbers("sequence_id", -1)
    begins = begins[(producer[begins] >= 0) & (ids[begins] >= 0)]
    order = begins[np.lexsort((begins, ids[begins], producer[begins]))]
    one, other = order[:-1], order[1:]
    same = (producer[one] == producer[other]) & (ids[one] == ids[other])
    pairs: Ints = np.column_stack([one, other])[same]
    return pairs


def chunks_in_order(topic: TopicEvents) -> Evidence:
    """CHUNK-03: the first copies of a message's chunks are in the log in order."""
    logs = _chunks(topic)
    uuid, chunk = topic.codes("chunk_uuid"), topic.numbers("chunk_id", -1)
    order = logs[np.lexsort((logs, chunk[logs], uuid[logs]))]
    is_first = np.append(True, (uuid[order][1:] != uuid[order][:-1]) | (chunk[order][1:] != chunk[order][:-1]))
    firsts = order[is_first[: len(order)]]
    same = uuid[firsts][1:] == uuid[firsts][:-1]
    follows = same & (chunk[firsts][1:] == chunk[firsts][:-1] + 1) & (firsts[1:] > firsts[:-1])
    begins = ~np.append(False, same)[: len(firsts)] & (chunk[firsts] == 0)
    bad = firsts[~(begins | np.append(False, follows)[: len(firsts)])]
    return found(len(firsts), bad, "a chunk is in the log before, or without, the previous chunk", lambda rows: (rows,))


def stored_whole(topic: TopicEvents) -> Evidence:
    """CHUNK-13: under deduplication a confirmed chunked message is in the log with all of its chunks."""
    if topic.read_back is None or not topic.is_deduplicated:
        return NOTHING
    sends = topic.rows(Kind.SEND, outcomes=[CallOutcome.OK, CallOutcome.DUPLICATE])
    producer, ids = topic.codes("producer"), topic.numbers("sequence_id", -1)
    sends = sends[(topic.numbers("chunks", 1)[sends] > 1) & (producer[sends] >= 0) & (ids[sends] >= 0)]
    sends = sends[topic.completed[sends] <= topic.invoked[topic.read_back]]
    logs = _chunks(topic)
    last = logs[topic.numbers("chunk_id", -1)[logs] == topic.numbers("chunks", 0)[logs] - 1]
    whole = last[_are_whole(topic, last)]
    bad = sends[~np.isin(topic.sent_as[sends], topic.sent_as[whole])]
    because = "a chunked message was confirmed, but its chunks are not all in the log"
    return found(len(sends), bad, because, lambda rows: (rows, topic.read_back))


def lost_in_part(topic: TopicEvents) -> Evidence:
    """DEDUP-15: without deduplication, too, a confirmed chunked message is in the log with all of its chunks."""
    if topic.read_back is None or topic.is_deduplicated:
        return NOTHING
    sends = topic.at_a_position(topic.rows(Kind.SEND, outcomes=[CallOutcome.OK]))
    sends = sends[topic.completed[sends] <= topic.invoked[topic.read_back]]
    logs = _chunks(topic)
    there = np.full(topic.messages, -1)
    there[topic.message[logs]] = logs
    sends = sends[there[topic.message[sends]] >= 0]
    there = there[topic.message[sends]]
    is_last = topic.numbers("chunk_id", -1)[there] == topic.numbers("chunks", 0)[there] - 1
    bad = np.flatnonzero(~(is_last & _are_whole(topic, there)))
    because = "a chunked message was confirmed, but its chunks are not all in the log"
    return found(len(sends), bad, because, lambda index: (sends[index], there[index]))


def chunked_missed(topic: TopicEvents) -> Evidence:
    """DEDUP-16: a drained Exclusive or Failover subscription has received all whole chunked messages.

    Not those with a cumulative ack between their chunks: a consumer that reconnects then lacks the first ones.
    """
    return _chunked_missed(topic, is_shared=False)


def chunked_missed_by_all(topic: TopicEvents) -> Evidence:
    """CHUNK-14: the consumers of a drained Shared or Key_Shared subscription received all whole chunked messages."""
    return _chunked_missed(topic, is_shared=True)


def _chunked_missed(topic: TopicEvents, *, is_shared: bool) -> Evidence:
    chunks, lasts = whole_chunks(topic)
    is_first = topic.numbers("chunk_id", -1)[chunks] == 0
    firsts, lasts = chunks[is_first], lasts[is_first]
    if not len(lasts):
        return NOTHING

    def decide(topic: TopicEvents, subscription: int) -> Evidence:
        begins = topic.of(subscription, topic.rows(Kind.BEGIN))
        drained = topic.of(subscription, topic.rows(Kind.DRAINED, outcomes=[CallOutcome.OK]))
        moved = topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP))
        dispatches = topic.of(subscription, topic.rows(Kind.DISPATCH))
        of_type = are_of_type(topic, dispatches, "Shared", "Key_Shared")
        if len(begins) != 1 or not len(drained) or len(moved) or bool(of_type.any()) != is_shared:
            return NOTHING
        place = topic.place
        acks = np.sort(place[topic.at_a_position(topic.of(subscription, topic.rows(Kind.ACK_CUMULATIVE)))])
        is_cut = np.searchsorted(acks, place[firsts]) < np.searchsorted(acks, place[lasts])
        due = lasts[~is_cut & (place[firsts] > place[begins[0]]) & (place[lasts] <= place[drained[-1]])]
        given = np.zeros(topic.messages, dtype=np.bool_)
        given[topic.message[dispatches[starts(topic, dispatches) <= topic.completed[drained[-1]]]]] = True
        bad = due[~given[topic.message[due]]]
        because = "a chunked message was never delivered to a subscription that has nothing left"
        return found(len(due), bad, because, lambda rows: (rows, drained[-1]))

    return topic.over_own_subscriptions(decide)


def whole_chunks(topic: TopicEvents) -> tuple[Ints, Ints]:
    """The chunks of the messages that the log has whole, in order and each chunk once; for each, its message's last."""
    logs = _chunks(topic)
    uuid, chunk = topic.codes("chunk_uuid"), topic.numbers("chunk_id", -1)
    order = logs[np.argsort(uuid[logs], kind="stable")]
    if not len(order):
        return order, order
    begins = np.flatnonzero(np.append(True, uuid[order][1:] != uuid[order][:-1]))
    ends = np.append(begins[1:], len(order)) - 1
    is_next = np.append(chunk[order][1:] == chunk[order][:-1] + 1, True)
    is_next[ends] = chunk[order[ends]] == topic.numbers("chunks", 0)[order[ends]] - 1
    is_whole = np.logical_and.reduceat(is_next, begins) & (chunk[order[begins]] == 0)
    lengths = ends + 1 - begins
    keep = np.repeat(is_whole, lengths)
    return order[keep], np.repeat(order[ends], lengths)[keep]


def given_in_order(topic: TopicEvents) -> Evidence:
    """CHUNK-05: ordered consumers receive each producer's messages, chunked or not, in order.

    The first delivery of each message counts, to any consumer.
    """
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    is_ordered = are_of_type(topic, dispatches, "Exclusive", "Failover")
    dispatches = dispatches[is_ordered & (topic.codes("producer")[dispatches] >= 0)]
    because = "a message was delivered to an ordered consumer only after a later one of its producer"
    return given_late(topic, dispatches, "producer", because)


def delivered_whole(topic: TopicEvents) -> Evidence:
    """CHUNK-04: a chunked message is delivered only if the log has all its chunks, with the payload that was sent."""
    if topic.read_back is None:
        return NOTHING
    given = topic.at_a_position(topic.rows(Kind.DISPATCH))
    given = given[topic.numbers("chunks", 1)[given] > 1]
    given = given[topic.completed[given] <= topic.invoked[topic.read_back]]
    named = given[topic.codes("chunk_uuid")[given] >= 0]
    in_part = named[~_are_whole(topic, named)]
    sends = topic.at_a_position(topic.rows(Kind.SEND, outcomes=[CallOutcome.OK]))
    sent = np.full(topic.messages, -1)
    sent[topic.message[sends]] = sends
    known = given[sent[topic.message[given]] >= 0]
    spoiled = known[topic.differ("digest", known, sent[topic.message[known]])]
    unfinished = "a chunked message was delivered, although its chunks are not all in the log"
    changed = "a chunked message was delivered with another payload than the one that was sent"
    return found(len(given), in_part, unfinished, lambda rows: (rows, topic.read_back)) + found(
        0, spoiled, changed, lambda rows: (sent[topic.message[rows]], rows)
    )


def _are_whole(topic: TopicEvents, given: Ints) -> Flags:
    """Whether the log has every chunk of these messages, up to their positions.

    In the ordered set of a uuid's chunk ids, the one at index n - 1 is n - 1 only if no lower one is missing.
    """
    logs = _chunks(topic)
    uuid, chunk = topic.codes("chunk_uuid"), topic.numbers("chunk_id", -1)
    logs = logs[chunk[logs] >= 0]
    width = int(chunk.max()) + 1
    _, first = np.unique(uuid[logs] * width + chunk[logs], return_index=True)
    different = np.append(logs[first], -1)  # the last one is for missing chunks
    begins = np.searchsorted(uuid[different[:-1]], uuid[given])
    highest = np.minimum(begins + topic.numbers("chunks", 1)[given] - 1, len(different) - 1)
    is_there = (highest < len(first)) & (uuid[different[highest]] == uuid[given])
    all_there = is_there & (chunk[different[highest]] == topic.numbers("chunks", 1)[given] - 1)
    beyond = topic.messages
    furthest = np.maximum.accumulate(uuid[different] * beyond + topic.place[different])[highest] - uuid[given] * beyond
    are_whole: Flags = all_there & (furthest <= topic.place[given])
    return are_whole


def _chunks(topic: TopicEvents) -> Ints:
    logs = topic.rows(Kind.LOG)
    return logs[topic.codes("chunk_uuid")[logs] >= 0]
