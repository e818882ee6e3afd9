"""The oracle: each invariant as a simple check of all pairs of events, without any optimization.

The pipeline is compared with it. A function takes the events of one topic and says whether they break the invariant. It
is written from the statement of the rule, not from the pipeline's code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from conformance.history.recorded import KILL, RELOADS, CallOutcome, Kind, Recorded
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.oracle.contents import CONTENTS, chunks_of, is_in_order
from tests.pipeline.oracle.deliveries import DELIVERIES
from tests.pipeline.oracle.relations import (
    History,
    by_subscription,
    covers,
    differ,
    entry,
    has_no_key_of,
    invoked,
    is_deduplicated,
    leaves_out,
    of,
    ok,
    own_subscriptions,
    perhaps,
    position,
    read_at,
    start,
    surely_until,
)

# ------------------------------------------------------------------------------------------------------- deduplication


def lost(history: History, _: VerificationSetting) -> bool:
    """A confirmed message is not at its confirmed position."""
    read, pairs = read_at(history), list[tuple[Recorded, Recorded]]()
    names = {(log.producer, log.sequence_id) for log in of(history, Kind.LOG)}
    for send in ok(of(history, Kind.SEND)):
        if read is None or send.completed_ns > read:
            continue
        if send.ledger is None:
            if send.producer and send.sequence_id is not None and (send.producer, send.sequence_id) not in names:
                return True
            continue
        there = [log for log in of(history, Kind.LOG, placed=True) if position(log) == position(send)]
        if not there:
            return True
        pairs.append((send, there[-1]))
    no_key = has_no_key_of(pairs)
    for send, log in pairs:
        if differ(send.producer, log.producer) or differ(send.sequence_id, log.sequence_id):
            return True
        if (log.chunk_id is None and differ(send.digest, log.digest)) or (not no_key and send.key != log.key):
            return True
    return False


def falsely_confirmed(history: History, _: VerificationSetting) -> bool:
    """Confirmed as a duplicate, although the log has nothing as high of the producer."""
    read = read_at(history)
    for send in of(history, Kind.SEND):
        if send.outcome is not CallOutcome.DUPLICATE or read is None or send.completed_ns > read:
            continue
        stored = [log.sequence_id or -1 for log in of(history, Kind.LOG) if log.producer == send.producer]
        if (send.sequence_id or -1) > max(stored, default=-1):
            return True
    return False


def whole_log(history: History) -> list[Recorded]:
    """The log's own unchunked messages with a producer and a sequence id, in order."""
    logs = of(history, Kind.LOG)
    logs = [log for log in logs if log.replicated_from is None and log.chunk_id is None]
    return [log for log in logs if log.producer and log.sequence_id is not None]


def stored_twice(history: History, _: VerificationSetting) -> bool:
    """With deduplication, one sequence id of a producer is stored twice."""
    pairs = [(log.producer, log.sequence_id) for log in whole_log(history)]
    return is_deduplicated(history) and len(set(pairs)) < len(pairs)


def out_of_order(history: History, _: VerificationSetting) -> bool:
    """With deduplication, a sequence id is stored only after a higher one."""
    logs = whole_log(history)
    for index, log in enumerate(logs):
        before = [other.sequence_id or 0 for other in logs[:index] if other.producer == log.producer]
        if log.sequence_id not in before and (log.sequence_id or 0) < max(before, default=-1):
            return is_deduplicated(history)
    return False


def forgotten(history: History, _: VerificationSetting) -> bool:
    """Confirmed before an unload, and it or a lower id is stored after it."""
    sends = [send for send in of(history, Kind.SEND) if send.producer and send.sequence_id is not None]
    moves = [fault for fault in of(history, Kind.FAULT) if fault.fault in RELOADS]
    for later in ok(sends):
        for earlier in sends:
            if earlier.outcome not in (CallOutcome.OK, CallOutcome.DUPLICATE) or earlier.producer != later.producer:
                continue
            if not any(earlier.completed_ns < invoked(move) and move.completed_ns < invoked(later) for move in moves):
                continue
            if later.ledger is not None and (later.sequence_id or 0) <= (earlier.sequence_id or 0):
                return is_deduplicated(history)
    return False


def missed(history: History, _: VerificationSetting) -> bool:
    """Drained, and a message after the start was never delivered."""
    for events in own_subscriptions(history):
        begins, drained = of(events, Kind.BEGIN), ok(of(events, Kind.DRAINED))
        if len(begins) != 1 or not drained or of(events, Kind.SEEK, Kind.SKIP):
            continue
        until = drained[-1].completed_ns
        given = {position(event) for event in of(events, Kind.DISPATCH, placed=True) if start(event) <= until}
        for log in of(events, Kind.LOG, placed=True):
            is_due = entry(begins[0]) < entry(log) <= entry(drained[-1])
            if log.chunk_id is None and is_due and position(log) not in given:
                return True
    return False


