"""Document 003 over histories: positions rise, acks stay, mark-delete covers only acknowledged messages.

One bound decides which changes a kill may undo. A change of a cursor is persisted after
``VerificationSetting.persisted_after_of`` its run. A seek begins a new *epoch* of its subscription, and events of
different epochs are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.history.recorded import PERHAPS_RELOADS, CallOutcome, Kind
from conformance.pipeline.invariants.chunking import whole_chunks
from conformance.pipeline.invariants.order import are_of_type, earliest_after, first_at_least
from conformance.pipeline.invariants.pending_acks import at_one_consumer
from conformance.pipeline.topic import (
    NEVER,
    NOTHING,
    UNKNOWN_TIME,
    Evidence,
    Flags,
    Ints,
    TopicEvents,
    found,
)

PERHAPS_DONE = (CallOutcome.OK, CallOutcome.UNKNOWN)


def positions_rise(topic: TopicEvents) -> Evidence:
    """ACK-06: a message sent after another one's confirmation is later in the log."""
    sends = topic.at_a_position(topic.rows(Kind.SEND, outcomes=[CallOutcome.OK]))
    if not len(sends):
        return NOTHING
    completed, place = topic.completed[sends], topic.place[sends]
    earliest = np.minimum.accumulate(completed[::-1])[::-1]  # of the confirmations at each send and later in the log
    after = np.searchsorted(place, place, side="right")
    confirmed = np.append(earliest, NEVER)[after]
    bad = np.flatnonzero(confirmed < topic.invoked[sends])

    def rows(bad: Ints) -> tuple[Ints, Ints]:
        return sends[earliest_after(earliest, completed, after[bad])], sends[bad]

    because = "a message that was sent after another one's confirmation is before it in the log"
    return found(len(sends), bad, because, rows)


def delivered_again(topic: TopicEvents) -> Evidence:
    """ACK-09: an acknowledged message is not dispatched again, unless a kill may have lost its ack.

    Only dispatches that the proxy saw are judged. A dispatch also takes time to the proxy, in which the message may be
    acknowledged by another consumer, after the first one left.
    """
    return topic.over_subscriptions(_delivered_again)


def _delivered_again(topic: TopicEvents, subscription: int) -> Evidence:
    dispatches = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    dispatches = dispatches[topic.invoked[dispatches] != UNKNOWN_TIME]
    total = NOTHING
    for earlier, later in _epochs(topic, subscription, _firm_acks(topic, subscription), dispatches):
        total += _again(topic, earlier, later)
    return total


def _firm_acks(topic: TopicEvents, subscription: int) -> Ints:
    acks = topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE, outcomes=[CallOutcome.OK])
    acks = topic.at_a_position(topic.of(subscription, acks))
    return acks[~topic.may_be_lost(acks)]


def _again(topic: TopicEvents, acks: Ints, dispatches: Ints) -> Evidence:
    settled = _earliest(topic, acks, topic.completed)
    message = topic.message
    sent = topic.invoked[dispatches] - topic.setting.on_its_way_ns  # or later
    bad = dispatches[sent > settled[message[dispatches]]]

    def rows(bad: Ints) -> tuple[Ints, Ints]:
        times, rank = np.unique(topic.completed[acks], return_inverse=True)
        order = np.lexsort((message[acks], rank))
        asked = np.searchsorted(times, settled[message[bad]]) * topic.messages + message[bad]
        at = np.searchsorted((rank * topic.messages + message[acks])[order], asked)
        return acks[order[at]], bad

    because = "a message was dispatched, although its ack was confirmed before, and no kill can have lost it"
    return found(len(acks), bad, because, rows)


def shared_one_at_a_time(topic: TopicEvents) -> Evidence:
    """ACK-12: a message of a Shared subscription is pending at one consumer at a time."""
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    dispatches = dispatches[are_of_type(topic, dispatches, "Shared")]
    because = "a message was dispatched to a consumer while it was pending at another"
    return at_one_consumer(topic, dispatches, topic.message[dispatches], because)


def redelivered_without_request(topic: TopicEvents) -> Evidence:
    """ACK-13: a message that is pending at a consumer is dispatched to it again only if its redelivery is requested.

    On ordered subscriptions a request of one message redelivers all. Clients request chunks by themselves.
    """
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    dispatches = dispatches[are_of_type(topic, dispatches, "Shared", "Key_Shared")]
    dispatches = dispatches[~topic.present("chunk_uuid")[dispatches]]
    consumer = topic.codes("consumer")
    at = topic.message[dispatches] * (int(consumer.max()) + 2) + consumer[dispatches]
    because = "a message was dispatched again to the consumer at which it was pending"
    return at_one_consumer(topic, dispatches, at, because, is_once=True)


