"""Relations between events, from which the oracle's functions are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.history.recorded import CallOutcome, Kind, Recorded
from conformance.pipeline.topic import VerificationSetting

History = Sequence[Recorded]
Position = tuple[int, int, int]


def position(event: Recorded) -> Position:
    assert event.ledger is not None
    assert event.entry is not None
    return event.ledger, event.entry, event.batch_index


def entry(event: Recorded) -> tuple[int, int]:
    return position(event)[:2]


def invoked(event: Recorded) -> int:
    return -1 if event.invoked_ns is None else event.invoked_ns


def of(history: History, *kinds: Kind, placed: bool = False) -> list[Recorded]:
    return [event for event in history if event.kind in kinds and (event.ledger is not None or not placed)]


def ok(events: History) -> list[Recorded]:
    return [event for event in events if event.outcome is CallOutcome.OK]


def perhaps(events: History) -> list[Recorded]:
    return [event for event in events if event.outcome in (CallOutcome.OK, CallOutcome.UNKNOWN)]


def by_subscription(history: History) -> Iterator[History]:
    """The events of a subscription or of none, for each subscription."""
    for name in sorted({event.subscription for event in history if event.subscription is not None}):
        yield [event for event in history if event.subscription in (name, None)]


def own_subscriptions(history: History) -> Iterator[History]:
    """The same for the subscriptions that no other cluster updates."""
    replicated = {event.subscription for event in of(history, Kind.BEGIN, Kind.SUBSCRIBE) if event.replicated}
    for events in by_subscription(history):
        if not replicated & {event.subscription for event in events if event.subscription is not None}:
            yield events


def read_at(history: History) -> int | None:
    ends = ok(of(history, Kind.LOG_END))
    return max(map(invoked, ends)) if ends else None


def last_reading(history: History) -> Recorded | None:
    return max(ok(of(history, Kind.LOG_END)), key=invoked, default=None)


def has_no_key_of(pairs: Sequence[tuple[Recorded, Recorded]]) -> bool:
    """Whether the first or the second ones have no key at all: keys were not recorded."""
    return not (any(one.key is not None for one, _ in pairs) and any(one.key is not None for _, one in pairs))


def is_deduplicated(history: History) -> bool:
    switches = [event.deduplication for event in of(history, Kind.TOPIC)]
    return bool(switches) and all(switches)


def differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def covers(ack: Recorded, message: Recorded) -> bool:
    if ack.kind is Kind.ACK:
        return position(ack) == position(message)
    return position(ack) >= position(message)


def leaves_out(events: History, log: Recorded) -> Iterator[Recorded]:
    acks = perhaps(of(events, Kind.ACK, Kind.ACK_CUMULATIVE, placed=True))
    yield from (ack for ack in acks if covers(ack, log))
    for move in perhaps(of(events, Kind.SEEK, Kind.SKIP, placed=True)):
        if entry(log) < entry(move) or (move.kind is Kind.SKIP and entry(log) == entry(move)):
            yield move


def start(given: Recorded) -> int:
    return given.completed_ns if given.invoked_ns is None else given.invoked_ns


def earliest(given: Recorded, events: History) -> int:
    """From when it may have been in flight: since it was dispatched to its consumer, or sent by its producer."""
    if given.invoked_ns is not None:
        return given.invoked_ns
    sends = [send for send in of(events, Kind.SEND, placed=True) if position(send) == position(given)]
    return min(map(invoked, sends), default=0)


def releases_of(given: Recorded, events: History) -> History:
    return [event for event in events if releases_it(event, given)]


def end(releases: History, since: int) -> float:
    done = [event for event in releases if event.completed_ns >= since]
    return min((max(since, invoked(event)) for event in done), default=float("inf"))


def surely_until(given: Recorded, events: History, setting: VerificationSetting) -> float:
    """Until when it was certainly pending at this consumer; not later than ``start`` if that cannot be known."""
    since = earliest(given, events)
    same = [one for one in of(events, Kind.DISPATCH, placed=True) if position(one) == position(given)]
    if given.invoked_ns is None and len(same) > 1:
        return since
    releases = releases_of(given, events)
    late = [event for event in releases if is_late(event, given, since, events, setting)]
    return min([end(releases, since), *(max(since, invoked(event)) for event in late)])


def is_late(event: Recorded, given: Recorded, since: int, events: History, setting: VerificationSetting) -> bool:
    match event.kind:
        case Kind.ACK:
            return event.outcome is CallOutcome.UNKNOWN
        case Kind.NACK:
            return event.consumer == given.consumer and heard_by(event, events, setting) >= since
        case Kind.REDELIVER:
            return event.completed_ns + setting.on_its_way_ns >= since
        case _:
            return False


def heard_by(nack: Recorded, events: History, setting: VerificationSetting) -> float:
    """Before its entry was next dispatched, if nothing else can have released it at the consumer of the nack."""
    same = [one for one in of(events, Kind.DISPATCH, placed=True) if entry(one) == entry(nack)]
    again = min((start(one) for one in same if start(one) >= invoked(nack)), default=float("inf"))
    since = min((earliest(one, events) for one in same if one.consumer == nack.consumer), default=float("inf"))
    if since > invoked(nack):
        return float("inf")
    for event in events:
        is_other = event.kind not in (Kind.ACK, Kind.NACK) and releases_it(event, nack)
        late_ns = setting.on_its_way_ns if event.kind is Kind.REDELIVER else 0
        if is_other and event.completed_ns + late_ns >= since and max(since, invoked(event)) <= again:
            return float("inf")
    return again - 1


def releases_it(event: Recorded, given: Recorded) -> bool:
    match event.kind:
        case Kind.ACK:
            return event.ledger is not None and position(event) == position(given)
        case Kind.NACK:  # of its whole batch
            return event.ledger is not None and entry(event) == entry(given)
        case Kind.REDELIVER | Kind.UNSUBSCRIBE:
            return event.consumer == given.consumer
        case Kind.SEEK | Kind.SKIP:
            return event.subscription is not None
        case Kind.FAULT:
            return True
        case _:
            return False
