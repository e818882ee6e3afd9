"""A consumer's seat at a subscription: one consumer of either client on a connection of its own, in one shape.

Both let the broker send ahead. What has arrived is not yet received: the application receives it when it asks for it,
and what it never asked for is the broker's to deliver again, as everything that it did not acknowledge.
"""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from typing import Final, Protocol

from conformance.applications.deliveries import to_message
from conformance.clients.driver.client import OfficialClient, OfficialDelivery
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from model.events import Delivery
from model.log import Position
from model.vocabulary import Client, SubscriptionType

PREFETCH: Final = 1000
"""How many messages the broker may be ahead: more than an example has."""
ASK_TIMEOUT_S: Final = 10.0
_MOMENT_S: Final = 0.001


class Seat(Protocol):
    """A consumer that is subscribed."""

    arrived: deque[Delivery]
    """What has arrived and was not received yet."""
    held: set[Position]
    """The entries that have arrived since it subscribed."""

    @property
    def is_open(self) -> bool:
        """Whether it can receive more."""

    def pump(self) -> None:
        """Take in what has arrived."""

    def acknowledge(self, messages: list[Delivery]) -> list[Delivery]:
        """Acknowledge some of what was received; those for which an acknowledgment was sent."""

    def close(self) -> None:
        """Leave in good order; a broker that does not take part is no hindrance."""

    def abort(self) -> None:
        """Leave with the connection cut."""


class _Choices:
    """Which messages are to be acknowledged: a batch is when all that came of it are, and not before."""

    def __init__(self) -> None:
        self._came: defaultdict[Position, set[Delivery]] = defaultdict(set)
        self._chosen: defaultdict[Position, set[Delivery]] = defaultdict(set)

    def came(self, message: Delivery) -> None:
        """A message has arrived."""
        self._came[message.position].add(message)

    def choose(self, messages: list[Delivery]) -> list[Delivery]:
        """Choose these; all messages of the entries that can be acknowledged now."""
        for message in messages:
            self._chosen[message.position].add(message)
        entries = dict.fromkeys(message.position for message in messages)
        ready = (self._chosen[entry] for entry in entries if self._chosen[entry] == self._came[entry])
        return [message for chosen in ready for message in chosen]


class WireSeat:
    """A consumer of the wire client."""

    def __init__(
        self, service: Service, topic: str, subscription: str, kind: SubscriptionType, timeout_s: float
    ) -> None:
        """Connect and subscribe. Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`."""
        self.arrived: deque[Delivery] = deque()
        self.held: set[Position] = set()
        self._client = WireClient.connect(service, timeout_s=timeout_s)
        try:
            self._consumer = self._client.subscribe(
                topic, subscription, kind=kind, initial="earliest", timeout_s=timeout_s
            )
            self._consumer.flow(PREFETCH)
        except BaseException:
            self._client.abort()
            raise
        self._choices = _Choices()

    @property
    def is_open(self) -> bool:
        """Whether neither side closed it."""
        return self._consumer.is_open

    def pump(self) -> None:
        """Take in what has arrived, waiting a moment for it."""
        with suppress(ConnectionLost):
            while (delivery := self._consumer.receive(timeout_s=_MOMENT_S)) is not None:
                message = to_message(delivery)
                self._choices.came(message)
                self.held.add(message.position)
                self.arrived.append(message)

    def acknowledge(self, messages: list[Delivery]) -> list[Delivery]:
        """Acknowledge the entries that can be, in one command with a receipt."""
        ready = self._choices.choose(messages)
        if ready:
            # An ack whose receipt does not come was sent, and may have taken effect.
            with suppress(ConnectionLost, NoAnswer, ServerRefused):
                self._consumer.ack({message.position for message in ready}, timeout_s=ASK_TIMEOUT_S)
        return ready

    def close(self) -> None:
        """Close the consumer, then the connection."""
        self._client.close(timeout_s=ASK_TIMEOUT_S)

    def abort(self) -> None:
        """Reset the connection."""
        self._client.abort()


class OfficialSeat:
    """A consumer of pulsar-client; it subscribes again by itself, and groups its acknowledgments (100 ms)."""

    def __init__(
        self, service: Service, topic: str, subscription: str, kind: SubscriptionType, timeout_s: float
    ) -> None:
        """Connect and subscribe; errors as for :class:`WireSeat`."""
        self.arrived: deque[Delivery] = deque()
        self.held: set[Position] = set()
        self._client = OfficialClient(service, timeout_s=max(1.0, timeout_s))
        try:
            self._consumer = self._client.subscribe(
                topic, subscription, kind=kind, initial="earliest", prefetch=PREFETCH
            )
        except BaseException:
            self._client.abort()
            raise
        self._choices = _Choices()
        self._deliveries: dict[Delivery, OfficialDelivery] = {}

    @property
    def is_open(self) -> bool:
        """Whether this side closed it: whatever the broker does, the client comes back."""
        return True

    def pump(self) -> None:
        """Take in what has arrived, waiting a moment for it."""
        while (delivery := self._consumer.receive(timeout_s=_MOMENT_S)) is not None:
            message = Delivery(delivery.position, delivery.batch_index, 0, delivery.payload.decode(errors="replace"))
            self._choices.came(message)
            self.held.add(message.position)
            self.arrived.append(message)
            self._deliveries[message] = delivery

    def acknowledge(self, messages: list[Delivery]) -> list[Delivery]:
        """Acknowledge each message of the entries that can be; the client sends that later."""
        ready = self._choices.choose(messages)
        for message in ready:
            self._consumer.ack(self._deliveries[message])
        return ready

    def close(self) -> None:
        """Close the consumer, which sends what is held back, then the client."""
        with suppress(ConnectionLost, NoAnswer, ServerRefused):
            self._consumer.close()
        self._client.abort()

    def abort(self) -> None:
        """Cut the client's connections."""
        self._client.abort()


def take_seat(
    client: Client, service: Service, topic: str, subscription: str, kind: SubscriptionType, timeout_s: float
) -> Seat:
    """Subscribe; raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`."""
    seat = WireSeat if client == "wire" else OfficialSeat
    return seat(service, topic, subscription, kind, timeout_s)
