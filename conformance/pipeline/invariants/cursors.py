"""Document 003 over histories: positions rise, acknowledgments stay, mark-delete covers only what was acknowledged.

What a kill may undo is settled by one bound: a change of a cursor that was made longer before the kill than
``Setting.persisted_after_of`` its run was persisted, and stands. A seek begins a new *epoch* of its subscription: what
was so before it binds nothing after it, nor while it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.history.recorded import Kind, Outcome
from conformance.pipeline.invariants.order import are_of_type
from conformance.pipeline.invariants.outstanding import at_one_consumer
from conformance.pipeline.topic import NEVER, NOTHING, UNKNOWN_TIME, Flags, Found, Ints, Topic, found

PERHAPS_DONE = (Outcome.OK, Outcome.UNKNOWN)


def positions_rise(topic: Topic) -> Found:
    """ACK-06: a message that was sent after another one's confirmation is later in the log."""
    sends = topic.at_a_position(topic.rows(Kind.SEND, outcomes=[Outcome.OK]))
    if not len(sends):
        return NOTHING
    completed, place = topic.completed[sends], topic.place[sends]
    earliest = np.minimum.accumulate(completed[::-1])[::-1]  # of the confirmations at each send and behind it
    behind = np.searchsorted(place, place, side="right")
    confirmed = np.append(earliest, NEVER)[behind]
    bad = np.flatnonzero(confirmed < topic.invoked[sends])

    def rows(index: int) -> tuple[int, int]:
        later = behind[index] + int(np.argmin(completed[behind[index] :]))
        return sends[later], sends[index]

    because = "a message that was sent after another one's confirmation stands in front of it"
    return found(len(sends), bad, because, rows)


def delivered_again(topic: Topic) -> Found:
    """ACK-09: what was acknowledged, and cannot have been lost by a kill, is not sent to a consumer any more.

    Only dispatches are judged that the proxy saw; the others may have been on their way. To the proxy, too, a message
    takes its time: it may have been acknowledged by the next consumer meanwhile, its first one having left.
    """
    return topic.over_subscriptions(_delivered_again)


def _delivered_again(topic: Topic, subscription: int) -> Found:
    dispatches = topic.at_a_position(topic.of(subscription, topic.rows(Kind.DISPATCH)))
    dispatches = dispatches[topic.invoked[dispatches] != UNKNOWN_TIME]
    total = NOTHING
    for earlier, later in _epochs(topic, subscription, _firm_acks(topic, subscription), dispatches):
        total += _again(topic, earlier, later)
    return total


def _firm_acks(topic: Topic, subscription: int) -> Ints:
    acks = topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE, outcomes=[Outcome.OK])
    acks = topic.at_a_position(topic.of(subscription, acks))
    return acks[~topic.may_be_lost(acks)]


def _again(topic: Topic, acks: Ints, dispatches: Ints) -> Found:
    settled = _earliest(topic, acks, topic.completed)
    message = topic.message
    sent = topic.invoked[dispatches] - topic.setting.on_its_way_ns  # or later
    bad = dispatches[sent > settled[message[dispatches]]]

    def rows(dispatch: int) -> tuple[int, int]:
        at = message[dispatch]
        settling = acks[(message[acks] >= at) & (topic.completed[acks] == settled[at])]
        return settling[0], dispatch

    because = "a message was sent to a consumer though its acknowledgment had been confirmed and could not be lost"
    return found(len(acks), bad, because, rows)


def shared_one_at_a_time(topic: Topic) -> Found:
    """ACK-12: a message of a shared subscription is outstanding at one consumer at a time."""
    dispatches = topic.at_a_position(topic.rows(Kind.DISPATCH))
    dispatches = dispatches[are_of_type(topic, dispatches, "Shared")]
    because = "a message was sent to a consumer while it was outstanding at another"
    return at_one_consumer(topic, dispatches, topic.message[dispatches], because)


def mark_delete_back(topic: Topic) -> Found:
    """ACK-02: mark-delete only advances, but for a seek and for what a kill may undo."""
    return topic.over_subscriptions(_mark_delete_back)


def _mark_delete_back(topic: Topic, subscription: int) -> Found:
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[Outcome.OK])))
    firm = readings[~topic.may_be_lost(readings)]
    total = NOTHING
    for earlier, later in _epochs(topic, subscription, firm, readings):
        total += _back(topic, earlier, later)
    return total


def _back(topic: Topic, earlier: Ints, later: Ints) -> Found:
    earlier = earlier[np.argsort(topic.completed[earlier], kind="stable")]
    before = np.searchsorted(topic.completed[earlier], topic.invoked[later], side="left")
    later, before = later[before > 0], before[before > 0]
    if not len(later):
        return NOTHING
    furthest = np.maximum.accumulate(topic.place[earlier])
    bad = np.flatnonzero(topic.place[later] < furthest[before - 1])

    def rows(index: int) -> tuple[int, int]:
        return earlier[np.argmax(topic.place[earlier[: before[index]]])], later[index]

    return found(len(later), bad, "mark-delete went back", rows)


