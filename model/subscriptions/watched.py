"""Subscriptions of chunked topics: a proxy records what passes between their clients and the broker.

Document 002 judges what passes (:mod:`model.chunking`). An ack that passed takes effect, unless the topic is reloaded
before the next read of the cursor. What the cursor shows then is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from model.chunking.state import Chunking
from model.cursors import cursor
from model.cursors.acked import Acked, with_entries
from model.cursors.cursor import Ack, Cursor, with_all, with_grouped
from model.cursors.ledger import Interval
from model.cursors.log import Place, TopicLog, appended
from model.events import (
    Acknowledged,
    CursorMoved,
    Done,
    DueReceived,
    LogRead,
    RedeliveryRequested,
    UnacknowledgedRead,
)
from model.immutable.map import Map
from model.judgement import Allowed, Broken, in_turn
from model.log import Position
from model.operations import AnyOperation, ReadLog
from model.rules.catalogue import carries
from model.subscription_operations import (
    CloseConsumer,
    CrashConsumer,
    Expire,
    ReadCursor,
    ReceiveDue,
    ResetCursor,
    Skip,
    Subscribe,
)
from model.subscriptions import observations, tracker
from model.subscriptions.state import Consumption, upper
from model.traffic import CommandAck, LoggedPart, Traffic
from model.vocabulary import Outcome, SubscriptionId

Judged = Allowed[Consumption] | Broken

ADMINISTRATOR: Final = ""
"""Who acknowledged what a skip passes over, in place of a consumer."""


def acknowledging(state: Consumption, chunking: Chunking) -> Chunking:
    """The chunked topics with the entries that are acknowledged, perhaps: those that the broker need not dispatch."""
    for subscription_id, subscription in chunking.subscriptions.items():
        acknowledged = _perhaps_acknowledged(state, subscription_id)
        chunking = chunking.with_subscription(subscription_id, replace(subscription, acknowledged=acknowledged))
    return chunking


def _perhaps_acknowledged(state: Consumption, subscription: SubscriptionId) -> frozenset[Position]:
    known, log = state.cursors[subscription], state.log(subscription.topic)
    possible = [upper(one, known, log) for one in known.possible]
    in_flight = {place.position for ack in known.unsure for place in ack.places}
    return frozenset(position for position in log.entries if any(one.has(position) for one in possible)) | in_flight


def judge(state: Consumption, operation: AnyOperation, outcome: Outcome, at: Interval) -> Judged:
    """The subscriptions after an operation on a chunked topic."""
    read = _log_read(state, operation, outcome)
    return read.then(lambda after: _judge(_acknowledged(after, traffic_of(outcome)), operation, outcome, at))


def _judge(state: Consumption, operation: AnyOperation, outcome: Outcome, at: Interval) -> Judged:
    match operation, outcome:
        case Subscribe(), _:
            return tracker.judge(state, operation, outcome, at)
        case CloseConsumer(name) | CrashConsumer(name), _ if name in state.consumers:
            for subscription in state.consumers[name].subscriptions:
                state = state.with_cursor(subscription, _arrived(state, subscription, at))
            return tracker.judge(state, operation, outcome, at)
        case Skip() | Expire() | ResetCursor(), CursorMoved():
            return Allowed(_moved(state, operation, outcome, at))
        case ReadCursor(topic, subscription), UnacknowledgedRead(positions):
            return _read(state, SubscriptionId(topic, subscription), frozenset(positions), at)
        case _:
            return Allowed(state)


def _log_read(state: Consumption, operation: AnyOperation, outcome: Outcome) -> Judged:
    """The log was read, on the way or by itself. Entries that it had before are judged by document 002."""
    match operation, outcome:
        case (ReceiveDue(topic), DueReceived(log=parts)) | (ReadLog(topic), LogRead(parts=parts)):
            return in_turn(state, [partial(_appended, topic=topic, one=one) for one in parts])
        case _:
            return Allowed(state)


def _appended(state: Consumption, topic: str, one: LoggedPart) -> Judged:
    tracked = state.topics[topic]
    if one.position in tracked.log:
        return Allowed(state)
    log = appended(tracked.log, one.position, (one.part.digest,), chunk=one.part.chunk)
    return log if isinstance(log, Broken) else Allowed(state.with_topic(topic, replace(tracked, log=log)))


def traffic_of(outcome: Outcome) -> tuple[Traffic, ...]:
    """What passed between the broker and the consumers of a chunked topic."""
    match outcome:
        case (
            Acknowledged(traffic=traffic)
            | RedeliveryRequested(traffic=traffic)
            | DueReceived(traffic=traffic)
            | CursorMoved(traffic=traffic)
            | UnacknowledgedRead(traffic=traffic)
            | Done(traffic)
        ):
            return traffic
        case _:
            return ()


def _acknowledged(state: Consumption, passed: Iterable[Traffic]) -> Consumption:
    """Acks passed to the broker."""
    for traffic in passed:
        acks = [one for one in traffic.commands if isinstance(one, CommandAck)]
        consumer = state.consumers.get(traffic.consumer)
        for subscription in consumer.subscriptions if consumer is not None else ():
            for one in acks:
                places = tuple(map(Place, _entries_of(one, state.log(subscription.topic))))
                after = with_grouped(state.cursors[subscription], traffic.consumer, Ack(places))
                state = state.with_cursor(subscription, after)
    return state


def _entries_of(ack: CommandAck, log: TopicLog) -> Iterator[Position]:
    """The entries that an ack names. A client may acknowledge one that nobody has read from the log yet."""
    if not ack.is_cumulative:
        return iter(ack.positions)
    return (position for position in log.entries if position <= max(ack.positions))


def _arrived(state: Consumption, subscription: SubscriptionId, at: Interval) -> Cursor:
    """The cursor when the acks of connected clients have arrived. Those of entries not read yet stay in flight."""
    before, log = state.cursors[subscription], state.log(subscription.topic)
    grouped: dict[str, tuple[Ack, ...]] = {}
    arrived: list[Ack] = []
    for name, acks in before.grouped.items():
        known = [ack for ack in acks if all(place.position in log for place in ack.places)]
        arrived += known
        if rest := tuple(ack for ack in acks if ack not in known):
            grouped[name] = rest
    if not arrived:
        return before
    return replace(before, grouped=Map(grouped)).on_each(
        lambda one: with_all(arrived, one, log), at, is_individual=True
    )


def _acked(log: TopicLog, unacknowledged: Iterable[Position]) -> Acked:
    return with_entries(Acked(), log, log.entries.keys() - set(unacknowledged))


def _moved(
    state: Consumption, operation: Skip | Expire | ResetCursor, outcome: CursorMoved, at: Interval
) -> Consumption:
    """An administrator moved a cursor. What the broker shows before and after is taken as it is."""
    subscription = SubscriptionId(operation.topic, operation.subscription)
    before, log = state.cursors[subscription], state.log(operation.topic)
    now, is_reset = _acked(log, outcome.after), isinstance(operation, ResetCursor)
    after = cursor.reset(before, now, at) if is_reset else before.on_each(lambda _: now, at)
    back = set(outcome.after) - set(outcome.before)
    grouped = {name: _without(acks, back) for name, acks in before.grouped.items()}
    after = replace(after, grouped=Map(grouped), stray=_without(before.stray, back))
    if passed_over := [one for one in outcome.before if one not in outcome.after and one not in log]:
        after = with_grouped(after, ADMINISTRATOR, Ack(tuple(map(Place, passed_over))))
    return state.with_cursor(subscription, after)


def _without(acks: Sequence[Ack], back: set[Position]) -> tuple[Ack, ...]:
    """Acks without the entries that a reset took back."""
    each = (tuple(place for place in ack.places if place.position not in back) for ack in acks)
    return tuple(Ack(places) for places in each if places)


@carries("CHUNK-07")
def _read(state: Consumption, subscription: SubscriptionId, left: frozenset[Position], at: Interval) -> Judged:
    """According to the stats exactly the acknowledged entries are acknowledged. A reload may lose some acks."""
    before, log = _arrived(state, subscription, at), state.log(subscription.topic)
    actual = _acked(log, left)
    observed = before.observed(lambda one: observations.fitted(one, actual, before, log))
    if observed is None:
        because = observations.difference(state.with_cursor(subscription, before), subscription, actual)
        return Broken("CHUNK-07", because, None, "broker")
    may_have = _perhaps_acknowledged(state.with_cursor(subscription, before), subscription)
    is_any_lost = any(position in may_have and not actual.has(position) for position in log.entries)
    exercised = ("CHUNK-07",) if any(actual.has(position) for position in log.chunks) else ()
    after = replace(observations.settled(before, observed, at), since=frozenset())
    return Allowed(state.with_cursor(subscription, after), exercised, excused=("CHUNK-07",) if is_any_lost else ())
