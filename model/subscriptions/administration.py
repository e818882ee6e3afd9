"""Admin requests on subscriptions: skip, expire, reset, delete, and reads of the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import assert_never

from model.administrator_operations import AtOnce
from model.cursors import acked, cursor, diagnosis
from model.cursors.acked import Acked
from model.cursors.cursor import SLACK_MS, Ack, Persisting
from model.cursors.ledger import Interval
from model.cursors.log import Place, TopicLog
from model.events import (
    AllReceived,
    CursorRead,
    CursorReset,
    Done,
    Expired,
    MessagePeeked,
    NotPersisted,
    Persisted,
    Refused,
    StoredCursorRead,
    Terminated,
    Trimmed,
    Unknown,
)
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import AnyOperation, Terminate, Trim
from model.rules.catalogue import carries
from model.subscription_operations import (
    AwaitPersisted,
    CreateSubscription,
    CursorRequest,
    DeleteSubscription,
    Expire,
    PeekMessage,
    ReadCursor,
    ReadStoredCursor,
    ReceiveAll,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Unsubscribe,
)
from model.subscriptions import observations, starts
from model.subscriptions.acks import overtaken, taken_from
from model.subscriptions.counts import PersistedLate
from model.subscriptions.state import Consumption, TrackedTopic
from model.vocabulary import Outcome, SubscriptionId

Judged = Allowed[Consumption] | Broken

NO_SUBSCRIPTION = "404"
"""The error of a request on a subscription that does not exist."""
WIDELY = "SERVE-11"
"""The rule on requests that are for a whole namespace."""
WAITED_MS = 500.0
"""An operation that took less did not have to wait."""


@carries("SERVE-04", "SERVE-11")
def administered(
    state: Consumption,
    operation: CreateSubscription | CursorRequest,
    outcome: Outcome,
    at: Interval,
) -> Judged:
    """The states that are possible after an operation on a subscription."""
    subscription = SubscriptionId(operation.topic, operation.subscription)
    if isinstance(operation, CreateSubscription | DeleteSubscription):
        return _created_or_deleted(state, operation, outcome, at)
    if (
        isinstance(outcome, Refused)
        and isinstance(operation, ReadCursor | ReceiveAll)
        and subscription in state.cursors
    ):
        return _not_there(state, subscription, outcome)
    if isinstance(operation, ReadCursor) and subscription in state.deleted:
        return starts.looked_up(state, subscription, outcome)
    if isinstance(operation, PeekMessage) and subscription in state.deleted:
        return _peeked_at_deleted(state, subscription, operation, outcome)
    if isinstance(outcome, Refused | Unknown):
        return Allowed(state)
    if subscription not in state.cursors or not state.topics[subscription.topic].is_sure:
        return Allowed(state)
    log = state.log(subscription.topic)
    match operation:
        case Skip(count=count):
            return Allowed(_skipped(state, subscription, count, at))
        case SkipAll(scope=scope):
            rule = "ACK-04" if scope == "topic" else WIDELY
            return Allowed(
                changed(state, subscription, lambda _: acked.everything(log), at, is_confirmed=True, rule=rule)
            )
        case Expire(up_to=up_to):
            return Allowed(_expired(state, subscription, str(up_to), at, is_through=isinstance(outcome, Expired)))
        case ResetCursor():
            return Allowed(set_to(state, [subscription], outcome.to, at) if isinstance(outcome, CursorReset) else state)
        case ReadCursor():
            return (
                observations.read(state, subscription, outcome, at)
                if isinstance(outcome, CursorRead)
                else Allowed(state)
            )
        case PeekMessage(nth=nth):
            return (
                observations.peeked(state, subscription, nth, outcome)
                if isinstance(outcome, MessagePeeked)
                else Allowed(state)
            )
        case ReadStoredCursor():
            return (
                Allowed(state)
                if not isinstance(outcome, StoredCursorRead)
                else observations.stored(state, subscription, outcome)
            )
        case AwaitPersisted():
            return _persisted(state, subscription, outcome, at)
        case ReceiveAll():
            return _taken_all(state, subscription, outcome, at)
        case _:
            assert_never(operation)


def _created_or_deleted(
    state: Consumption, operation: CreateSubscription | DeleteSubscription, outcome: Outcome, at: Interval
) -> Judged:
    """An administrator created or deleted a subscription, on each partition of a partitioned topic."""
    parts = [SubscriptionId(part, operation.subscription) for part in _parts_of(state, operation.topic)]
    if isinstance(outcome, Refused | Unknown):
        # It may have been created or deleted on some of the partitions.
        return Allowed(
            state if len(parts) <= 1 else reset_failed(state, [one for one in parts if one in state.cursors])
        )
    if isinstance(operation, DeleteSubscription):
        return Allowed(starts.ended(state, parts, starts.ENDS if operation.scope == "topic" else WIDELY))
    for one in parts:
        state = newly_created(state, one, operation, outcome, at)
    return Allowed(starts.created_again(state, operation.topic, operation.subscription))


def _parts_of(state: Consumption, topic: str) -> tuple[str, ...]:
    return state.partitions.get(topic, (topic,))


@carries("SERVE-04")
def _peeked_at_deleted(
    state: Consumption, subscription: SubscriptionId, operation: PeekMessage, outcome: Outcome
) -> Judged:
    """A subscription that was deleted has no messages."""
    if isinstance(outcome, MessagePeeked) and outcome.position is not None:
        because = f"a peek at subscription {subscription.name}, which was deleted, shows {outcome.position}"
        return Broken("SERVE-04", because, evidence=operation).passing_to(state)
    return Allowed(state)


@carries("ACK-16")
def _not_there(state: Consumption, subscription: SubscriptionId, refused: Refused) -> Judged:
    """A durable subscription exists until it is deleted, also after an unload or a kill."""
    gone = state.cursors[subscription]
    if refused.code != NO_SUBSCRIPTION or not gone.durable:
        return Allowed(state)
    return diagnosis.for_state(gone.suspects, f"subscription {subscription.name}, which nobody deleted, does not exist")


def newly_created(
    state: Consumption, subscription: SubscriptionId, operation: CreateSubscription, outcome: Outcome, at: Interval
) -> Consumption:
    """A subscription was created. Where "latest" is in a log that is not known, nobody can tell, nor what a consumer
    does that is no longer tracked."""
    tracked = state.topics.get(subscription.topic)
    if subscription in state.cursors or tracked is None or tracked.is_lost:
        return state
    if state.has_untracked_consumers(subscription):
        return state
    to = outcome.to if isinstance(outcome, CursorReset) else None
    return state.with_cursor(subscription, starts.created(state, subscription, operation.start, at, to=to))


def _skipped(state: Consumption, subscription: SubscriptionId, count: int, at: Interval) -> Consumption:
    """Entries were skipped."""
    log = state.log(subscription.topic)
    return changed(state, subscription, lambda one: acked.skip(one, log, count), at, is_confirmed=True)


def changed(
    state: Consumption,
    subscription: SubscriptionId,
    change: Callable[[Acked], Acked],
    at: Interval,
    *,
    is_confirmed: bool = False,
    rule: str = "ACK-04",
) -> Consumption:
    """An administrator acknowledged entries. ``is_confirmed``: the broker answers after it persisted them."""
    before, log = state.cursors[subscription], state.log(subscription.topic)
    after = before.on_each(change, at, (rule,), is_confirmed=is_confirmed, is_placing=True)
    after = replace(after, ledger=after.ledger.administered())
    state = state.with_cursor(subscription, after)
    left = {position for one in before.possible for position in one.unacknowledged(log)}
    return taken_from(overtaken(state, subscription, before, left), subscription, is_skipped=True)


def _expired(
    state: Consumption, subscription: SubscriptionId, up_to: str, at: Interval, *, is_through: bool
) -> Consumption:
    """Everything up to a message expired. If the broker did not finish, a part of it did."""
    log = state.log(subscription.topic)
    place = log.places.get(up_to)
    if place is None:
        return state
    whole = Place(place.position)
    if is_through:
        return changed(state, subscription, lambda one: acked.acknowledge_up_to(one, log, whole), at)
    before = state.cursors[subscription]
    found = stopping_early(state, subscription, up_to)
    if ends_in_reopened_ledger(state, subscription.topic, up_to):  # then it expires a part of that, or nothing
        ends = {acked.found_by_search(one, log, place.position) for one in found}
        stray = tuple(Ack((Place(end),), cumulative=True) for end in ends if end is not None)
        return state.with_cursor(
            subscription, replace(before, stray=(*before.stray, *stray, Ack((whole,), cumulative=True)))
        )
    if found:
        return stopped_early(state, subscription, place.position, at)
    return state.with_cursor(subscription, replace(before, stray=(*before.stray, Ack((whole,), cumulative=True))))


def stopping_early(state: Consumption, subscription: SubscriptionId, up_to: str) -> frozenset[Acked]:
    """The states of a subscription in which the search of an expiry ends too early (:func:`acked.found_by_search`)."""
    if subscription not in state.cursors or up_to not in (log := state.log(subscription.topic)).places:
        return frozenset()
    return stopping_before(state, subscription, log.places[up_to].position)


def stopping_before(state: Consumption, subscription: SubscriptionId, last: Position) -> frozenset[Acked]:
    """The same for an expiry up to an entry."""
    log = state.log(subscription.topic)
    return frozenset(
        one for one in state.cursors[subscription].possible if _leaves_any(_searched(one, log, last), log, last)
    )


def stopped_early(state: Consumption, subscription: SubscriptionId, last: Position, at: Interval) -> Consumption:
    """The search of an expiry up to an entry ended too early."""
    cursor, log = state.cursors[subscription], state.log(subscription.topic)
    cursor = replace(cursor, possible=stopping_before(state, subscription, last))
    return changed(state.with_cursor(subscription, cursor), subscription, lambda one: _searched(one, log, last), at)


def stopped_early_again(state: Consumption, subscription: SubscriptionId, last: Position) -> Consumption:
    """The broker may have looked again, any number of times, each of which finds something more."""
    cursor, log = state.cursors[subscription], state.log(subscription.topic)
    ends, left = set[Position](), set(cursor.possible)
    while left:
        further = {_searched(one, log, last) for one in left}
        left = further - left
        ends |= {one.mark_delete for one in left}
    again = tuple(Ack((Place(end),), cumulative=True) for end in sorted(ends))
    return state.with_cursor(subscription, replace(cursor, stray=(*cursor.stray, *again)))


def _leaves_any(state: Acked, log: TopicLog, last: Position) -> bool:
    return any(left <= last for left in state.unacknowledged(log))


def ends_in_reopened_ledger(state: Consumption, topic: str, up_to: str) -> bool:
    """Whether a message is in the last ledger of a topic that was terminated, and reloaded since."""
    tracked = state.topics.get(topic)
    if tracked is None or up_to not in tracked.log.places:
        return False
    return _is_in_reopened_ledger(tracked, tracked.log.places[up_to].position)


def _is_in_reopened_ledger(tracked: TrackedTopic, position: Position) -> bool:
    """Whether an entry is in the last ledger of a topic that was terminated, and reloaded since."""
    return tracked.is_reopened and position.ledger == tracked.log.last.ledger


def _searched(state: Acked, log: TopicLog, last: Position) -> Acked:
    position = acked.found_by_search(state, log, last)
    return state if position is None else acked.acknowledge_up_to(state, log, Place(position))


def set_to(state: Consumption, keys: Iterable[SubscriptionId], to: Position | None, at: Interval) -> Consumption:
    """Subscriptions were reset to an entry, which disconnects their consumers. After a reconnect they begin there."""
    for subscription in keys:
        state = state.with_cursor(subscription, starts.reset(state, subscription, to, at))
        state = disconnected(state.without_due(subscription).without_keyed(subscription), subscription)
    return state


def reset_by(state: Consumption, operation: AnyOperation) -> tuple[SubscriptionId, ...]:
    """The subscriptions that an operation resets or removes, which disconnects their consumers."""
    match operation:
        case Seek(name) | Unsubscribe(name) if name in state.consumers:
            return state.consumers[name].subscriptions
        case AtOnce(first, second):
            return tuple(dict.fromkeys((*reset_by(state, first), *reset_by(state, second))))
        case ResetCursor(topic, subscription):
            one = SubscriptionId(topic, subscription)
            return (one,) if one in state.cursors else ()
        case DeleteSubscription(topic, subscription, by_force=True):
            parts = (SubscriptionId(part, subscription) for part in _parts_of(state, topic))
            return tuple(one for one in parts if one in state.cursors)
        case _:
            return ()


def reset_failed(state: Consumption, keys: Iterable[SubscriptionId]) -> Consumption:
    """A reset disconnected the consumers of subscriptions, and then failed. Nobody knows where they are from now on."""
    for subscription in keys:
        state = disconnected(state.without_keyed(subscription), subscription).without_cursor(subscription)
        for name, _ in list(state.consumers_of(subscription)):
            state = state.without_tracking(name)
        state = state.with_untracked(subscription.topic)
    return state


def disconnected(state: Consumption, subscription: SubscriptionId) -> Consumption:
    """The broker disconnected a subscription's consumers. Those of pulsar-client reconnect by themselves."""
    for name, consumer in list(state.consumers_of(subscription)):
        if consumer.client == "wire":
            state = state.without_consumer(name)
        else:
            rest = consumer.without(message for message in consumer.unacknowledged if message[0] == subscription.topic)
            back = replace(rest, is_settled=False, may_repeat=True, never_disconnected=False)
            state = state.with_consumer(name, back)
    return state.with_acked_in_flight(subscription, frozenset())


