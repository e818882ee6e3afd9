"""Planted anomalies: the events of a defective broker in a sound history; three or more for each invariant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from conformance.history.recorded import KILL, RESTART, UNLOAD, Kind, Recorded
from tests.pipeline.histories.realistic import KEYED, ORDERED, STEP_NS

History = list[Recorded]
Plant = Callable[[History, int], History]
"""Takes a sound history and a number that chooses the place."""


def _rows(history: Sequence[Recorded], kind: Kind, subscription: str | None = None) -> History:
    """Unchunked messages of a kind, in order."""
    return [
        one
        for one in history
        if one.kind is kind and one.chunks is None and one.subscription == subscription and one.producer != "p4"
    ]


def pick(rows: History, number: int) -> Recorded:
    """One of the rows, chosen by a number."""
    return rows[number % len(rows)]


def without(history: History, *gone: Recorded) -> History:
    """The other events."""
    return [one for one in history if not any(one is other for other in gone)]


def changed(history: History, one: Recorded, **fields: Any) -> History:
    """The history with other fields in one of its events."""
    return [replace(other, **fields) if other is one else other for other in history]


def after_the_log(history: History) -> dict[str, int]:
    """A position after the whole log."""
    return {"ledger": max(one.ledger or 0 for one in history) + 1, "entry": 0}


def _moved(history: History, one: Recorded) -> History:
    return changed(history, one, **after_the_log(history))


def _another(kind: Kind, field: str, value: object, subscription: str | None = None) -> Plant:
    """Another value in one event of a kind."""

    def plant(history: History, number: int) -> History:
        return changed(history, pick(_rows(history, kind, subscription), number), **{field: value})

    return plant


def _drop(kind: Kind, subscription: str | None = None) -> Plant:
    def plant(history: History, number: int) -> History:
        return without(history, pick(_rows(history, kind, subscription), number))

    return plant


def _drop_many(kind: Kind, subscription: str | None = None) -> Plant:
    def plant(history: History, number: int) -> History:
        rows = _rows(history, kind, subscription)
        first = number % (len(rows) - 5)
        return without(history, *rows[first : first + 5])

    return plant


# ------------------------------------------------------------------------------------------------------- deduplication


def _duplicate(producer: str, above: int) -> Plant:
    """A message that is confirmed as a duplicate, with an id above all ids of its producer."""

    def plant(history: History, number: int) -> History:
        ids = [one.sequence_id or 0 for one in history if one.producer == producer and one.kind is Kind.LOG]
        send = pick(_rows(history, Kind.SEND), number)
        identity = {"producer": producer, "sequence_id": max(ids, default=0) + above}
        return [*history, replace(send, outcome="duplicate", ledger=None, entry=None, **identity)]

    return plant


def _again_at_the_end(history: History, number: int) -> History:
    return [*history, replace(pick(_rows(history, Kind.LOG), number), **after_the_log(history))]


def _again_in_its_batch(history: History, number: int) -> History:
    return [*history, replace(pick(_rows(history, Kind.LOG), number), batch_index=5)]


def _tail_again(history: History, number: int) -> History:
    ledger = after_the_log(history)["ledger"]
    tail = _rows(history, Kind.LOG)[-1 - number % 5 :]
    return [*history, *(replace(one, ledger=ledger, entry=entry) for entry, one in enumerate(tail))]


APART = 8
"""How many events of a producer lie between two that are exchanged: more than are ever in flight at once."""


def _exchanged(kind: Kind, *fields: str) -> Plant:
    """Exchange these fields of two events of one producer; one ends before the other begins."""

    def plant(history: History, number: int) -> History:
        rows = [one for one in _rows(history, kind) if one.producer == f"p{number % 4}"]
        first = number % (len(rows) - APART)
        one, other = rows[first], rows[first + APART]
        swapped = {name: getattr(other, name) for name in fields}
        back = {name: getattr(one, name) for name in fields}
        return changed(changed(history, one, **swapped), other, **back)

    return plant


def _late(history: History, number: int) -> History:
    rows = [one for one in _rows(history, Kind.LOG) if one.producer == f"p{number % 4}"]
    return _moved(history, pick(rows[:-1], number))


def _late_old_id(history: History, number: int) -> History:
    rows = [one for one in _rows(history, Kind.LOG) if one.producer == f"p{number % 4}"]
    return [*history, replace(rows[-1], sequence_id=0, **after_the_log(history))]


def _stored_after(fault: str, *, is_first: bool) -> Plant:
    """A topic is reloaded, and then an id is stored that was confirmed before, the first or the last one."""

    def plant(history: History, number: int) -> History:
        sends = [one for one in _rows(history, Kind.SEND) if one.producer == f"p{number % 4}"]
        over_ns = max(one.completed_ns for one in history)
        fault_of_topic = replace(_topic_of(history), kind=Kind.FAULT, fault=fault, deduplication=None)
        move = replace(fault_of_topic, invoked_ns=over_ns + 1, completed_ns=over_ns + 2)
        again = replace(sends[0 if is_first else -1], invoked_ns=over_ns + 3, completed_ns=over_ns + 4)
        return [*history, move, replace(again, **after_the_log(history))]

    return plant


def _topic_of(history: History) -> Recorded:
    return next(one for one in history if one.kind is Kind.TOPIC)


# ------------------------------------------------------------------------------------------------------------ chunking


def _chunk(history: History, chunk_id: int) -> Recorded:
    return next(one for one in history if one.kind is Kind.LOG and one.chunk_id == chunk_id)


def _chunk_changed(which: int, **fields: Any) -> Plant:
    return lambda history, _: changed(history, _chunk(history, which), **fields)


def _chunk_dropped(chunk_id: int) -> Plant:
    return lambda history, _: without(history, _chunk(history, chunk_id))


def _chunk_again(history: History, _: int) -> History:
    return [*history, replace(_chunk(history, 1), **after_the_log(history))]


def _under_another_uuid(history: History, _: int) -> History:
    chunks = [one for one in history if one.kind is Kind.LOG and one.chunk_uuid == _chunk(history, 0).chunk_uuid]
    ledger = after_the_log(history)["ledger"]
    again = (replace(one, chunk_uuid="again", ledger=ledger, entry=number) for number, one in enumerate(chunks))
    return [*history, *again]


def _chunks_swapped(one: int, other: int) -> Plant:
    def plant(history: History, _: int) -> History:
        first, second = _chunk(history, one), _chunk(history, other)
        there, back = ({"ledger": at.ledger, "entry": at.entry} for at in (second, first))
        return changed(changed(history, first, **there), second, **back)

    return plant


def _spoiled(history: History, _: int) -> History:
    given = next(one for one in history if one.kind is Kind.DISPATCH and one.chunks is not None)
    return changed(history, given, digest=(given.digest or 0) + 1)


# ------------------------------------------------------------------------------------------------------ acknowledgment


def _forgotten_ack(history: History, number: int) -> History:
    """An ack that mark-delete relies on was never sent."""
    reading = _rows(history, Kind.CURSOR, KEYED)[0]
    acks = [
        one for one in _rows(history, Kind.ACK, KEYED) if (one.ledger, one.entry) <= (reading.ledger, reading.entry)
    ]
    return without(history, pick(acks, number))


def _late_ack(history: History, number: int) -> History:
    reading = _rows(history, Kind.CURSOR, KEYED)[0]
    acks = [
        one for one in _rows(history, Kind.ACK, KEYED) if (one.ledger, one.entry) <= (reading.ledger, reading.entry)
    ]
    later_ns = reading.completed_ns + 1
    return changed(history, pick(acks, number), invoked_ns=later_ns, completed_ns=later_ns)


def _jump(history: History, number: int) -> History:
    subscription = (KEYED, ORDERED)[number % 2]
    last = _rows(history, Kind.DRAINED, subscription)[0]
    reading = _rows(history, Kind.CURSOR, subscription)[0]
    return changed(history, reading, ledger=last.ledger, entry=last.entry)


def _read_again(ledger: int, *, kill: bool = False, subscription: str = KEYED) -> Plant:
    """One more reading of mark-delete, which is at the beginning again."""

    def plant(history: History, _: int) -> History:
        last = max((one for one in history if one.subscription == subscription), key=lambda one: one.completed_ns)
        reading = _rows(history, Kind.CURSOR, subscription)[-1]
        later_ns = last.completed_ns + 200 * 10**9
        back = replace(reading, ledger=ledger, entry=-1, invoked_ns=later_ns, completed_ns=later_ns)
        fault = replace(reading, subscription=None, ledger=None, entry=None, kind=Kind.FAULT, fault=KILL)
        killed = replace(fault, invoked_ns=later_ns - STEP_NS, completed_ns=later_ns - STEP_NS)
        return [*history, back, *([killed] if kill else [])]

    return plant


def _sent_again(subscription: str, *, kill: bool = False) -> Plant:
    """A message is dispatched again, long after its ack, and perhaps after a kill."""

    def plant(history: History, number: int) -> History:
        acks = [one for one in history if one.subscription == subscription and str(one.kind).startswith("ack")]
        ack = pick(acks, number)
        at = (ack.ledger, ack.entry)
        given = next(
            one
            for one in history
            if one.kind is Kind.DISPATCH and one.subscription == subscription and (one.ledger, one.entry) == at
        )
        later_ns = ack.completed_ns + 200 * 10**9
        again = replace(given, invoked_ns=later_ns, completed_ns=later_ns)
        killed_ns = later_ns - STEP_NS
        fault = replace(
            ack, subscription=None, ledger=None, entry=None, kind=Kind.FAULT, fault=KILL, invoked_ns=killed_ns
        )
        return [*history, again, *([replace(fault, completed_ns=killed_ns)] if kill else [])]

    return plant


# ------------------------------------------------------------------------------------------------------- subscriptions


def _given_after_the_next(subscription: str, **of_the_next: str) -> Plant:
    """A message is delivered long after the next one of the same producer and key."""

    def plant(history: History, number: int) -> History:
        rows = _rows(history, Kind.DISPATCH, subscription)
        one, other = rows[number % (len(rows) - 1) :][:2]
        later_ns = max(event.completed_ns for event in history)
        history = changed(history, other, producer=one.producer, key=one.key, **of_the_next)
        return changed(history, one, invoked_ns=later_ns, completed_ns=later_ns)

    return plant


def _given_before_all(subscription: str) -> Plant:
    """The last message is delivered too early, before others of its producer and key."""

    def plant(history: History, number: int) -> History:
        *_, one, other = _rows(history, Kind.DISPATCH, subscription)
        history = changed(history, one, producer=other.producer, key=other.key)
        return changed(history, other, invoked_ns=1, completed_ns=2)

    return plant


def _given_in_another_order(subscription: str) -> Plant:
    """Exchange the delivery times of two messages."""

    def plant(history: History, number: int) -> History:
        rows = _rows(history, Kind.DISPATCH, subscription)
        one, other = rows[number % (len(rows) - 1) :][:2]
        late, early = ({"invoked_ns": at.invoked_ns, "completed_ns": at.completed_ns} for at in (other, one))
        history = changed(history, other, producer=one.producer, key=one.key, **early)
        return changed(history, one, **late)

    return plant


def _as_shared(plant: Plant) -> Plant:
    """The same with a shared subscription instead of Key_Shared."""

    def planted(history: History, number: int) -> History:
        broken = plant(history, number)
        return [replace(one, subscription_type="Shared") if one.subscription == KEYED else one for one in broken]

    return planted


def _stuck(subscription: str, *, after: int, gives_back: bool = False) -> Plant:
    """A subscription receives nothing more after this many messages; its consumer may have nacked one of them."""

    def plant(history: History, _: int) -> History:
        given = _rows(history, Kind.DISPATCH, subscription)
        gone = [one for one in history if one.subscription == subscription and one.kind is not Kind.BEGIN]
        kept = [one for one in gone if one.kind in (Kind.DISPATCH, Kind.ACK, Kind.ACK_CUMULATIVE)]
        kept = [one for one in kept if (one.ledger, one.entry) < (given[after].ledger, given[after].entry)]
        last_ns = max(one.completed_ns for one in history)
        join = replace(given[0], kind=Kind.SUBSCRIBE, ledger=None, entry=None, invoked_ns=0, completed_ns=1)
        settles = Kind.ACK_CUMULATIVE if subscription == ORDERED else Kind.ACK
        done = [replace(one, kind=settles, invoked_ns=last_ns, completed_ns=last_ns) for one in kept]
        begin = next(one for one in history if one.kind is Kind.BEGIN and one.subscription == subscription)
        later_ns = last_ns + 100 * 10**9
        reading = replace(begin, kind=Kind.CURSOR, invoked_ns=later_ns, completed_ns=later_ns)
        back = [replace(done[-1], kind=Kind.NACK)] if gives_back else []
        return [*without(history, *gone), *kept, join, *done[: len(done) - gives_back], *back, reading]

    return plant


# ---------------------------------------------------------------------------------------------------------- Key_Shared


def _to_two(history: History, number: int) -> History:
    """A message is dispatched to a second consumer while it is pending at the first one."""
    given = pick(_rows(history, Kind.DISPATCH, KEYED), number)
    return [*history, replace(given, consumer="other", invoked_ns=(given.invoked_ns or 0) + 1)]


def _key_to_two(history: History, number: int) -> History:
    """Another message of the same key is dispatched to a second consumer in the meantime."""
    rows = _rows(history, Kind.DISPATCH, KEYED)
    one, other = rows[number % (len(rows) - 1) :][:2]
    return changed(history, other, key=one.key, consumer="other", invoked_ns=(one.invoked_ns or 0) + 1)


def _another_left(history: History, number: int) -> History:
    """The key moves when a consumer leaves, but another one has its pending message."""
    given = pick(_rows(history, Kind.DISPATCH, KEYED), number)
    left_ns = (given.invoked_ns or 0) + 1
    left = replace(given, kind=Kind.UNSUBSCRIBE, consumer="third", ledger=None, entry=None, invoked_ns=left_ns)
    moved = replace(given, consumer="other", invoked_ns=left_ns + 2)
    return [*history, replace(left, completed_ns=left_ns + 1), moved]


def _key_moved(apart: int) -> Plant:
    """A later message of the same key is dispatched to another consumer, after the first one was acknowledged."""

    def plant(history: History, number: int) -> History:
        rows = _rows(history, Kind.DISPATCH, KEYED)
        first = number % (len(rows) - apart)
        one, other = rows[first], rows[first + apart]
        return changed(history, other, key=one.key, consumer="other")

    return plant


# ------------------------------------------------------------------------------------------------------------ contents


def _chunked(plant: Plant) -> Plant:
    """The same without deduplication."""
    return lambda history, number: plant(changed(history, _topic_of(history), deduplication=False), number)


def _of_chunked(of: str, **fields: Any) -> Plant:
    """Other fields in a delivery of a chunked message; without any, none."""

    def plant(history: History, _: int) -> History:
        given = next(
            one for one in history if one.kind is Kind.DISPATCH and one.subscription == of and one.chunks is not None
        )
        return changed(history, given, **fields) if fields else without(history, given)

    return plant


def _moved_to_the_end(kind: Kind, subscription: str | None = None) -> Plant:
    return lambda history, number: _moved(history, pick(_rows(history, kind, subscription), number))


def _past_the_end(history: History, number: int) -> History:
    """When everything is acknowledged, mark-delete is after the end of the log."""
    at_ns = next(one.invoked_ns or 0 for one in history if one.kind is Kind.LOG_END) - STEP_NS
    reading = pick(_rows(history, Kind.CURSOR, KEYED), number)
    return changed(history, reading, **after_the_log(history), invoked_ns=at_ns, completed_ns=at_ns)


def _inner_send_without(count: int) -> Plant:
    """Sends of one producer, neither its first nor its last ones, were never made."""

    def plant(history: History, number: int) -> History:
        rows = [one for one in _rows(history, Kind.SEND) if one.producer == f"p{number % 4}"]
        first = 1 + number % (len(rows) - count - 1)
        return without(history, *rows[first : first + count])

    return plant


def _refused(producer: str) -> Plant:
    def plant(history: History, number: int) -> History:
        rows = [one for one in history if one.kind is Kind.SEND and one.producer == producer]
        return changed(history, pick(rows, number), outcome="failed", ledger=None, entry=None)

    return plant


def _sent_late(history: History, number: int) -> History:
    late_ns = max(one.completed_ns for one in history) + 1
    return changed(history, pick(_rows(history, Kind.SEND), number), invoked_ns=late_ns, completed_ns=late_ns)


def _read_early(kind: Kind, subscription: str | None = None) -> Plant:
    """A message is received, or read in the log, a moment before its send begins."""

    def plant(history: History, number: int) -> History:
        rows = _rows(history, kind, subscription)
        read = rows[1 + number % (len(rows) - 1)]
        at = (read.ledger, read.entry)
        (send,) = (one for one in _rows(history, Kind.SEND) if (one.ledger, one.entry) == at)
        early_ns = (send.invoked_ns or 0) - 1
        return changed(history, read, invoked_ns=early_ns, completed_ns=early_ns)

    return plant


def _again_after(ns: int) -> Plant:
    """A message is dispatched again to the consumer at which it is pending."""

    def plant(history: History, number: int) -> History:
        given = pick(_rows(history, Kind.DISPATCH, KEYED), number)
        again_ns = (given.invoked_ns or 0) + ns
        return [*history, replace(given, invoked_ns=again_ns, completed_ns=again_ns)]

    return plant


def _begins_at(share: float) -> Plant:
    """A subscription begins after this share of the log."""

    def plant(history: History, number: int) -> History:
        begin = _rows(history, Kind.BEGIN, (KEYED, ORDERED)[number % 2])[0]
        logs = _rows(history, Kind.LOG)
        at = logs[int(share * (len(logs) - 1))]
        return changed(history, begin, ledger=at.ledger, entry=at.entry)

    return plant


def _to_another_consumer(count: int, **fields: str) -> Plant:
    def plant(history: History, number: int) -> History:
        rows = _rows(history, Kind.DISPATCH, ORDERED)
        first = number % (len(rows) - count)
        for one in rows[first : first + count]:
            history = changed(history, one, consumer="other")
        return [replace(one, **fields) if one.subscription == ORDERED else one for one in history]

    return plant


def _both(one: Plant, other: Plant) -> Plant:
    return lambda history, number: other(one(history, number), number)


PLANTS: dict[str, tuple[Plant, ...]] = {
    "stored twice": (_again_at_the_end, _again_in_its_batch, _tail_again),
    "falsely confirmed": (_duplicate("p1", 1), _duplicate("nobody", 1), _duplicate("p2", 10**6)),
    "out of order": (_exchanged(Kind.LOG, "ledger", "entry"), _late, _late_old_id),
    "sent by nobody": (
        _inner_send_without(1),
        _inner_send_without(4),
        _another(Kind.LOG, "digest", 1),
        _another(Kind.LOG, "key", "other"),
    ),
    "refused but stored": (_refused("p1"), _refused("p2"), _refused("p4")),
    "delivered otherwise": (
        _another(Kind.DISPATCH, "digest", 1, KEYED),
        _another(Kind.DISPATCH, "key", "other", ORDERED),
        _another(Kind.DISPATCH, "key", None, KEYED),
        _another(Kind.DISPATCH, "producer", "other", ORDERED),
        _another(Kind.DISPATCH, "sequence_id", 10**9, ORDERED),
        _another(Kind.DISPATCH, "batch_index", 9, KEYED),
        _of_chunked(KEYED, chunks=2),
    ),
    "read before sent": (_sent_late, _read_early(Kind.DISPATCH, KEYED), _read_early(Kind.LOG)),
    "beyond the end": (
        _moved_to_the_end(Kind.LOG),
        _moved_to_the_end(Kind.DISPATCH, ORDERED),
        _past_the_end,
    ),
    "from another cluster": (
        _another(Kind.LOG, "replicated_from", "elsewhere"),
        _chunk_changed(1, replicated_from="elsewhere"),
        _both(_another(Kind.LOG, "replicated_from", "a"), _another(Kind.LOG, "replicated_from", "b")),
    ),
    "lost in part": (
        _chunked(_chunk_dropped(0)),
        _chunked(_chunk_dropped(1)),
        _chunked(_chunk_changed(1, chunk_id=0)),
    ),
    "chunked missed": (
        _of_chunked(ORDERED),
        _of_chunked(ORDERED, subscription="other"),
        _of_chunked(ORDERED, ledger=10**6),
    ),
    "chunked missed by all": (
        _of_chunked(KEYED),
        _of_chunked(KEYED, subscription="other"),
        _of_chunked(KEYED, ledger=10**6),
    ),
    "mark delete late": (
        _another(Kind.CURSOR, "entry", 0, KEYED),
        _another(Kind.CURSOR, "entry", -1, ORDERED),
        _another(Kind.CURSOR, "ledger", -1, KEYED),
    ),
    "redelivered without request": (_again_after(1), _again_after(5 * STEP_NS), _as_shared(_again_after(2))),
    "delivered before beginning": (_begins_at(0.1), _begins_at(0.5), _begins_at(1)),
    "one active consumer": (
        _to_another_consumer(1),
        _to_another_consumer(5),
        _to_another_consumer(1, subscription_type="Failover"),
    ),
    "keys stay": (_key_moved(12), _key_moved(20), _key_moved(40)),
    "lost": (
        _another(Kind.LOG, "key", "other"),
        _drop(Kind.LOG),
        _drop_many(Kind.LOG),
        _another(Kind.LOG, "digest", 1),
        _another(Kind.LOG, "producer", "q"),
        _another(Kind.LOG, "sequence_id", 10**9),
        _late,
    ),
    "missed": (_drop(Kind.DISPATCH, KEYED), _drop(Kind.DISPATCH, ORDERED), _drop_many(Kind.DISPATCH, ORDERED)),
    "chunks agree": (
        _chunk_changed(1, chunks=4),
        _chunk_changed(2, producer="q"),
        _chunk_changed(0, sequence_id=10**9),
        _chunk_changed(2, chunk_id=3),
    ),
    "delivered whole": (_chunk_dropped(0), _chunk_dropped(1), _chunk_dropped(2), _spoiled),
    "stored once in order": (_chunk_dropped(0), _chunk_dropped(1), _chunk_again, _under_another_uuid),
    "forgotten": (
        _stored_after(KILL, is_first=False),
        _stored_after(UNLOAD, is_first=True),
        _stored_after(RESTART, is_first=True),
    ),
    "chunks in order": (_chunk_dropped(0), _chunk_dropped(1), _chunks_swapped(0, 1), _chunks_swapped(1, 2)),
    "stored whole": (_chunk_dropped(0), _chunk_dropped(1), _chunk_dropped(2), _chunk_changed(1, chunk_id=0)),
    "given in order": (
        _given_after_the_next(ORDERED),
        _given_before_all(ORDERED),
        _given_in_another_order(ORDERED),
        _given_after_the_next(ORDERED, consumer="other", subscription_type="Failover"),
    ),
    "keys in order": (_given_after_the_next(KEYED), _given_before_all(KEYED), _given_in_another_order(KEYED)),
    "shared one at a time": (
        _as_shared(_to_two),
        _as_shared(_another_left),
        lambda history, number: _as_shared(_to_two)(_drop_many(Kind.ACK, KEYED)(history, number), number),
    ),
    "stuck": (_stuck(ORDERED, after=0), _stuck(ORDERED, after=20), _stuck(ORDERED, after=20, gives_back=True)),
    "keys stuck": (_stuck(KEYED, after=0), _stuck(KEYED, after=20), _stuck(KEYED, after=20, gives_back=True)),
    "mark delete over a hole": (_forgotten_ack, _late_ack, _jump),
    "mark delete back": (_read_again(0), _read_again(-1, subscription=ORDERED), _read_again(-1, kill=True)),
    "positions rise": (
        _exchanged(Kind.SEND, "invoked_ns", "completed_ns"),
        _exchanged(Kind.SEND, "ledger", "entry"),
        lambda history, _: _moved(history, _rows(history, Kind.SEND)[0]),
    ),
    "delivered again": (_sent_again(KEYED), _sent_again(ORDERED), _sent_again(KEYED, kill=True)),
    "one consumer at a time": (_to_two, _key_to_two, _another_left),
}
"""By the invariant that each breaks; others may break with it."""