def delivered_before_beginning(topic: TopicEvents) -> Evidence:
    """ACK-01: a subscription is given no message that its first mark-delete covers, unless it is reset."""
    return topic.over_own_subscriptions(_before_beginning)


def _before_beginning(topic: TopicEvents, subscription: int) -> Evidence:
    begins = topic.of(subscription, topic.rows(Kind.BEGIN))
    if len(begins) != 1 or len(topic.of(subscription, topic.rows(Kind.SEEK))):
        return NOTHING
    if not len(topic.at_a_position(begins)):
        return NOTHING
    dispatches = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    bad = dispatches[topic.place[dispatches] <= topic.place[begins[0]]]
    because = "a message was dispatched to a subscription that begins after it"
    return found(len(dispatches), bad, because, lambda rows: (begins[0], rows))


def mark_delete_back(topic: TopicEvents) -> Evidence:
    """ACK-02: mark-delete only advances, except by a seek, and for changes that a kill may undo."""
    return topic.over_subscriptions(_mark_delete_back)


def _mark_delete_back(topic: TopicEvents, subscription: int) -> Evidence:
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[CallOutcome.OK])))
    firm = readings[~topic.may_be_lost(readings)]
    total = NOTHING
    for earlier, later in _epochs(topic, subscription, firm, readings):
        total += _back(topic, earlier, later)
    return total


def _back(topic: TopicEvents, earlier: Ints, later: Ints) -> Evidence:
    earlier = earlier[np.argsort(topic.completed[earlier], kind="stable")]
    before = np.searchsorted(topic.completed[earlier], topic.invoked[later], side="left")
    later, before = later[before > 0], before[before > 0]
    if not len(later):
        return NOTHING
    furthest = np.maximum.accumulate(topic.place[earlier])
    bad = np.flatnonzero(topic.place[later] < furthest[before - 1])

    def rows(bad: Ints) -> tuple[Ints, Ints]:
        return earlier[first_at_least(topic.place[earlier], furthest[before[bad] - 1])], later[bad]

    return found(len(later), bad, "mark-delete went back", rows)


def mark_delete_over_a_hole(topic: TopicEvents) -> Evidence:
    """ACK-01: every message between the subscription's beginning and mark-delete was acknowledged or skipped.

    An ack that may have taken effect counts, even if it was undone later: a hole is a message without any ack. The last
    chunk counts for a chunked message. A subscription that was created more than once is not judged.
    """
    return topic.over_own_subscriptions(_over_a_hole)


def _over_a_hole(topic: TopicEvents, subscription: int) -> Evidence:
    begins = topic.at_a_position(topic.of(subscription, topic.rows(Kind.BEGIN)))
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[CallOutcome.OK])))
    logs = topic.rows(Kind.LOG)
    logs = logs[are_acknowledged_by(topic, logs)]
    logs = logs[topic.place[logs] > topic.place[begins[0]]] if len(begins) == 1 else logs[:0]
    acknowledged = perhaps_acknowledged(topic, subscription)[topic.message[logs]]
    because = "mark-delete covers a message that was not acknowledged"
    return covering_holes(topic, logs, acknowledged, readings, because)


def mark_delete_late(topic: TopicEvents) -> Evidence:
    """ACK-02: mark-delete covers all messages from the subscription's beginning that are confirmed as acknowledged.

    A reading is judged up to the first reload of the topic, which may lose what is not persisted (ACK-09).
    """
    return topic.over_own_subscriptions(_late)


def _late(topic: TopicEvents, subscription: int) -> Evidence:
    begins = topic.at_a_position(topic.of(subscription, topic.rows(Kind.BEGIN)))
    if len(begins) != 1 or len(topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP))):
        return NOTHING
    reloaded_ns = min((invoked_ns for name, invoked_ns, _ in topic.faults if name in PERHAPS_RELOADS), default=NEVER)
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[CallOutcome.OK])))
    readings = readings[topic.completed[readings] < reloaded_ns]
    acks = topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE, outcomes=[CallOutcome.OK])
    acknowledged = _earliest(topic, topic.at_a_position(topic.of(subscription, acks)), topic.completed)
    logs = topic.at_a_position(topic.rows(Kind.LOG))
    logs = logs[topic.place[logs] > topic.place[begins[0]]]
    if not len(logs) or not len(readings):
        return NOTHING
    by_entry = np.append(topic.place[logs][1:] != topic.place[logs][:-1], True)
    chunks, lasts = whole_chunks(topic)
    of_message = np.arange(len(topic))  # the row by which a message is acknowledged
    of_message[chunks] = lasts
    all_by = np.maximum.accumulate(acknowledged[topic.message[of_message[logs]]])[by_entry]
    covered = np.searchsorted(all_by, topic.invoked[readings], side="left")
    readings, covered = readings[covered > 0], covered[covered > 0]
    demanded = logs[by_entry][covered - 1]
    bad = np.flatnonzero(topic.place[readings] < topic.place[demanded])
    because = "mark-delete does not cover a message that was acknowledged with all before it"
    return found(len(readings), bad, because, lambda index: (demanded[index], readings[index]))


