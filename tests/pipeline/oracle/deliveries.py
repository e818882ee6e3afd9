"""The oracle for deliveries: which messages subscriptions receive, and when; see :mod:`tests.pipeline.oracle`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from conformance.history.recorded import Kind, Recorded
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.oracle.relations import (
    History,
    by_subscription,
    end,
    entry,
    invoked,
    leaves_out,
    of,
    ok,
    own_subscriptions,
    position,
    releases_of,
    start,
    surely_until,
)


def undisturbed(parts: Iterable[History]) -> Iterator[History]:
    """The subscriptions that were created once and whose cursor was never moved."""
    for events in parts:
        if len(of(events, Kind.BEGIN)) == 1 and not of(events, Kind.SEEK):
            yield events


def given_to(events: History, *types: str) -> list[Recorded]:
    given = [one for one in of(events, Kind.DISPATCH, placed=True) if one.subscription is not None]
    return [one for one in given if one.subscription_type in types]


def taken(given: Recorded) -> int:
    return given.completed_ns


def firsts(given: list[Recorded]) -> list[Recorded]:
    """Each message's first dispatch."""
    return [min((one for one in given if position(one) == at), key=taken) for at in sorted(set(map(position, given)))]


def is_overtaken(one: Recorded, others: list[Recorded], by: str) -> bool:
    """Whether a later one of its group was delivered before it."""
    group = getattr(one, by)
    return (
        group is not None
        and one.chunk_uuid is None
        and any(
            getattr(other, by) == group and position(other) > position(one) and taken(other) < taken(one)
            for other in others
        )
    )


def given_in_order(history: History, _: VerificationSetting) -> bool:
    """An ordered consumer received a producer's message only after a later one."""
    for events in undisturbed(own_subscriptions(history)):
        given = firsts([one for one in given_to(events, "Exclusive", "Failover") if one.producer is not None])
        if any(is_overtaken(one, given, "producer") for one in given):
            return True
    return False


def keys_in_order(history: History, _: VerificationSetting) -> bool:
    """A key's message was delivered only after a later one, without a redelivery request for the key."""
    for events in undisturbed(own_subscriptions(history)):
        given = firsts([one for one in given_to(events, "Key_Shared") if one.key is not None and not one.delayed])
        judged = [one for one in given if taken(one) < asked_again(one.key, given, events)]
        if any(is_overtaken(one, judged, "key") for one in judged):
            return True
    return False


def asked_again(key: str | None, given: list[Recorded], events: History) -> float:
    of_key = {position(one) for one in given if one.key == key}
    nacks = [nack for nack in of(events, Kind.NACK, placed=True) if nack.subscription and position(nack) in of_key]
    asked = [*nacks, *of(events, Kind.REDELIVER)]
    return min((invoked(one) for one in asked), default=float("inf"))


def shared_one_at_a_time(history: History, setting: VerificationSetting) -> bool:
    """A message is certainly pending at two consumers at one moment."""
    for events in own_subscriptions(history):
        spans = [(one, start(one), surely_until(one, events, setting)) for one in given_to(events, "Shared")]
        for one, began, ended in spans:
            for other, other_began, other_ended in spans:
                together = max(began, other_began) < min(ended, other_ended)
                if together and position(one) == position(other) and one.consumer != other.consumer:
                    return True
    return False


def stuck(history: History, setting: VerificationSetting) -> bool:
    """Nothing is pending, a consumer waits, a message is due, and nothing has changed for long."""
    return is_stuck(history, setting, is_key_shared=False)


def keys_stuck(history: History, setting: VerificationSetting) -> bool:
    """The same for Key_Shared."""
    return is_stuck(history, setting, is_key_shared=True)


MOVING = {
    Kind.DISPATCH,
    Kind.ACK,
    Kind.ACK_CUMULATIVE,
    Kind.NACK,
    Kind.REDELIVER,
    Kind.SUBSCRIBE,
    Kind.UNSUBSCRIBE,
    Kind.BEGIN,
    Kind.SKIP,
}


def is_stuck(history: History, setting: VerificationSetting, *, is_key_shared: bool) -> bool:
    if all(one.invoked_ns is None for one in of(history, Kind.DISPATCH)):
        return False
    for events in undisturbed(by_subscription(history)):
        joins = of(events, Kind.SUBSCRIBE)
        if not joins or any(join.subscription_type == "Key_Shared" for join in joins) != is_key_shared:
            continue
        for reading in ok(of(events, Kind.CURSOR, placed=True)):
            waits = not moved_lately(events, reading, setting) and somebody_waits(events, reading)
            if waits and something_is_due(events, reading, setting):
                return True
    return False


