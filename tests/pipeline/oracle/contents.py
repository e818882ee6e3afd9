"""The oracle for contents: what was read was written, as it was written; see :mod:`tests.pipeline.oracle`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from conformance.history.recorded import CallOutcome, Kind, Recorded
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.oracle.relations import (
    History,
    differ,
    entry,
    has_no_key_of,
    invoked,
    last_reading,
    of,
    ok,
    own_subscriptions,
    position,
    read_at,
    start,
)


def has_name(one: Recorded) -> bool:
    return one.producer is not None and one.sequence_id is not None


def name(one: Recorded) -> tuple[str | None, int | None]:
    return one.producer, one.sequence_id


def own_logs(history: History) -> list[Recorded]:
    return [log for log in of(history, Kind.LOG) if has_name(log) and log.replicated_from is None]


def sent_by_nobody(history: History, _: VerificationSetting) -> bool:
    """In the log, between two ids of its producer in one lane, and no send has its id, payload and key."""
    sends = [send for send in of(history, Kind.SEND) if has_name(send)]
    logs = [log for log in own_logs(history) if is_between(log, sends)]
    first = {id(log): next((send for send in sends if name(send) == name(log)), None) for log in logs}
    pairs = [(send, log) for log in logs if (send := first[id(log)]) is not None]
    no_key = has_no_key_of(pairs)
    for log in logs:
        same = [send for send in sends if name(send) == name(log)]
        fitting = [one for one in same if not differ(one.digest, log.digest) and (no_key or one.key == log.key)]
        if not same or (log.chunk_id is None and not fitting):
            return True
    return False


def is_between(log: Recorded, sends: Sequence[Recorded]) -> bool:
    for lane in {send.lane for send in sends}:
        ids = [send.sequence_id or 0 for send in sends if send.lane == lane and send.producer == log.producer]
        if ids and min(ids) <= (log.sequence_id or 0) <= max(ids):
            return True
    return False


def refused_but_stored(history: History, _: VerificationSetting) -> bool:
    """Refused, never sent otherwise, and in the log."""
    sends = [send for send in of(history, Kind.SEND) if has_name(send)]
    refused = {name(send) for send in sends if send.outcome is CallOutcome.FAILED}
    refused -= {name(send) for send in sends if send.outcome is not CallOutcome.FAILED}
    return any(name(log) in refused for log in own_logs(history))


def delivered_otherwise(history: History, _: VerificationSetting) -> bool:
    """Delivered although not in the log that was read later, or otherwise than it is there."""
    read, pairs = read_at(history), list[tuple[Recorded, Recorded]]()
    for given in of(history, Kind.DISPATCH, placed=True):
        there = [log for log in of(history, Kind.LOG, placed=True) if position(log) == position(given)]
        if not there and read is not None and given.completed_ns <= read:
            return True
        pairs += [(given, log) for log in there[-1:]]
    no_key = has_no_key_of(pairs)
    for given, log in pairs:
        fields = ("producer", "sequence_id", "chunk_uuid", "chunks", *(() if log.chunk_id is not None else ("digest",)))
        if any(differ(getattr(given, field), getattr(log, field)) for field in fields):
            return True
        if not no_key and given.key != log.key:
            return True
    return False


def read_before_sent(history: History, _: VerificationSetting) -> bool:
    """Received or read in the log before the first send of the message began."""
    for read in of(history, Kind.DISPATCH, Kind.LOG, placed=True):
        here = [log for log in own_logs(history) if log.ledger is not None and position(log) == position(read)]
        names = {name(log) for log in here}
        sends = [
            send
            for send in of(history, Kind.SEND)
            if (send.ledger is not None and position(send) == position(read))
            or (has_name(send) and name(send) in names)
        ]
        when = read.completed_ns if read.kind is Kind.LOG else start(read)
        if sends and when < min(map(invoked, sends)):
            return True
    return False


def beyond_the_end(history: History, _: VerificationSetting) -> bool:
    """After the last entry of the log that was read later."""
    end = last_reading(history)
    if end is None or end.ledger is None:
        return False
    is_replicated = any(one.replicated for one in of(history, Kind.TOPIC))
    kinds = [Kind.LOG, Kind.DISPATCH, *([] if is_replicated else [Kind.CURSOR])]
    for one in ok(of(history, *kinds, placed=True)):
        when = invoked(one) if one.kind is Kind.LOG else one.completed_ns
        if when <= invoked(end) and (one.entry or 0) >= 0 and entry(one) > entry(end):
            return True
    return False


def from_another_cluster(history: History, _: VerificationSetting) -> bool:
    """In the log of a topic that is not replicated, from another cluster."""
    topics = of(history, Kind.TOPIC)
    is_alone = bool(topics) and all(topic.replicated is False for topic in topics)
    return is_alone and any(log.replicated_from is not None for log in of(history, Kind.LOG))


def delivered_before_beginning(history: History, _: VerificationSetting) -> bool:
    """Dispatched, and before the subscription's only beginning."""
    for events in own_subscriptions(history):
        begins = of(events, Kind.BEGIN)
        if len(begins) != 1 or begins[0].ledger is None or of(events, Kind.SEEK):
            continue
        given = [one for one in of(events, Kind.DISPATCH, placed=True) if one.subscription is not None]
        if any(entry(one) <= entry(begins[0]) for one in given):
            return True
    return False


