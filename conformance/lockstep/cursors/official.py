"""A consumer of pulsar-client for document 003, which groups its acks and reconnects.

It connects through a proxy, so that a crash loses its grouped acks: on close it would send them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final

from conformance.clients.driver.interface import OfficialDelivery
from conformance.clients.handles import OfficialConsumerHandle, SubscriptionConfig, aborted_on_error
from conformance.clients.security.service import Service
from conformance.lockstep.cursors.batch_acknowledger import BatchAcknowledger
from conformance.lockstep.positions import Positions
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S
from conformance.lockstep.settings.client_features import lacking
from conformance.lockstep.settings.traits import Traits
from conformance.proxy.proxy import Proxy
from model.events import Acknowledged, Delivery, Skipped
from model.log import Position
from model.subscription_operations import Acknowledge, Nack, Subscribe
from model.vocabulary import IN_ORDER, Client, SubscriptionType

NACK_DELAY_S: Final = 0.3
"""How long pulsar-client waits before it requests a nacked message again (60 s by default)."""
_GROUPING_S: Final = 0.25
"""The longest delay of acks: the client groups those of 0.1 s."""
_ASKING_AGAIN_S: Final = 2 * NACK_DELAY_S
"""The longest delay of a nack: the client checks periodically which are due."""
_MOMENT_S: Final = 0.001


class OfficialMember:
    """A consumer of pulsar-client, of a topic or of all partitions of one."""

    client: Client = "official"

    def __init__(
        self,
        service: Service,
        subscribe: Subscribe,
        topic: str,
        name: str,
        positions: Positions,
        traits: Traits,
        batch_size_of: Callable[[str, Position], int],
    ) -> None:
        """Connect and subscribe. Raises :class:`ServerRefused`, :class:`ConnectionLost`, :class:`NoAnswer`."""
        self.name = name
        self.port: int | None = None
        self.topic = topic
        self.subscription = subscribe.subscription
        self.kind: SubscriptionType = subscribe.kind
        self.library: Final = subscribe.library
        self.received: list[Delivery] = []
        self.pending: set[Position] = set()
        self._partitions: dict[Position, str] = {}
        self.quiet_at_s = 0.0
        self._positions = positions
        self._batch_size_of = batch_size_of
        self._traits = traits
        self._whole = None if traits.acknowledges_parts else BatchAcknowledger(positions)
        self._wanted = 0
        self._waiting: deque[Delivery] = deque()
        self._deliveries: dict[Delivery, OfficialDelivery] = {}
        self._proxy = Proxy(service)
        wanted = SubscriptionConfig(
            topic=topic,
            name=subscribe.subscription,
            kind=subscribe.kind,
            consumer_name=name,
            initial=subscribe.start,
            prefetch=max(1, subscribe.queue),
            nack_delay_s=NACK_DELAY_S,
            acks_parts=traits.acknowledges_parts,
            library=subscribe.library,
        )
        with aborted_on_error(self._proxy.stop):
            self._handle = OfficialConsumerHandle(self._proxy.service, wanted, timeout_s=ANSWER_TIMEOUT_S)
        self._consumer = self._handle.consumer

    @property
    def is_open(self) -> bool:
        """Whether the suite has not closed it: after anything that the broker does, the client reconnects."""
        return True

    @property
    def waiting_count(self) -> int:
        """How many messages were taken from the client and are not received yet."""
        return len(self._waiting)

    def ask_for(self, count: int) -> None:
        """Take ``count`` messages from the client, and leave the others in its queue."""
        self._wanted = count - len(self._waiting)

    def pump(self, wait_s: float = 0.0) -> None:
        """Take the wanted messages from the client's queue."""
        while self._wanted > 0 and (delivery := self._consumer.receive(timeout_s=wait_s or _MOMENT_S)) is not None:
            self._wanted -= 1
            self._arrive(delivery)

    def _arrive(self, delivery: OfficialDelivery) -> None:
        topic = delivery.topic
        size = self._batch_size_of(topic, delivery.position) if delivery.batch_index >= 0 else 0
        message = Delivery(
            delivery.position,
            delivery.batch_index if size else -1,
            size,
            delivery.payload.decode(errors="replace"),
            delivery.redelivery_count if self._traits.counts_redeliveries else None,
        )
        self._positions.delivered(topic, message)
        if self._whole is not None:
            self._whole.arrived(topic, message)
        self.pending.add(message.position)
        self._partitions[message.position] = topic
        self._deliveries[message] = delivery
        self._waiting.append(message)

    def take(self, count: int) -> tuple[Delivery, ...]:
        messages = tuple(self._waiting.popleft() for _ in range(min(count, len(self._waiting))))
        self.received += messages
        return messages

    def acknowledge(self, messages: Sequence[Delivery], *, cumulative: bool) -> Acknowledged:
        """Acknowledge one by one; the client sends the acks later. The outcome has all messages of them."""
        for message in messages:
            acknowledge = self._consumer.ack_cumulative if cumulative else self._consumer.ack
            acknowledge(self._deliveries[message])
        self._holds_back(_GROUPING_S)
        if self._whole is None:
            return Acknowledged(tuple(messages), receipt=False)
        if cumulative:
            return Acknowledged(self._whole.acknowledge_up_to(messages[-1])[1], receipt=False)
        return Acknowledged(self._whole.acknowledge(messages), receipt=False)

    def redeliver(self, messages: Sequence[Delivery] | None) -> tuple[Delivery, ...]:
        """Nack messages, which the client requests later; None requests all at once."""
        if messages is None:
            asked = tuple(dict.fromkeys((*self.received, *self._waiting)))
            self._waiting.clear()
            self._consumer.redeliver_all()
        else:
            asked = tuple(messages)
            for message in messages:
                self._consumer.nack(self._deliveries[message])
        self._holds_back(_ASKING_AGAIN_S)
        self.pending -= self._coming_again(asked)
        return asked

    def _coming_again(self, asked: Sequence[Delivery]) -> set[Position]:
        """The pending entries that will be redelivered; an active consumer receives all of a topic again."""
        positions = {message.position for message in asked}
        if self.kind not in IN_ORDER:
            return positions
        topics = {self._partitions[position] for position in positions}
        return {position for position in self.pending if self._partitions[position] in topics}

    def lost(self, topics: Collection[str]) -> None:
        """The broker closed it on these topics, and will redeliver its pending messages."""
        self.pending = {position for position in self.pending if self._partitions[position] not in topics}

    def _holds_back(self, for_s: float) -> None:
        self.quiet_at_s = max(self.quiet_at_s, time.monotonic() + for_s)

    def cut_off(self) -> None:
        """Cut its connections; it reconnects, and the broker redelivers its pending messages."""
        self._proxy.cut()
        self.pending.clear()
        self._waiting.clear()

    @property
    def ports(self) -> tuple[int, ...]:
        """Its client ports so far."""
        return self._proxy.ports

    def can_be_cut(self, address: str | None) -> bool:
        """Whether the connection from this address goes through the proxy."""
        return self._proxy.carries(address)

    def unsubscribe(self) -> None:
        self._consumer.unsubscribe()

    def close(self) -> None:
        """Close the consumer, which sends grouped acks, then the client."""
        self._handle.close()
        self._proxy.stop()

    def crash(self) -> None:
        """Cut the connections, which loses grouped acks, and end the client."""
        self._proxy.stop()
        self._handle.abort()


def lacking_at(member: object, operation: Acknowledge | Nack) -> Skipped | None:
    """Why its client cannot perform it; None if it can."""
    return lacking(operation, member.library) if isinstance(member, OfficialMember) else None
