"""A consumer of the wire client that can take the place of one of pulsar-client: its acknowledgments are confirmed.

pulsar-client does not tell whether the broker has learnt of an acknowledgment, so what was confirmed and must not come
again (ACK-09) can be seen with this one only. Batches and chunks are not for it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

import pulsar

from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireDelivery
from conformance.soak.plan import Consume

TIMEOUT_S: Final = 10.0
PREFETCH: Final = 100


@dataclass(frozen=True, slots=True)
class ConfirmedMessage:
    """A delivery in the words of pulsar-client, its own message id."""

    topic: str
    delivery: WireDelivery

    def message_id(self) -> ConfirmedMessage:
        """Itself: it has the numbers."""
        return self

    def ledger_id(self) -> int:
        """Its ledger."""
        return self.delivery.position.ledger

    def entry_id(self) -> int:
        """Its entry."""
        return self.delivery.position.entry

    def batch_index(self) -> int:
        """Its place in a batch, -1 for none."""
        return self.delivery.batch_index

    def data(self) -> bytes:
        """Its payload."""
        return self.delivery.payload

    def topic_name(self) -> str:
        """Where it is from."""
        return self.topic

    def producer_name(self) -> str:
        """Who sent it."""
        return self.delivery.producer_name

    def partition_key(self) -> str:
        """Its key; empty for none."""
        return (self.delivery.key or b"").decode()

    def ordering_key(self) -> str:
        """Empty: the key says it."""
        return ""

    def redelivery_count(self) -> int:
        """How often the broker says to have sent it before."""
        return self.delivery.redelivery_count


class ConfirmingConsumer:
    """It has those methods of ``pulsar.Consumer`` that the recorder calls; errors are those of the wire client."""

    def __init__(self, service: Service, plan: Consume) -> None:
        """Connect and subscribe."""
        self._plan = plan
        self._client = WireClient.connect(service, timeout_s=TIMEOUT_S)
        try:
            self._consumer = self._client.subscribe(
                plan.topic,
                plan.subscription,
                kind=plan.kind,
                initial="earliest",
                consumer_name=plan.name,
                replicated=plan.is_replicated or None,
                timeout_s=TIMEOUT_S,
            )
            self._consumer.flow(PREFETCH)
        except BaseException:
            self._client.abort()
            raise
        self._taken = 0

    def topic(self) -> str:
        """Its topic."""
        return self._plan.topic

    def subscription_name(self) -> str:
        """Its subscription."""
        return self._plan.subscription

    def consumer_name(self) -> str:
        """Its name."""
        return self._plan.name

    def receive(self, timeout_millis: int) -> ConfirmedMessage:
        """Give the next message; ``pulsar.Timeout`` if none comes in time."""
        delivery = self._consumer.receive(timeout_s=timeout_millis / 1000)
        if delivery is None:
            raise pulsar.Timeout("no message in time")
        self._taken += 1
        if self._taken % (PREFETCH // 2) == 0:
            self._consumer.flow(PREFETCH // 2)
        return ConfirmedMessage(self._plan.topic, delivery)

    def acknowledge(self, message: ConfirmedMessage) -> None:
        """Acknowledge a message and wait until the broker has confirmed it."""
        self._consumer.ack([message.delivery.position], timeout_s=TIMEOUT_S)

    def acknowledge_cumulative(self, message: ConfirmedMessage) -> None:
        """Acknowledge everything up to a message, and wait until the broker has confirmed it."""
        self._consumer.ack([message.delivery.position], cumulative=True, timeout_s=TIMEOUT_S)

    def negative_acknowledge(self, message: ConfirmedMessage) -> None:
        """Have it delivered again, at once."""
        self._consumer.redeliver([message.delivery.position])

    def close(self) -> None:
        """Close it, and its connection."""
        with contextlib.suppress(ConnectionLost, NoAnswer, ServerRefused):
            self._consumer.close(timeout_s=TIMEOUT_S)
        self._client.abort()
