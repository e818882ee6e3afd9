"""What was read was written, as it was written: sends, log and dispatches have the same messages.

A message is its producer, sequence id, payload and key. A null differs from nothing, except for a key, which a message
may lack: only where no event has one were keys not recorded.
"""

from __future__ import annotations

import re

import numpy as np

from conformance.history.recorded import CallOutcome, Kind
from conformance.pipeline.invariants.order import starts
from conformance.pipeline.topic import NEVER, NOTHING, Evidence, Flags, Ints, TopicEvents, found

_PARTITION = re.compile(r"-partition-\d+$")

NO_ROW = UNRECORDED = -1


def sent_by_nobody(topic: TopicEvents) -> Evidence:
    """DEDUP-07: the log has only messages that this topic's producers sent, with their payloads and keys.

    A writer that was killed lacks its last sends. So an id is judged if its producer sent ids from both sides of it in
    one lane. A partition is not judged: sends with unknown outcome are recorded without the partition.
    """
    if _PARTITION.search(topic.identity[1]):
        return NOTHING
    sends = _by_message(topic, topic.rows(Kind.SEND))
    logs = _own_logs(topic)
    logs = logs[_within_a_lane(topic, sends, logs)]
    send = _first_of_message(topic, sends, logs)
    is_sent = send != NO_ROW
    changed = _with_another_content(topic, sends, send[is_sent], logs[is_sent])
    nobody = "a message is in the log that its producer did not send"
    otherwise = "a message is in the log with another payload or key than its producer sent"
    return found(len(logs), logs[~is_sent], nobody, lambda rows: (rows,)) + found(
        0, changed, otherwise, lambda pairs: pairs.T
    )


def _with_another_content(topic: TopicEvents, sends: Ints, send: Ints, logs: Ints) -> Ints:
    """Pairs of a send and a message of the log with its id, where no send with this id has the payload and key."""
    is_whole = ~topic.present("chunk_id")[logs]
    keeps_key = topic.keeps("key", send, logs)
    differs = np.flatnonzero(is_whole & (topic.differ("digest", send, logs) | ~keeps_key))
    has_keys = bool(np.any(topic.present("key")[send])) and bool(np.any(topic.present("key")[logs]))
    pairs: Ints = np.column_stack([send, logs])[differs]
    return pairs[~_have_content_of_another_send(topic, sends, logs[differs], has_keys=has_keys)]


def _have_content_of_another_send(topic: TopicEvents, sends: Ints, logs: Ints, *, has_keys: bool) -> Flags:
    """Which messages of the log have the payload and key of any send with their id."""
    sent, key = topic.sent_as[sends], topic.codes("key")
    first, end = (np.searchsorted(sent, topic.sent_as[logs], side=side) for side in ("left", "right"))
    index = np.repeat(np.arange(len(logs)), end - first)
    same = sends[np.arange(len(index)) - np.repeat(np.cumsum(end - first) - end, end - first)]
    is_it = ~topic.differ("digest", same, logs[index]) & ((key[same] == key[logs[index]]) | (not has_keys))
    flags = np.zeros(len(logs), dtype=np.bool_)
    flags[index[is_it]] = True
    return flags


def refused_but_stored(topic: TopicEvents) -> Evidence:
    """SERVE-01: a message that was refused is not in the log, unless it was sent again with another outcome."""
    refused = identified(topic, topic.rows(Kind.SEND, outcomes=[CallOutcome.FAILED]))
    if not len(refused):
        return NOTHING
    others = (CallOutcome.OK, CallOutcome.DUPLICATE, CallOutcome.UNKNOWN)
    sent = topic.sent_as
    refused = refused[~np.isin(sent[refused], sent[identified(topic, topic.rows(Kind.SEND, outcomes=others))])]
    logs = _own_logs(topic)
    bad = refused[np.isin(sent[refused], sent[logs])]
    because = "a message is in the log although the broker refused it"
    of_each, first = np.unique(sent[logs], return_index=True)
    return found(len(refused), bad, because, lambda rows: (rows, logs[first[np.searchsorted(of_each, sent[rows])]]))


def delivered_otherwise(topic: TopicEvents) -> Evidence:
    """DEDUP-16: consumers receive the messages of the log, as they are there.

    A position that the log lacks is judged if the log was read back later. The payload of a chunked message is judged
    by CHUNK-04, because the log has those of its chunks.
    """
    given, logs = topic.at_a_position(topic.rows(Kind.DISPATCH)), topic.rows(Kind.LOG)
    stored = np.full(topic.messages, NO_ROW)
    stored[topic.message[logs]] = logs
    there = stored[topic.message[given]]
    is_there = there != NO_ROW
    missing = given[:0]
    if topic.read_back is not None:
        missing = given[~is_there & (topic.completed[given] <= topic.invoked[topic.read_back])]
    given, there = given[is_there], there[is_there]
    differs = ~topic.keeps("key", given, there)
    for name in ("producer", "sequence_id", "chunk_uuid", "chunks"):
        differs |= topic.differ(name, given, there)
    differs |= topic.differ("digest", given, there) & ~topic.present("chunk_id")[there]
    nothing = "a message was delivered that is not in the log"
    another = "a message was delivered otherwise than it is in the log"
    return found(len(given) + len(missing), missing, nothing, lambda rows: (rows, topic.read_back)) + found(
        0, np.flatnonzero(differs), another, lambda index: (there[index], given[index])
    )