def moved_lately(events: History, reading: Recorded, setting: VerificationSetting) -> bool:
    since = invoked(reading) - setting.stuck_after_ns
    moves = [one for one in events if one.kind is Kind.FAULT or (one.kind in MOVING and one.subscription)]
    return any(
        (start(one) if one.kind is Kind.DISPATCH else invoked(one)) <= invoked(reading) and one.completed_ns >= since
        for one in moves
    )


def somebody_waits(events: History, reading: Recorded) -> bool:
    leaves = of(events, Kind.UNSUBSCRIBE)
    return not is_something_held(events, reading) and any(
        join.completed_ns <= invoked(reading)
        and not any(leave.consumer == join.consumer and leave.completed_ns >= invoked(join) for leave in leaves)
        for join in ok(of(events, Kind.SUBSCRIBE))
    )


def is_something_held(events: History, reading: Recorded) -> bool:
    return any(
        given.subscription is not None
        and start(given) <= invoked(reading) < end(releases_of(given, events), start(given))
        and not any(invoked(one) <= invoked(reading) for one in leaves_out(events, given))
        for given in of(events, Kind.DISPATCH, placed=True)
    )


def something_is_due(events: History, reading: Recorded, setting: VerificationSetting) -> bool:
    (begin,) = of(events, Kind.BEGIN)
    behind = max(entry(begin) if begin.ledger is not None else (-3, -3), entry(reading))
    sent = {
        position(send)
        for send in ok(of(events, Kind.SEND, placed=True))
        if send.completed_ns <= invoked(reading) - setting.stuck_after_ns
    }
    return any(
        entry(log) > behind
        and log.chunk_uuid is None
        and position(log) in sent
        and not any(invoked(one) <= reading.completed_ns for one in leaves_out(events, log))
        for log in of(events, Kind.LOG, placed=True)
    )


def redelivered_without_request(history: History, setting: VerificationSetting) -> bool:
    """Dispatched again to a consumer at which it is certainly pending."""
    for events in own_subscriptions(history):
        given = [one for one in given_to(events, "Shared", "Key_Shared") if one.chunk_uuid is None]
        spans = [(one, start(one), surely_until(one, events, setting)) for one in given]
        for one, began, ended in spans:
            for other, other_began, other_ended in spans:
                is_same = position(one) == position(other) and one.consumer == other.consumer
                if is_same and began < other_began < min(ended, other_ended):
                    return True
    return False


def one_active_consumer(history: History, setting: VerificationSetting) -> bool:
    """Two consumers of an ordered subscription were given messages one after the other, and none joined or left."""
    return moved(history, setting, ("Exclusive", "Failover"), lambda _: "")


def keys_stay(history: History, setting: VerificationSetting) -> bool:
    """Two consumers were given messages of one key one after the other, and none joined or left."""
    return moved(history, setting, ("Key_Shared",), lambda given: given.key)


def moved(
    history: History, setting: VerificationSetting, types: tuple[str, ...], group: Callable[[Recorded], str | None]
) -> bool:
    for events in own_subscriptions(history):
        joins = of(events, Kind.SUBSCRIBE)
        given = [one for one in given_to(events, *types) if one.invoked_ns is not None and group(one) is not None]
        for name in {group(one) for one in given}:
            own = sorted((one for one in given if group(one) == name), key=invoked)
            for one, other in itertools.pairwise(own):
                since = invoked(one) - setting.on_its_way_ns
                is_quiet = all(begun > invoked(other) or over < since for begun, over in changes(events, setting))
                if joins and is_quiet and one.consumer != other.consumer:
                    return True
    return False


def changes(events: History, setting: VerificationSetting) -> Iterator[tuple[int, float]]:
    """When consumers join, or have left and nothing shows yet that they returned."""
    joins = of(events, Kind.SUBSCRIBE)
    yield from ((invoked(join), join.completed_ns) for join in joins)
    for consumer in {join.consumer for join in joins}:
        given = [one for one in of(events, Kind.DISPATCH) if one.subscription and one.consumer == consumer]
        shown = [join.completed_ns for join in joins if join.consumer == consumer]
        shown += [start(one) - setting.on_its_way_ns for one in given]
        left = [one for one in of(events, Kind.UNSUBSCRIBE) if one.consumer == consumer]
        for one in [*left, *of(events, Kind.FAULT)]:
            yield invoked(one), min((ns for ns in shown if ns > one.completed_ns), default=float("inf"))


DELIVERIES: tuple[Callable[[History, VerificationSetting], bool], ...] = (
    given_in_order,
    keys_in_order,
    shared_one_at_a_time,
    stuck,
    keys_stuck,
    redelivered_without_request,
    one_active_consumer,
    keys_stay,
)
