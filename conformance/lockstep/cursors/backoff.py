"""Measures the redelivery delays of pulsar-client for a message that its application nacks repeatedly.

It has a consumer and a subscription of its own, and removes both.
"""

from __future__ import annotations

import time
from typing import Final

from conformance.clients.driver.interface import OfficialDelivery, ReleasedClient, ReleasedConsumer
from conformance.harness_error import HarnessError
from conformance.lockstep.cursors.official import NACK_DELAY_S
from model.events import Delivery, RedeliveryTimes, Skipped, Starved

LATEST_S: Final = 10.0
"""How long a redelivery may take; far longer than the backoff of these few nacks."""


def fail_often(
    client: ReleasedClient, topic: str, subscription: str, times: int, *, entries: int, acknowledges_parts: bool
) -> RedeliveryTimes | Starved | Skipped:
    """Subscribe, nack the first message ``times`` times, and measure the delay until each redelivery.

    ``entries``: how many the topic has, all due to a new subscription. Without batch index acks, the other messages of
    the batch are redelivered with it.
    """
    if not entries:
        return Skipped("the topic has no message")
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
    consumer: ReleasedConsumer, first: OfficialDelivery, times: int, *, is_alone: bool
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
