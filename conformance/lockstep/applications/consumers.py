"""Consumers on a real broker: what they receive and acknowledge, and when they have received everything.

A consumer does not wait for silence. It waits while, according to the cursor, entries are neither acknowledged nor
pending at a connected consumer. If they are not delivered in time, it is stuck.
"""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from itertools import cycle
from typing import Final

from conformance.applications.deliveries import to_delivery
from conformance.clients.admin.backlog import not_delivered, unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.handles import ConsumerHandle, ReceivedMessage, SubscriptionConfig, open_consumer
from conformance.clients.outcomes import CLIENT_ERRORS, ConnectionLost, ServerRefused
from conformance.clients.security.service import Service
from conformance.harness_error import HarnessError
from conformance.wait import Deadline, retry
from model.events import AnyOutcome, Consumed, Delivery, Drained, Refused, Skipped, Stuck
from model.log import Position
from model.operations import Consume, Drain
from model.vocabulary import Client, SubscriptionType

DELIVERY_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 40.0}
"""How long due messages may take; far longer than ever measured. pulsar-client may still be reconnecting."""
PREFETCH: Final = 1000
"""The permits of a consumer: more than an example has messages."""
_MOMENT_S: Final = 0.001
_DRAIN: Final = "drain"


class _Consumer:
    """A consumer of an example: its messages, and its handle while it is subscribed.

    It acknowledges a batch once all delivered messages of it are chosen.
    """

    def __init__(self, topic: str, operation: Consume) -> None:
        self.topic = topic
        self.subscription = operation.subscription
        self.kind: SubscriptionType = operation.kind
        self.client: Client = operation.client
        self.handle: ConsumerHandle | None = None
        self._reset()

    def _reset(self) -> None:
        self.pending = set[Position]()
        """The entries that were delivered since it subscribed."""
        self._waiting = deque[Delivery]()
        self._messages: dict[Delivery, ReceivedMessage] = {}
        self._delivered: defaultdict[Position, set[Delivery]] = defaultdict(set)
        self._chosen: defaultdict[Position, set[Delivery]] = defaultdict(set)

    @property
    def is_open(self) -> bool:
        return self.handle is not None and self.handle.is_open

    def subscribe(self, service: Service, deadline: Deadline) -> None:
        """Subscribe once. Raises what is in ``CLIENT_ERRORS``."""
        wanted = SubscriptionConfig(topic=self.topic, name=self.subscription, kind=self.kind, prefetch=PREFETCH)
        self.handle = open_consumer(self.client, service, wanted, timeout_s=deadline.left_s)
        self._reset()

    def pump(self) -> None:
        """Read the delivered messages, waiting a moment for them."""
        assert self.handle is not None
        with suppress(ConnectionLost):
            while (message := self.handle.receive(timeout_s=_MOMENT_S)) is not None:
                delivered = to_delivery(message)
                self._messages[delivered] = message
                self._delivered[delivered.position].add(delivered)
                self.pending.add(delivered.position)
                self._waiting.append(delivered)

    def take(self, at_most: int) -> list[Delivery]:
        """Receive messages that :meth:`pump` read."""
        return [self._waiting.popleft() for _ in range(min(at_most, len(self._waiting)))]

    def acknowledge(self, messages: list[Delivery]) -> list[Delivery]:
        """Acknowledge the entries whose messages are all chosen; returns these messages."""
        for message in messages:
            self._chosen[message.position].add(message)
        entries = dict.fromkeys(message.position for message in messages)
        ready = [
            one for entry in entries if self._chosen[entry] == self._delivered[entry] for one in self._chosen[entry]
        ]
        if ready and self.handle is not None:
            # An ack without an answer may have taken effect.
            with suppress(*CLIENT_ERRORS):
                self.handle.ack([self._messages[one] for one in ready])
        return ready

    def leave(self, *, crashes: bool) -> None:
        """Close gracefully, or cut the connection."""
        if self.handle is not None:
            (self.handle.abort if crashes else self.handle.close)()


