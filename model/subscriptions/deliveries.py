"""Judges what a consumer received: what may be delivered, and what must be.

A message may be delivered if it is unacknowledged and pending at no consumer (ACK-12). A message must be redelivered if
its consumer nacked it, or left while it was pending (ACK-12, ACK-13). In the end everything must be delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from model.cursors import diagnosis
from model.cursors.acked import Acked
from model.cursors.cursor import Cursor
from model.events import CursorRead, Delivery, ReceivedMessages, Starved
from model.immutable.map import Map
from model.judgement import HOLDS, Allowed, Broken, all_of, in_turn, judges_waits
from model.rules.catalogue import carries
from model.subscriptions import chunks, claims, invariant, membership
from model.subscriptions.consumers import SHARED, Consumer, Message, RedeliveryReason
from model.subscriptions.counts import BeyondLimit, Count, SentAgain, SentOnceMore, Starving
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId, Withheld

S = TypeVar("S")

EXERCISED_BY: dict[RedeliveryReason, tuple[str, ...]] = {"left": ("ACK-12",), "nacked": ("ACK-13",), "unloaded": ()}


def received(
    state: Consumption, name: str, messages: Sequence[Delivery], *, is_all: bool
) -> Allowed[Consumption] | Broken:
    """A consumer received messages. ``is_all``: nothing else was in flight to it."""
    judged = in_turn(state, [partial(_received_one, name=name, dispatched=one) for one in messages])
    return judged.then(lambda after: Allowed(_all_received(after, name))) if is_all else judged


def _all_received(state: Consumption, name: str) -> Consumption:
    consumer = state.consumers[name]
    may_repeat = consumer.may_repeat and consumer.client == "official"
    return state.with_consumer(name, replace(consumer, seen=_seen(state, consumer), may_repeat=may_repeat))


def _seen(state: Consumption, consumer: Consumer) -> Map[str, frozenset[Acked]]:
    return Map({one.topic: state.cursors[one].possible for one in consumer.subscriptions})


def _besides(again: SentAgain) -> Allowed[None] | Broken:
    """What else is wrong with a message that a consumer received again."""
    return all_of(
        (
            claims.not_claimed(again.state, again.subscription, again.consumer, again.message),
            invariant.divided(again.state, again.subscription, again.consumer, again.message, is_again=True),
        )
    )


def _sent_again(broken: Broken, again: SentAgain) -> Broken | None:
    """The same violation, if it is that the message is unacknowledged at a consumer already. What else is wrong is
    judged first."""
    state, subscription, name, message = again.state, again.subscription, again.consumer, again.message
    if not _is_unacknowledged(state, subscription, message):
        return None
    besides = _besides(again)
    if isinstance(besides, Broken):
        already = _unacknowledged_already(state, subscription, name, message)
        if not isinstance(already, Broken):
            return None
        broken = already
    after = _given(state, subscription, name, message, is_late=True)
    violation = replace(broken, evidence=again).passing_to(after)
    return besides.then(lambda _: violation) if isinstance(besides, Broken) else violation


def _received_one(state: Consumption, name: str, dispatched: Delivery) -> Allowed[Consumption] | Broken:
    consumer = state.consumers[name]
    message = state.place_of(consumer, dispatched)
    if message is None:
        if all(state.topics[topic].is_sure for topic in consumer.topics):
            what = f"{dispatched.business_id} at {dispatched.position} (batch index {dispatched.batch_index})"
            return Broken("ACK-06", f"{name} received {what}, but the log has no such message there")
        return Allowed(state)
    subscription = SubscriptionId(message[0], consumer.subscription)
    if consumer.kind == "Failover":
        state = _passed_on(state, subscription, name)
    if consumer.rewinds and _was_passed_by(message, consumer):
        consumer = replace(consumer, unacknowledged=Map(), rewinds=consumer.rewinds - 1)
        state = state.with_consumer(name, consumer)
    right = all_of(
        (
            claims.not_claimed(state, subscription, name, message),
            invariant.divided(state, subscription, name, message),
            _unacknowledged_already(state, subscription, name, message),
        )
    )
    if isinstance(right, Broken):
        repeated = _sent_again(right, SentAgain(state, subscription, name, message))
        if repeated is not None:
            return repeated
    return right.then(lambda _: _delivered(state, subscription, name, message, dispatched))


def _delivered(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    message: Message,
    dispatched: Delivery,
) -> Allowed[Consumption] | Broken:
    """A consumer received a message, which no other one has."""
    consumer, why = state.consumers[name], state.due(subscription).get(message)
    acked_in_flight = state.acked_in_flight.get(subscription, frozenset())
    if message in acked_in_flight:
        state = state.with_acked_in_flight(subscription, acked_in_flight - {message})
        return Allowed(_given(state, subscription, name, message, is_late=True))
    delivering = _delivering(state.cursors[subscription], consumer, message)
    if delivering is None:
        because = f"{name} received {state.words(message)}, although it is acknowledged"
        broken = diagnosis.for_state(state.cursors[subscription].suspects, because)
        return _once_more(broken, state, subscription, name, message)
    cursor = delivering.state
    # pulsar-client may deliver messages of its receiver queue, or die before it sends the redelivery request of a nack.
    is_requested = why == "nacked" and consumer.client == "wire" and consumer.kind in ("Shared", "Key_Shared")
    # Brokers lose the redelivery count of a batch that is acknowledged in part.
    is_whole = not any(
        one.has_message(place)
        for one in cursor.possible
        for place in state.log(subscription.topic).places_at(message[1].position)
    )
    if is_requested and is_whole and dispatched.redeliveries == 0:
        because = f"{name} received the redelivered {state.words(message)} with a redelivery count of 0"
        return _once_more(Broken("ACK-13", because), state, subscription, name, message)
    state = state.with_cursor(subscription, cursor).taken(subscription, [message])
    is_late = all(one.has_message(message[1]) for one in cursor.possible)
    # It was in flight during the redelivery request, which the broker may have processed after it was dispatched.
    is_asked = consumer.may_repeat and consumer.client == "wire" and consumer.kind in SHARED and why is None
    state = _given(state, subscription, name, message, is_late=is_late, is_asked=is_asked)
    exercised = (EXERCISED_BY[why] if why else ()) + invariant.exercised_by(state, subscription, name, message)
    exercised += claims.exercised_by(state, subscription, name, message)
    excused = invariant.excused_by(state, subscription, name, message)
    return Allowed(state, exercised, excused=excused).after(delivering)


def _given(
    state: Consumption,
    subscription: SubscriptionId,
    name: str,
    message: Message,
    *,
    is_late: bool,
    is_asked: bool = False,
) -> Consumption:
    """A message is pending at a consumer. ``is_late``: others acknowledged it, or have it too. ``is_asked``: the
    consumer may have requested its redelivery, too."""
    consumer = state.consumers[name].given(message, is_late=is_late)
    if is_asked:
        consumer = replace(consumer, requested_twice=consumer.requested_twice | {message})
    state = chunks.sent(state.with_consumer(name, consumer), subscription, name, message)
    is_counted = is_late and consumer.kind == "Key_Shared"
    return membership.acked_by_others(state, subscription, name, [message[1].position]) if is_counted else state


def _is_unacknowledged(state: Consumption, subscription: SubscriptionId, message: Message) -> bool:
    """Whether a message is surely pending: its client cannot have sent another redelivery request for it."""
    return any(
        message in consumer.unacknowledged
        for _, consumer in state.consumers_of(subscription)
        if message not in consumer.requested_twice and not (consumer.may_repeat and consumer.client == "official")
    )


def _once_more(broken: Broken, state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> Broken:
    """The violation that a consumer received a message that was not due. It may have been read before."""
    after = _given(state, subscription, name, message, is_late=True)
    return replace(broken, evidence=SentOnceMore(subscription, message)).passing_to(after)


def _was_passed_by(message: Message, consumer: Consumer) -> bool:
    """Whether a consumer that receives in order already had this message, or a later one."""
    topic, place = message
    return any(other_topic == topic and other >= place for other_topic, other in consumer.unacknowledged)


def _passed_on(state: Consumption, subscription: SubscriptionId, name: str) -> Consumption:
    """The active consumer takes over the pending messages of the others."""
    for other, consumer in list(state.consumers_of(subscription)):
        if other != name and consumer.unacknowledged:
            state = state.with_consumer(other, replace(consumer, unacknowledged=Map(), rewinds=consumer.rewinds + 1))
    return state


@carries("ACK-12")
def _unacknowledged_already(
    state: Consumption, subscription: SubscriptionId, name: str, message: Message
) -> Allowed[None] | Broken:
    """A message is pending at one consumer at a time.

    If a deviation delivered it to two consumers and one of them left, it is due while the other still has it.
    """
    excused: tuple[str, ...] = ()
    for other, consumer in state.consumers_of(subscription) if message not in state.due(subscription) else ():
        if message in consumer.unacknowledged:
            has_nacked = any(why == "nacked" for why in state.due(subscription).values())
            rule = "ACK-13" if other == name and has_nacked else "ACK-12"
            if not _may_repeat(consumer, message) and not _may_repeat(state.consumers[name], message):
                return Broken(rule, f"{name} received {state.words(message)}, which is unacknowledged at {other}")
            excused = (rule,)
    return Allowed(None, excused=excused) if excused else HOLDS


def _may_repeat(consumer: Consumer, message: Message) -> bool:
    return consumer.may_repeat or message in consumer.requested_twice


def _delivering(cursor: Cursor, consumer: Consumer, message: Message) -> Allowed[Cursor] | None:
    """The subscription when a message was dispatched, at some time after the consumer last had nothing in flight. None:
    it was acknowledged all that time."""
    topic, place = message
    seen = consumer.seen.get(topic, frozenset())
    if seen != cursor.possible and any(not state.has_message(place) for state in seen | cursor.possible):
        # It may have been dispatched before the operations since then.
        is_acknowledged = all(state.has_message(place) for state in cursor.possible)
        return Allowed(cursor, excused=(diagnosis.likeliest(cursor.suspects),) if is_acknowledged else ())
    dispatching = cursor.observed(lambda state: None if state.has_message(place) else state)
    return None if dispatching is None else Allowed(dispatching)


@carries("ACK-12", "ACK-13", "SERVE-03")
@judges_waits
def missed(state: Consumption, name: str) -> Allowed[None] | Broken:
    """A consumer received less than its permits allow. The broker must have nothing more for it.

    Consumers that share a subscription receive a delayed message when its time has come; an exclusive one, at once.
    ACK-12 requires the messages of a consumer that left, and ACK-13 the nacked ones. SERVE-03 requires all others.
    """
    consumer = state.consumers[name]
    excused: tuple[str, ...] = ()
    if consumer.kind not in ("Exclusive", "Shared") or consumer.client != "wire":
        return Allowed(None)
    for subscription in consumer.subscriptions:
        others = dict(state.consumers_of(subscription))
        is_settled = all(other.is_settled or other_name == name for other_name, other in others.items())
        if not is_settled or not state.topics[subscription.topic].is_sure:
            excused = ("ACK-12",)
            continue
        pending = frozenset(message for other in others.values() for message in other.unacknowledged)
        due = [message for message in surely_left(state, subscription) if message not in pending]
        topic = state.topics[subscription.topic]
        if consumer.kind in SHARED:
            due = [message for message in due if not topic.is_not_due(message[1].position)]
        if due:
            reasons = state.due(subscription)
            why = {reasons.get(message) for message in due}
            rule = "ACK-13" if "nacked" in why else "ACK-12" if why - {None} else "SERVE-03"
            words = diagnosis.some([state.words(message) for message in due])
            because = f"the broker did not dispatch {words} to {name}, although no consumer has it"
            return Broken(rule, because, evidence=Starving(state, (name,))).passing_to(None)
    return Allowed(None, excused=excused)


@carries("SERVE-05")
def limited(
    before: Consumption, after: Consumption, name: str, outcome: ReceivedMessages | Starved
) -> Allowed[None] | Broken:
    """A consumer received messages, or received none because the broker says that it is blocked.

    A broker blocks a consumer at the limit on unacknowledged messages, and unblocks it at half of that. Releases differ
    in how far the last dispatch may exceed the limit, so only a dispatch after it breaks the rule.
    """
    consumer = before.consumers[name]
    is_blocked = isinstance(outcome, ReceivedMessages) and outcome.blocked
    limit = before.limit_of(consumer)
    is_known = consumer.client == "wire" and not (consumer.may_repeat or after.consumers[name].may_repeat)
    if len(consumer.topics) > 1 or not is_known:
        return Allowed(None, excused=("SERVE-05",) if limit else ())
    had, has = consumer.least, after.consumers[name].most
    if limit and had >= limit and outcome.messages:
        given = f"is given {len(outcome.messages)} more"
        because = f"{name} has {had} unacknowledged messages, where {limit} are allowed, and {given}"
        return Broken("SERVE-05", because, evidence=BeyondLimit(name, had, limit)).passing_to(None)
    if is_blocked and (not limit or has <= limit // 2):
        allowed = f"where {limit} are allowed" if limit else "where any number is"
        because = f"{name} is blocked for {has} unacknowledged messages, {allowed}"
        counted = Count("blocked", after, consumer.subscriptions[0], limit // 2 + 1 - has, name) if limit else None
        return Broken("SERVE-05", because, evidence=counted).passing_to(None)
    return Allowed(None, ("SERVE-05",) if limit and (is_blocked or had >= limit) else ())


# ---------------------------------------------------------------------------------- limits of a subscription as a whole
#
# At its limit the broker reads no new messages, but still redelivers. Its stats show whether a subscription is blocked,
# and how many messages it counts: :mod:`model.subscriptions.observations` compares that with the pending acks of its
# consumers. What it read before may still be dispatched, so only a message that was sent later breaks the rule.


@carries("SERVE-05")
def withheld(state: Consumption, subscription: SubscriptionId, stats: Withheld | None) -> Allowed[Consumption] | Broken:
    """According to the stats a subscription is blocked. Below half of the limit the broker must read again."""
    if stats is None:
        return Allowed(state)
    limit = state.topics[subscription.topic].limits.in_all
    if not limit or stats.unacknowledged < limit // 2:
        allowed = f"where {limit} are allowed" if limit else "where any number is"
        return Broken(
            "SERVE-05", f"subscription {subscription.name} is blocked for {stats.unacknowledged} messages, {allowed}"
        )
    cursor, last = state.cursors[subscription], state.log(subscription.topic).last
    may_go_on = stats.read_pending or len(cursor.possible) > 1 or bool(cursor.unsure)
    may_go_on |= any(one.client != "wire" for _, one in state.consumers_of(subscription))
    if not may_go_on and subscription not in state.withheld:
        state = replace(state, withheld=state.withheld.set(subscription, last))
    return Allowed(state, ("SERVE-05",))


@carries("SERVE-05")
def not_blocked(state: Consumption, subscription: SubscriptionId, stats: CursorRead) -> Allowed[None] | Broken:
    """A subscription is blocked once all its consumers together have as many unacknowledged messages as allowed."""
    limit = state.topics[subscription.topic].limits.in_all
    kinds = {consumer.kind for _, consumer in state.consumers_of(subscription)}
    if not limit or stats.unacknowledged < limit or not kinds or kinds - SHARED:
        return Allowed(None)
    if stats.withheld is not None:
        return Allowed(None, ("SERVE-05",))
    because = f"subscription {subscription.name} has {stats.unacknowledged} unacknowledged messages"
    return Broken("SERVE-05", f"{because}, where {limit} are allowed, and is not blocked")


@carries("SERVE-05")
def not_withheld(
    state: Consumption, subscription: SubscriptionId, name: str, messages: Iterable[Delivery]
) -> Allowed[Consumption] | Broken:
    """A blocked subscription receives no message that was sent after it was blocked."""
    last = state.withheld.get(subscription)
    late = [one.business_id for one in messages if last is not None and one.position > last]
    if not late:
        return Allowed(state)
    limit = state.topics[subscription.topic].limits.in_all
    because = f"{name} received {', '.join(late)}, sent when subscription {subscription.name} was blocked"
    return Broken("SERVE-05", f"{because} by its limit of {limit} unacknowledged messages")