def mark_delete_over_a_hole(topic: Topic) -> Found:
    """ACK-01: up to mark-delete every message behind the subscription's beginning was acknowledged, or left out.

    An acknowledgment that may have taken effect counts, and one that was undone later, too: a hole is what nobody ever
    acknowledged. Of a chunked message its last chunk is asked for. A subscription that was made more than once is
    not judged.
    """
    return topic.over_own_subscriptions(_over_a_hole)


def _over_a_hole(topic: Topic, subscription: int) -> Found:
    begins = topic.at_a_position(topic.of(subscription, topic.rows(Kind.BEGIN)))
    readings = topic.at_a_position(topic.of(subscription, topic.rows(Kind.CURSOR, outcomes=[Outcome.OK])))
    logs = topic.rows(Kind.LOG)
    logs = logs[are_acknowledged_by(topic, logs)]
    logs = logs[topic.place[logs] > topic.place[begins[0]]] if len(begins) == 1 else logs[:0]
    acknowledged = perhaps_acknowledged(topic, subscription)[topic.message[logs]]
    because = "mark-delete covers a message that nobody had acknowledged"
    return covering_holes(topic, logs, acknowledged, readings, because)


def are_acknowledged_by(topic: Topic, logs: Ints) -> Flags:
    """By which rows of a log messages are acknowledged: of a chunked one by its last chunk."""
    flags: Flags = topic.numbers("chunk_id", -1)[logs] + 1 >= topic.numbers("chunks", 0)[logs]
    return flags


def covering_holes(
    topic: Topic, logs: Ints, acknowledged: Ints, readings: Ints, because: str, *, rather: Flags | None = None
) -> Found:
    """Readings of a mark-delete that cover a message not acknowledged by then; ns, for each row of the log.

    Of several such messages the first one is told; one of ``rather`` before others.
    """
    if not len(logs):
        return NOTHING
    latest = np.maximum.accumulate(acknowledged)
    covered = np.searchsorted(topic.place[logs], topic.place[readings], side="right")
    readings, covered = readings[covered > 0], covered[covered > 0]
    bad = np.flatnonzero(latest[covered - 1] > topic.completed[readings])

    def rows(index: int) -> tuple[int, int]:
        holes = acknowledged[: covered[index]] > topic.completed[readings[index]]
        wanted = holes if rather is None else holes & rather[: covered[index]]
        return logs[np.argmax(wanted if wanted.any() else holes)], readings[index]

    return found(len(readings), bad, because, rows)


def perhaps_acknowledged(topic: Topic, subscription: int) -> Ints:
    """For each message, the earliest moment from which it may be acknowledged or left out."""
    acks = topic.rows(Kind.ACK, Kind.ACK_CUMULATIVE, outcomes=PERHAPS_DONE)
    settled = _earliest(topic, topic.at_a_position(topic.of(subscription, acks)), topic.invoked)
    moves = topic.at_a_position(topic.of(subscription, topic.rows(Kind.SEEK, Kind.SKIP, outcomes=PERHAPS_DONE)))
    is_seek = topic.are(Kind.SEEK, moves)
    side = np.where(is_seek, topic.place[moves] - 1, topic.place[moves])  # a seek leaves out what is before it
    last = np.searchsorted(topic.place, side, side="right") - 1
    left_out = np.full(topic.messages, NEVER)
    np.minimum.at(left_out, topic.message[last[last >= 0]], topic.invoked[moves[last >= 0]])
    return np.minimum(settled, _of_this_and_later(left_out))


def _earliest(topic: Topic, acks: Ints, when: Ints) -> Ints:
    """For each message, when the first of these acknowledgments that covers it was made; :data:`NEVER` without one."""
    is_cumulative = topic.are(Kind.ACK_CUMULATIVE, acks)
    each, up_to = np.full(topic.messages, NEVER), np.full(topic.messages, NEVER)
    np.minimum.at(each, topic.message[acks[~is_cumulative]], when[acks[~is_cumulative]])
    np.minimum.at(up_to, topic.message[acks[is_cumulative]], when[acks[is_cumulative]])
    earliest: Ints = np.minimum(each, _of_this_and_later(up_to))
    return earliest


def _of_this_and_later(times: Ints) -> Ints:
    earliest: Ints = np.minimum.accumulate(times[::-1])[::-1]
    return earliest


def _epochs(topic: Topic, subscription: int, earlier: Ints, later: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of events with no seek of the subscription between them nor over one of them, epoch by epoch."""
    seeks = topic.of(subscription, topic.rows(Kind.SEEK, outcomes=PERHAPS_DONE))
    if not len(seeks):
        yield earlier, later
        return
    ended, begun = np.sort(topic.completed[seeks]), np.sort(topic.invoked[seeks])
    of_earlier = np.searchsorted(ended, topic.invoked[earlier], side="left")
    of_later = np.searchsorted(begun, topic.invoked[later], side="right")
    for epoch in range(len(seeks) + 1):
        yield earlier[of_earlier == epoch], later[of_later == epoch]