class Consumers:
    """The consumers of one example."""

    def __init__(self, admin: Admin, service: Service) -> None:
        self._admin = admin
        self._service = service
        self._consumers: dict[str, _Consumer] = {}

    def consume(self, operation: Consume, topic: str) -> AnyOutcome:
        """Receive, acknowledge, and stay or leave; subscribe first if necessary."""
        deadline = Deadline.after(DELIVERY_TIMEOUT_S[operation.client])
        consumer = self._consumer(operation, topic, deadline)
        if not isinstance(consumer, _Consumer):
            return consumer
        received = self._receive(consumer, operation.count, deadline)
        if isinstance(received, Refused | Stuck):
            return received
        chosen = [message for message, is_wanted in zip(received, cycle(operation.acks), strict=False) if is_wanted]
        acknowledged = consumer.acknowledge(chosen)
        if operation.then != "stays":
            self._consumers.pop(operation.consumer).leave(crashes=operation.then != "closes")
        return Consumed(tuple(received), tuple(acknowledged))

    def _consumer(self, operation: Consume, topic: str, deadline: Deadline) -> _Consumer | AnyOutcome:
        """The consumer, a new one if necessary; else the outcome of a failed subscribe."""
        consumer = self._consumers.get(operation.consumer)
        if consumer is not None:
            is_same = (consumer.topic, consumer.subscription, consumer.kind) == (
                topic,
                operation.subscription,
                operation.kind,
            )
            return consumer if is_same else Skipped("the consumer is subscribed elsewhere")
        consumer = _Consumer(topic, operation)
        failed = self._let_in(consumer, deadline)
        if failed is None:
            self._consumers[operation.consumer] = consumer
        return failed or consumer

    def _let_in(self, consumer: _Consumer, deadline: Deadline) -> Refused | Stuck | None:
        """Subscribe; retry until the deadline, unless another consumer of the example is subscribed."""
        is_taken = bool(self._of(consumer.topic, consumer.subscription))

        def may_pass(error: HarnessError) -> bool:
            if isinstance(error, ServerRefused):
                return error.may_pass or (error.code == "ConsumerBusy" and not is_taken)
            return isinstance(error, CLIENT_ERRORS)

        try:
            retry(lambda: consumer.subscribe(self._service, deadline), deadline, may_pass=may_pass)
        except ServerRefused as refused:
            if is_taken and refused.code == "ConsumerBusy":
                return Refused(refused.code, refused.message)
            return Stuck(f"it is not let in: {refused}")
        except CLIENT_ERRORS as error:
            return Stuck(f"it is not let in: {error}")
        return None

    def _of(self, topic: str, subscription: str) -> list[_Consumer]:
        """The connected consumers of a subscription."""
        here = (one for one in self._consumers.values() if (one.topic, one.subscription) == (topic, subscription))
        return [one for one in here if one.is_open]

    def _receive(self, consumer: _Consumer, count: int, deadline: Deadline) -> list[Delivery] | Refused | Stuck:
        """Up to ``count`` messages; fewer once all of the backlog is pending at the consumers."""
        received: list[Delivery] = []
        while True:
            if not consumer.is_open and (failed := self._let_in(consumer, deadline)) is not None:
                return failed
            consumers = self._of(consumer.topic, consumer.subscription)
            for one in consumers:
                one.pump()
            received += consumer.take(count - len(received))
            left = self._left(consumer.topic, consumer.subscription) - set().union(*(one.pending for one in consumers))
            if len(received) == count or not left:
                return received
            if deadline.passed:
                return Stuck(not_delivered(left), tuple(sorted(left)))

    def _left(self, topic: str, subscription: str) -> frozenset[Position]:
        return unacknowledged(self._admin.internal_stats(topic), subscription)

    def drain(self, operation: Drain, topic: str) -> AnyOutcome:
        """Cut off all consumers; then receive and acknowledge until the backlog is empty."""
        self._cut_off(topic, operation.subscription)
        drained = self._drain(operation, topic)
        self._cut_off(topic, operation.subscription)
        return drained

    def _drain(self, operation: Drain, topic: str) -> AnyOutcome:
        everything = Consume(_DRAIN, topic, operation.subscription, count=PREFETCH, kind=operation.kind)
        deadline = Deadline.after(DELIVERY_TIMEOUT_S["wire"])
        drained: list[Delivery] = []
        while True:
            received = self.consume(everything, topic)
            if not isinstance(received, Consumed):
                return received
            drained += received.messages
            left = self._left(topic, operation.subscription)
            if not left:
                return Drained(tuple(drained))
            if deadline.passed:
                return Stuck(f"{len(left)} entries, from {min(left)} on, are acknowledged and yet not gone")

    def _cut_off(self, topic: str, subscription: str) -> None:
        for name, consumer in list(self._consumers.items()):
            if (consumer.topic, consumer.subscription) == (topic, subscription):
                self._consumers.pop(name).leave(crashes=True)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.leave(crashes=True)
        self._consumers.clear()
