"""Subscriptions (DEDUP-16): every message is delivered at least once, and again after a failure before its ack.

What was acknowledged may come again after a failure (how late an ack may be lost is document 003's); what was not must.
So the pure part is small: which messages were acknowledged, which are unacknowledged at whom, and which are due again
because whoever had them is gone. That nothing is missed is known when the broker says that nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from model.events import Delivery, LoggedEntry, Stuck
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import Consume, Drain
from model.rules.catalogue import carries
from model.vocabulary import Client

Messages = frozenset[Delivery]


@dataclass(frozen=True, slots=True)
class ApplicationSubscription:
    """What is known of one subscription.

    ``acknowledged``: what an ack was sent for, whether or not it was lost. ``unacknowledged``: for each consumer, what
    it received in this life of it and did not acknowledge. ``due``: the same of those that are gone.

    ``connected``: its consumers, and the client of each. ``may_replay``: one left while others stayed, to whom the
    broker replays what it had. ``may_wait_before_rewind``: the last one left during such a replay read, perhaps, and
    nothing was sent since.
    """

    topic: str
    acknowledged: Messages = frozenset()
    unacknowledged: Mapping[str, Messages] = field(default_factory=dict)
    due: Messages = frozenset()
    connected: Mapping[str, Client] = field(default_factory=dict)
    may_replay: bool = False
    may_wait_before_rewind: bool = False


@dataclass(frozen=True, slots=True)
class NotRedelivered:
    """Messages that a subscription received and did not acknowledge are ``missing`` where all that was left came.
    ``first``: where what came begins."""

    missing: Sequence[Delivery]
    first: Position | None


def received(
    subscription: ApplicationSubscription,
    operation: Consume,
    messages: Sequence[Delivery],
    acknowledged: Sequence[Delivery],
) -> Allowed[ApplicationSubscription]:
    """A consumer received messages, and acknowledged some; what was once acknowledged, by anyone, is not due again."""
    got = frozenset(messages)
    acks = subscription.acknowledged | frozenset(acknowledged)
    mine = subscription.unacknowledged.get(operation.consumer, frozenset())
    held = {**subscription.unacknowledged, operation.consumer: (mine | got) - acks}
    after = replace(
        subscription,
        acknowledged=acks,
        unacknowledged=held,
        due=subscription.due - got - acks,
        connected={**subscription.connected, operation.consumer: operation.client},
    )
    if operation.then != "stays":
        after = left(after, operation.consumer)
    return Allowed(after, ("DEDUP-16",) if got & subscription.due else ())


def left(subscription: ApplicationSubscription, consumer: str) -> ApplicationSubscription:
    """A consumer is gone: what it had is due again, except what was acknowledged, perhaps by another one."""
    unacknowledged = dict(subscription.unacknowledged)
    due = unacknowledged.pop(consumer, frozenset()) - subscription.acknowledged
    connected = {name: client for name, client in subscription.connected.items() if name != consumer}
    return replace(
        subscription,
        unacknowledged=unacknowledged,
        due=subscription.due | due,
        connected=connected,
        may_replay=bool(connected),
        may_wait_before_rewind=subscription.may_wait_before_rewind or (subscription.may_replay and not connected),
    )


def unloaded(subscription: ApplicationSubscription) -> ApplicationSubscription:
    """The topic was closed, and no consumer has anything any more. Those of pulsar-client reconnect."""
    connected = {name: client for name, client in subscription.connected.items() if client == "official"}
    for consumer in subscription.unacknowledged:
        subscription = left(subscription, consumer)
    return replace(
        subscription,
        connected=connected,
        may_replay=False,
        may_wait_before_rewind=False,
    )


def sent_to(subscription: ApplicationSubscription) -> ApplicationSubscription:
    """Its topic is sent a message, which ends each wait for one."""
    return replace(subscription, may_wait_before_rewind=False)


@carries("DEDUP-16")
def starved(
    subscription: ApplicationSubscription, operation: Consume | Drain, outcome: Stuck
) -> Allowed[ApplicationSubscription] | Broken:
    """The broker has messages that are not acknowledged, and does not deliver them to whoever waits."""
    name = operation.subscription
    because = f"the broker dispatches nothing to a consumer of subscription {name} despite its backlog: {outcome.why}"
    if isinstance(operation, Drain):
        may_wait = subscription.may_wait_before_rewind or len(subscription.connected) > 1
        after = replace(unloaded(subscription), connected={}, may_wait_before_rewind=may_wait)
    else:
        after = replace(subscription, connected={**subscription.connected, operation.consumer: operation.client})
    return Broken("DEDUP-16", because, evidence=after).passing_to(after)


@carries("DEDUP-16")
def drained(
    subscription: ApplicationSubscription,
    name: str,
    messages: Sequence[Delivery],
    log: Sequence[LoggedEntry] | None,
) -> Allowed[ApplicationSubscription] | Broken:
    """All consumers were cut off, and a new one received and acknowledged what was left, until the broker had no more.

    So everything that was never acknowledged has to be among that: each message of the log (None: not known), and in
    any case each that was received before.
    """
    got = frozenset(messages)
    subscription = unloaded(subscription)
    if missing := sorted(subscription.due - got, key=_place):
        because = f"{_words(missing[0])} was received, not acknowledged, and not redelivered to subscription {name}"
        first = min((one.position for one in got), default=None)
        return Broken("DEDUP-16", because, evidence=NotRedelivered(missing, first)).passing_to(subscription)
    for message in messages_of(log or ()):
        if message not in subscription.acknowledged and message not in got:
            return Broken("DEDUP-16", f"{_words(message)} was never delivered to subscription {name}")
    again = got & subscription.due
    after = replace(subscription, due=frozenset(), acknowledged=subscription.acknowledged | got, connected={})
    return Allowed(after, ("DEDUP-16",) if again else ())


def messages_of(log: Iterable[LoggedEntry]) -> list[Delivery]:
    """The messages of a log one by one, as an application that reads all of it gets them."""
    return [
        Delivery(logged.position, index if logged.entry.is_batch else -1, 0, message.business_id)
        for logged in log
        for index, message in enumerate(logged.entry.messages)
    ]


def _place(message: Delivery) -> tuple[Position, int]:
    return message.position, message.batch_index


def _words(message: Delivery) -> str:
    within = f", batch index {message.batch_index}" if message.batch_index >= 0 else ""
    return f"message {message.business_id} (at {message.position}{within})"