def read_before_sent(topic: TopicEvents) -> Evidence:
    """ACK-06: a position has no message before it was sent; nobody receives it or reads it in the log.

    The message counts as sent from the first of all its sends.
    """
    placed = topic.at_a_position(topic.rows(Kind.SEND))
    sent_ns = np.full(topic.messages, NEVER)
    np.minimum.at(sent_ns, topic.message[placed], topic.invoked[placed])
    sends, logs = _by_message(topic, topic.rows(Kind.SEND)), topic.at_a_position(_own_logs(topic))
    send = _first_of_message(topic, sends, logs)
    logs, send = logs[send != NO_ROW], send[send != NO_ROW]
    np.minimum.at(sent_ns, topic.message[logs], _first_sent(topic, sends)[send])
    read = topic.at_a_position(topic.rows(Kind.DISPATCH, Kind.LOG))
    read = read[sent_ns[topic.message[read]] != NEVER]
    when = np.where(topic.are(Kind.LOG, read), topic.completed[read], starts(topic, read))
    bad = read[when < sent_ns[topic.message[read]]]
    because = "a message was read before its producer began to send it"
    return found(len(read), bad, because, lambda rows: (rows,))


def beyond_the_end(topic: TopicEvents) -> Evidence:
    """ACK-06: no message, dispatch or mark-delete position is after the last entry of the log that was read back later.

    Mark-delete may be before the first entry of a ledger that is still empty. In a replicated topic it may be at a
    marker, which is no message.
    """
    if topic.read_back is None or not len(topic.at_a_position(np.array([topic.read_back]))):
        return NOTHING
    kinds = (Kind.LOG, Kind.DISPATCH) if topic.is_replicated else (Kind.LOG, Kind.DISPATCH, Kind.CURSOR)
    rows = topic.at_a_position(topic.rows(*kinds, outcomes=[CallOutcome.OK]))
    in_time = np.where(topic.are(Kind.LOG, rows), topic.invoked[rows], topic.completed[rows])
    rows = rows[(in_time <= topic.invoked[topic.read_back]) & (topic.numbers("entry", -1)[rows] >= 0)]
    bad = rows[topic.place[rows] > topic.place[topic.read_back]]
    because = "a position is after the end of the log"
    return found(len(rows), bad, because, lambda rows: (rows, topic.read_back))


def from_another_cluster(topic: TopicEvents) -> Evidence:
    """REPL-18: a topic that is not replicated has no message of another cluster."""
    rows = topic.rows(Kind.TOPIC)
    if not len(rows) or not np.all(topic.numbers("replicated", UNRECORDED)[rows] == 0):
        return NOTHING
    logs = topic.rows(Kind.LOG)
    bad = logs[topic.present("replicated_from")[logs]]
    because = "a message of another cluster is in the log of a topic that is not replicated"
    return found(len(logs), bad, because, lambda those: (rows[0], those))


def identified(topic: TopicEvents, rows: Ints) -> Ints:
    """Those of the rows that have a producer and a sequence id."""
    named: Ints = rows[(topic.codes("producer")[rows] >= 0) & (topic.numbers("sequence_id", -1)[rows] >= 0)]
    return named


def _own_logs(topic: TopicEvents) -> Ints:
    """The messages of the log that this cluster stored first and that can be identified."""
    logs = identified(topic, topic.rows(Kind.LOG))
    return logs[~topic.present("replicated_from")[logs]]


def _by_message(topic: TopicEvents, sends: Ints) -> Ints:
    """The sends that can be identified, those of one message together."""
    sends = identified(topic, sends)
    return sends[np.argsort(topic.sent_as[sends], kind="stable")]


def _first_of_message(topic: TopicEvents, sends: Ints, logs: Ints) -> Ints:
    """The first send of each message, of sends by message; :data:`NO_ROW` without one."""
    at = np.searchsorted(topic.sent_as[sends], topic.sent_as[logs])
    first = np.append(sends, NO_ROW)[at]
    return np.where((first != NO_ROW) & (topic.sent_as[first] == topic.sent_as[logs]), first, NO_ROW)


def _first_sent(topic: TopicEvents, sends: Ints) -> Ints:
    """For the first row of each message, of sends by message, when the first of its sends began; elsewhere 0."""
    earliest = np.zeros(len(topic), dtype=np.int64)
    _, first = np.unique(topic.sent_as[sends], return_index=True)
    if len(first):
        earliest[sends[first]] = np.minimum.reduceat(topic.invoked[sends], first)
    return earliest


def _within_a_lane(topic: TopicEvents, sends: Ints, logs: Ints) -> Flags:
    """Which ids of the log are between the lowest and the highest that some lane sent for their producer.

    ``sends``: by message, so in the order of producers and ids.
    """
    sent, lanes = topic.sent_as, topic.codes("lane")[sends]
    within = np.zeros(len(logs), dtype=np.bool_)
    for lane in np.unique(lanes):
        own = sends[lanes == lane]
        _, first = np.unique(topic.codes("producer")[own], return_index=True)
        begins, ends = sent[own[first]], sent[own[np.append(first[1:], len(own)) - 1]]
        at = np.searchsorted(begins, sent[logs], side="right") - 1
        within |= (at >= 0) & (sent[logs] <= ends[at])
    return within