@carries("ACK-08")
def _persisted(state: Consumption, subscription: SubscriptionId, outcome: Outcome, at: Interval) -> Judged:
    """A dirty state is persisted within the flush interval."""
    persisting = state.topics[subscription.topic].persisting
    match outcome:
        case NotPersisted(waited_ms):
            because = f"the cursor of subscription {subscription.name} was not persisted within {waited_ms:.0f} ms"
            return Broken("ACK-08", because, evidence=outcome).passing_to(state)
        case Persisted(after_ms, entries):
            too_often = observations.persisted_too_often(
                state.cursors[subscription], subscription, entries, at, persisting
            )
            if too_often is not None:
                return too_often
            after = state.with_cursor(subscription, cursor.flushed(state.cursors[subscription], persisting))
            waited_ms = at.completed_ms - at.invoked_ms
            if waited_ms < WAITED_MS:
                return Allowed(after, ("ACK-08",))  # it was persisted at the first look
            # How late it was before the first look says as much about a busy machine as about the broker.
            return _in_time(after, subscription, min(after_ms, waited_ms), persisting)
        case _:
            return Allowed(state)


def _in_time(state: Consumption, subscription: SubscriptionId, after_ms: float, persisting: Persisting) -> Judged:
    if after_ms <= persisting.flush_ms + SLACK_MS:
        return Allowed(state, ("ACK-08",))
    because = (
        f"the cursor of subscription {subscription.name} was persisted only after {after_ms:.0f} ms; "
        f"the flush interval is {persisting.flush_ms:.0f} ms"
    )
    return Broken("ACK-08", because, evidence=PersistedLate(after_ms, persisting)).passing_to(state)


