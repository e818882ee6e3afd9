"""How long pulsar-client takes to ask again for a message that its application fails with, time after time.

A consumer and a subscription of its own, so that nothing else is disturbed, and both are gone afterwards.
"""

from __future__ import annotations

import time
from typing import Final

from conformance.clients.driver.client import OfficialClient, OfficialConsumer, OfficialDelivery
from conformance.clients.security.service import Service
from conformance.harness_error import HarnessError
from conformance.lockstep.cursors.official import NACK_DELAY_S
from model.events import Delivery, RedeliveryTimes, Skipped, Starved

LATEST_S: Final = 10.0
"""How long a message may take at most; far beyond what any schedule of these few failures asks for."""


def fail_often(
    service: Service, topic: str, subscription: str, times: int, *, entries: int, acknowledges_parts: bool
) -> RedeliveryTimes | Starved | Skipped:
    """Subscribe, fail with the first message so often, and say how long it took until it came again.

    ``entries``: how many the topic has, all of which are due to a new subscription. Where parts of batches are not
    acknowledged, the other messages of its batch come again with it.
    """
    if not entries:
        return Skipped("the topic has no message")
    with OfficialClient(service, timeout_s=LATEST_S) as client:
        consumer = client.subscribe(
            topic,
            subscription,
            kind="Shared",
            initial="earliest",
            nack_delay_s=NACK_DELAY_S,
            acknowledges_parts=acknowledges_parts,
        )
        try:
            first = consumer.receive(timeout_s=LATEST_S)
            if first is None:
                return Starved(f"of {entries} entries none is dispatched to a new subscription within {LATEST_S:g} s")
            return _measure(consumer, first, times, is_alone=acknowledges_parts)
        finally:
            consumer.unsubscribe()


def _measure(
    consumer: OfficialConsumer, first: OfficialDelivery, times: int, *, is_alone: bool
) -> RedeliveryTimes | Starved:
    after_ms: list[float] = []
    seen: set[tuple[object, int]] = set()
    again: list[Delivery] = []
    for _ in range(times):
        consumer.nack(first)
        failed_s = time.monotonic()
        while (delivery := consumer.receive(timeout_s=LATEST_S)) is not None:
            if _place(delivery) == _place(first):
                break
            if _place(delivery) in seen and (is_alone or delivery.position != first.position):
                again.append(_dispatched(delivery))
            seen.add(_place(delivery))
            consumer.ack(delivery)
        if delivery is None:
            why = f"its redelivery does not come within {LATEST_S:g} s of the nack"
            return Starved(why, (_dispatched(first),))
        after_ms.append((time.monotonic() - failed_s) * 1000)
        first = delivery
    consumer.ack(first)
    return RedeliveryTimes(_dispatched(first), NACK_DELAY_S * 1000, tuple(after_ms), tuple(again))


def _place(delivery: OfficialDelivery) -> tuple[object, int]:
    return delivery.position, delivery.batch_index


def _dispatched(delivery: OfficialDelivery) -> Delivery:
    if delivery.position is None:
        raise HarnessError("pulsar-client delivered a message without a position")
    return Delivery(delivery.position, delivery.batch_index, 0, delivery.payload.decode(errors="replace"))