# ------------------------------------------------------------------------------------------------------------ chunking


def chunks_of(history: History) -> dict[str, list[Recorded]]:
    found: dict[str, list[Recorded]] = {}
    for log in of(history, Kind.LOG):
        if log.chunk_uuid is not None:
            found.setdefault(log.chunk_uuid, []).append(log)
    return found


def is_in_order(chunks: Sequence[Recorded]) -> bool:
    """Whether these are all chunks of a message, once and in order."""
    return [-1 if one.chunk_id is None else one.chunk_id for one in chunks] == list(range(chunks[-1].chunks or 0))


def missed_chunks(history: History, *, is_shared: bool) -> bool:
    for events in own_subscriptions(history):
        begins, drained = of(events, Kind.BEGIN), ok(of(events, Kind.DRAINED))
        given = [one for one in of(events, Kind.DISPATCH) if one.subscription is not None]
        of_type = any(one.subscription_type in ("Shared", "Key_Shared") for one in given)
        if len(begins) != 1 or not drained or of(events, Kind.SEEK, Kind.SKIP) or of_type != is_shared:
            continue
        in_time = [one for one in given if start(one) <= drained[-1].completed_ns and one.ledger is not None]
        cuts = [one for one in of(events, Kind.ACK_CUMULATIVE, placed=True) if one.subscription is not None]
        for chunks in chunks_of(history).values():
            first, last = chunks[0], chunks[-1]
            is_due = entry(begins[0]) < entry(first) and entry(last) <= entry(drained[-1])
            is_cut = any(entry(first) <= entry(cut) < entry(last) for cut in cuts)
            is_given = any(position(one) == position(last) for one in in_time)
            if is_in_order(chunks) and is_due and not is_cut and not is_given:
                return True
    return False


def chunked_missed(history: History, _: VerificationSetting) -> bool:
    """Drained, ordered, and a whole chunked message was never delivered."""
    return missed_chunks(history, is_shared=False)


def chunked_missed_by_all(history: History, _: VerificationSetting) -> bool:
    """The same of a subscription with several consumers."""
    return missed_chunks(history, is_shared=True)


def lost_in_part(history: History, _: VerificationSetting) -> bool:
    """Without deduplication, confirmed at a chunk that is not the last, or lacks others before it."""
    topics = [one.deduplication for one in of(history, Kind.TOPIC)]
    read = read_at(history)
    if read is None or (topics and all(topics)):
        return False
    for send in ok(of(history, Kind.SEND, placed=True)):
        there = [log for log in of(history, Kind.LOG) if log.chunk_uuid is not None and position(log) == position(send)]
        if not there or send.completed_ns > read:
            continue
        log = there[-1]
        same = [one for one in chunks_of(history)[log.chunk_uuid or ""] if entry(one) <= entry(log)]
        is_last = (-1 if log.chunk_id is None else log.chunk_id) == (log.chunks or 0) - 1
        if not is_last or not {one.chunk_id for one in same} >= set(range(log.chunks or 1)):
            return True
    return False


CONTENTS: Iterable[Callable[[History, VerificationSetting], bool]] = (
    sent_by_nobody,
    refused_but_stored,
    delivered_otherwise,
    read_before_sent,
    beyond_the_end,
    from_another_cluster,
    delivered_before_beginning,
    chunked_missed,
    chunked_missed_by_all,
    lost_in_part,
)