def are_acknowledged_by(topic: TopicEvents, logs: Ints) -> Flags:
    """Which rows of a log acks refer to: the last chunk of each chunked message, and all other messages."""
    flags: Flags = topic.numbers("chunk_id", -1)[logs] + 1 >= topic.numbers("chunks", 0)[logs]
    return flags


def covering_holes(
    topic: TopicEvents, logs: Ints, acknowledged: Ints, readings: Ints, because: str, *, rather: Flags | None = None
) -> Evidence:
    """Readings of a mark-delete position that cover a message not acknowledged by then.

    ``acknowledged``: the time for each row of the log, in ns. A case has the first such message, preferably one of
    ``rather``.
    """
    if not len(logs):
        return NOTHING
    latest = np.maximum.accumulate(acknowledged)
    covered = np.searchsorted(topic.place[logs], topic.place[readings], side="right")
    readings, covered = readings[covered > 0], covered[covered > 0]
    bad = np.flatnonzero(latest[covered - 1] > topic.completed[readings])

    def rows(bad: Ints) -> tuple[Ints, Ints]:
        read_ns = topic.completed[readings[bad]]
        holes = first_at_least(acknowledged, read_ns + 1)
        if rather is not None:
            wanted = first_at_least(np.where(rather, acknowledged, UNKNOWN_TIME), read_ns + 1)
            holes = np.where(wanted < covered[bad], wanted, holes)
        return logs[holes], readings[bad]

    return found(len(readings), bad, because, rows)


def perhaps_acknowledged(topic: TopicEvents, subscription: int) -> Ints:
    """For each message, the earliest time at which it may be acknowledged or skipped."""
    acks = topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE, outcomes=PERHAPS_DONE)
    settled = _earliest(topic, topic.at_a_position(topic.of(subscription, acks)), topic.invoked)
    set_positions = topic.at_a_position(topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP, outcomes=PERHAPS_DONE)))
    is_seek = topic.are(Kind.SEEK, set_positions)
    side = np.where(
        is_seek, topic.place[set_positions] - 1, topic.place[set_positions]
    )  # a seek skips the messages before it
    last = np.searchsorted(topic.place, side, side="right") - 1
    left_out = np.full(topic.messages, NEVER)
    np.minimum.at(left_out, topic.message[last[last >= 0]], topic.invoked[set_positions[last >= 0]])
    return np.minimum(settled, _of_this_and_later(left_out))


def _earliest(topic: TopicEvents, acks: Ints, when: Ints) -> Ints:
    """For each message, the time of the first of these acks that covers it; :data:`NEVER` without one."""
    is_cumulative = topic.are(Kind.ACK_CUMULATIVE, acks)
    each, up_to = np.full(topic.messages, NEVER), np.full(topic.messages, NEVER)
    np.minimum.at(each, topic.message[acks[~is_cumulative]], when[acks[~is_cumulative]])
    np.minimum.at(up_to, topic.message[acks[is_cumulative]], when[acks[is_cumulative]])
    earliest: Ints = np.minimum(each, _of_this_and_later(up_to))
    return earliest


def _of_this_and_later(times: Ints) -> Ints:
    earliest: Ints = np.minimum.accumulate(times[::-1])[::-1]
    return earliest


def _epochs(topic: TopicEvents, subscription: int, earlier: Ints, later: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of events by epoch, without a seek of the subscription between or during them."""
    seeks = topic.of(subscription, topic.rows(Kind.SEEK, outcomes=PERHAPS_DONE))
    if not len(seeks):
        yield earlier, later
        return
    ended, begun = np.sort(topic.completed[seeks]), np.sort(topic.invoked[seeks])
    of_earlier = np.searchsorted(ended, topic.invoked[earlier], side="left")
    of_later = np.searchsorted(begun, topic.invoked[later], side="right")
    for epoch in range(len(seeks) + 1):
        yield earlier[of_earlier == epoch], later[of_later == epoch]