# ------------------------------------------------------------------------------------------------------------ chunking


def is_whole(given: Recorded, chunks: list[Recorded]) -> bool:
    """Whether all chunks of this message are stored, up to its position."""
    there = {log.chunk_id for log in chunks if entry(log) <= entry(given)}
    return there >= set(range(given.chunks or 1))


def chunks_agree(history: History, _: VerificationSetting) -> bool:
    """Chunks of one uuid contradict each other (if they are adjacent), or do not fit."""
    for chunks in chunks_of(history).values():
        if any(log.chunk_id is None or not 0 <= log.chunk_id < (log.chunks or 0) for log in chunks):
            return True
        for send in ok(of(history, Kind.SEND, placed=True)):
            at = [log for log in of(history, Kind.LOG) if log.chunk_uuid and position(log) == position(send)]
            if at and differ(send.chunks, at[-1].chunks):
                return True
        for one, other in itertools.pairwise(chunks):
            same = [differ(getattr(one, name), getattr(other, name)) for name in ("chunks", "producer", "sequence_id")]
            if any(same):
                return True
    return False


def chunks_in_order(history: History, _: VerificationSetting) -> bool:
    """A chunk has no predecessor anywhere before it."""
    for chunks in chunks_of(history).values():
        ids = [-1 if log.chunk_id is None else log.chunk_id for log in chunks]
        if any(number != 0 and number - 1 not in ids[: ids.index(number)] for number in ids):
            return True
    return False


def stored_whole(history: History, _: VerificationSetting) -> bool:
    """With deduplication, a confirmed message whose chunks are not all stored under any uuid."""
    read = read_at(history)
    whole = {
        (chunk.producer, chunk.sequence_id)
        for chunks in chunks_of(history).values()
        for chunk in chunks
        if chunk.chunk_id == (chunk.chunks or 0) - 1 and is_whole(chunk, chunks)
    }
    for send in of(history, Kind.SEND):
        is_confirmed = send.outcome in (CallOutcome.OK, CallOutcome.DUPLICATE) and (send.chunks or 1) > 1
        if not is_confirmed or read is None or send.completed_ns > read or not send.producer:
            continue
        if send.sequence_id is not None and (send.producer, send.sequence_id) not in whole:
            return is_deduplicated(history)
    return False


def stored_once_in_order(history: History, _: VerificationSetting) -> bool:
    """With deduplication, chunks are repeated, missing in between, or stored under two uuids."""
    if not is_deduplicated(history):
        return False
    firsts = []
    own = [one for one in history if one.replicated_from is None]
    for chunks in chunks_of(own).values():
        ids = [-1 if log.chunk_id is None else log.chunk_id for log in chunks]
        if ids != list(range(len(ids))):
            return True
        firsts.append((chunks[0].producer, chunks[0].sequence_id))
    named = [first for first in firsts if None not in first]
    return len(set(named)) < len(named)


def delivered_whole(history: History, _: VerificationSetting) -> bool:
    """A chunked message was delivered incomplete or changed."""
    read = read_at(history)
    for given in of(history, Kind.DISPATCH, placed=True):
        if (given.chunks or 1) <= 1 or read is None or given.completed_ns > read:
            continue
        if given.chunk_uuid is not None and not is_whole(given, chunks_of(history).get(given.chunk_uuid, [])):
            return True
        sends = [send for send in ok(of(history, Kind.SEND, placed=True)) if position(send) == position(given)]
        if sends and differ(sends[-1].digest, given.digest):
            return True
    return False


# ------------------------------------------------------------------------------------------------------ acknowledgment


def may_be_lost(event: Recorded, history: History, setting: VerificationSetting) -> bool:
    kills = [fault for fault in of(history, Kind.FAULT) if fault.fault == KILL]
    return any(
        event.completed_ns >= invoked(kill) - setting.persisted_after_of(event.run)
        and invoked(event) <= kill.completed_ns
        for kill in kills
    )


def seek_between(earlier: Recorded, later: Recorded, history: History) -> bool:
    """Whether the cursor was moved at any moment from the earlier event to the start of the later one."""
    seeks = perhaps(of(history, Kind.SEEK))
    over = sum(seek.completed_ns < invoked(earlier) for seek in seeks)
    begun = sum(invoked(seek) <= invoked(later) for seek in seeks)
    return over != begun


def positions_rise(history: History, _: VerificationSetting) -> bool:
    """Sent after another one's confirmation, and stored before it."""
    sends = ok(of(history, Kind.SEND, placed=True))
    return any(one.completed_ns < invoked(other) and entry(other) < entry(one) for one in sends for other in sends)