def _taken_all(state: Consumption, subscription: SubscriptionId, outcome: Outcome, at: Interval) -> Judged:
    if not isinstance(outcome, AllReceived):
        return Allowed(state)
    here = list(state.consumers_of(subscription))
    for name, consumer in here:
        for one in consumer.subscriptions:
            state = state.with_cursor(one, cursor.crashed(state.cursors[one], name))
    for name, _ in here:
        state = state.without_consumer(name)
    return observations.taken_all(state, subscription, outcome.messages, at)


def terminated_or_trimmed(state: Consumption, operation: Terminate | Trim, outcome: Outcome) -> Judged:
    """A topic was terminated, or trimmed of what all subscriptions acknowledged."""
    if isinstance(outcome, Trimmed) and operation.topic in state.topics:
        return _trimmed(state, operation.topic, outcome.ledgers)
    if isinstance(operation, Terminate) and isinstance(outcome, Done | Terminated) and operation.topic in state.topics:
        nobody = frozenset[str]()  # writes in flight have failed
        tracked = replace(state.topics[operation.topic], is_terminated=True, in_doubt=nobody, reopened=nobody)
        return Allowed(state.with_topic(operation.topic, tracked))
    return Allowed(state)


@carries("ACK-14")
def _trimmed(state: Consumption, topic: str, ledgers: tuple[int, ...]) -> Judged:
    """A ledger is deleted only if every subscription has acknowledged all of it, and never the last one."""
    tracked, log = state.topics[topic], state.log(topic)
    # A ledger that was rightly deleted stays deleted, even if acks were lost since.
    gone = [ledger for ledger in log.ledgers if ledger not in tracked.deleted.union(ledgers)]
    must_stay = False
    for (where, name), one in state.cursors.items():
        if where != topic or not one.durable or len(one.possible) > 1:
            continue
        (possible,) = one.possible
        for unacknowledged in possible.unacknowledged(log):
            if unacknowledged.ledger in gone:
                what = f"the ledger of {unacknowledged} was deleted, an entry that subscription {name}"
                return Broken("ACK-14", f"{what} had not acknowledged")
            must_stay = must_stay or unacknowledged.ledger != log.ledgers[-1]
    after = state.with_topic(topic, replace(tracked, deleted=tracked.deleted.union(gone)))
    return Allowed(after, ("ACK-14",) if gone or must_stay else ())