def delivered_again(history: History, setting: VerificationSetting) -> bool:
    """Dispatched to a consumer although certainly acknowledged before."""
    for events in by_subscription(history):
        for ack in ok(of(events, Kind.ACK, Kind.ACK_CUMULATIVE, placed=True)):
            for given in of(events, Kind.DISPATCH, placed=True):
                if given.invoked_ns is None or not covers(ack, given):
                    continue
                if given.invoked_ns - setting.on_its_way_ns <= ack.completed_ns:
                    continue
                if not may_be_lost(ack, events, setting) and not seek_between(ack, given, events):
                    return True
    return False


def mark_delete_back(history: History, setting: VerificationSetting) -> bool:
    """A reading is before an earlier one that a kill cannot have undone."""
    for events in by_subscription(history):
        readings = ok(of(events, Kind.CURSOR, placed=True))
        for earlier in readings:
            for later in readings:
                if earlier.completed_ns >= invoked(later) or entry(later) >= entry(earlier):
                    continue
                if not may_be_lost(earlier, events, setting) and not seek_between(earlier, later, events):
                    return True
    return False


def mark_delete_over_a_hole(history: History, _: VerificationSetting) -> bool:
    """Mark-delete covers a message that nobody acknowledged or skipped."""
    for events in own_subscriptions(history):
        begins = of(events, Kind.BEGIN, placed=True)
        if len(begins) != 1:
            continue
        for reading in ok(of(events, Kind.CURSOR, placed=True)):
            for log in of(events, Kind.LOG, placed=True):
                is_due = (log.chunk_id or 0) + 1 >= (1 if log.chunks is None else log.chunks)
                if not is_due or not entry(begins[0]) < entry(log) <= entry(reading):
                    continue
                if not any(invoked(event) <= reading.completed_ns for event in leaves_out(events, log)):
                    return True
    return False


def mark_delete_late(history: History, _: VerificationSetting) -> bool:
    """A reading before the first reload is before an entry that is acknowledged with all before it."""
    for events in own_subscriptions(history):
        begins = of(events, Kind.BEGIN, placed=True)
        reloads = [invoked(fault) for fault in of(events, Kind.FAULT) if fault.fault in RELOADS]
        if len(begins) != 1 or of(events, Kind.SEEK, Kind.SKIP):
            continue
        acks = [one for one in ok(of(events, Kind.ACK, Kind.ACK_CUMULATIVE, placed=True)) if one.subscription]
        last = {
            id(chunk): chunks[-1] for chunks in chunks_of(events).values() if is_in_order(chunks) for chunk in chunks
        }
        logs = [log for log in of(events, Kind.LOG, placed=True) if entry(log) > entry(begins[0])]
        for reading in ok(of(events, Kind.CURSOR, placed=True)):
            if reading.completed_ns >= min(reloads, default=float("inf")):
                continue
            done = [one for one in acks if one.completed_ns < invoked(reading)]
            open_ = [log for log in logs if not any(covers(ack, last.get(id(log), log)) for ack in done)]
            covered = [entry(log) for log in logs if not open_ or entry(log) < entry(open_[0])]
            if covered and entry(reading) < covered[-1]:
                return True
    return False


# ---------------------------------------------------------------------------------------------------------- Key_Shared


def one_consumer_at_a_time(history: History, setting: VerificationSetting) -> bool:
    """Two messages of one key are certainly pending at two consumers at one moment."""
    for events in own_subscriptions(history):
        given = [
            event
            for event in of(events, Kind.DISPATCH, placed=True)
            if event.subscription_type == "Key_Shared" and event.key is not None and event.subscription is not None
        ]
        spans = [(event, start(event), surely_until(event, events, setting)) for event in given]
        for one, began, ended in spans:
            for other, other_began, other_ended in spans:
                together = max(began, other_began) < min(ended, other_ended)
                if together and one.key == other.key and one.consumer != other.consumer:
                    return True
    return False


ORACLE: dict[str, Callable[[History, VerificationSetting], bool]] = {
    broken.__name__.replace("_", " "): broken
    for broken in (
        *CONTENTS,
        *DELIVERIES,
        mark_delete_late,
        forgotten,
        chunks_in_order,
        stored_whole,
        stored_twice,
        falsely_confirmed,
        out_of_order,
        lost,
        missed,
        chunks_agree,
        delivered_whole,
        stored_once_in_order,
        mark_delete_over_a_hole,
        mark_delete_back,
        positions_rise,
        delivered_again,
        one_consumer_at_a_time,
    )
}
"""By the name of the invariant."""
