"""The settings of a running broker: those that a super user may read, and those that anybody can find out.

A release that drops a setting may have the feature always or never. So nothing follows from a missing setting: topics
show which policies apply to them, and deliveries and stats show the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import msgspec

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import Receipt
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import Kind, PartOfBatch, WireConsumer, WireDelivery
from conformance.clients.wire.producer import SendTicket, WireProducer
from conformance.harness_error import HarnessError
from conformance.lockstep.settings.traits import BATCH_INDEX_ACKS, REDELIVERY_COUNTS
from conformance.tenancy.cluster_settings import CLASSIC

_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
TIMEOUT_S: Final = 30.0
KEYS: Final = 32
"""Enough for some to move when a second consumer joins: that all stay has a chance of one in four billion."""

_SHIPPED: Final = {
    "brokerDeduplicationEnabled": "false",
    "delayedDeliveryEnabled": "true",
    "managedLedgerDefaultMarkDeleteRateLimit": "0.1",
}
"""What all releases ship with another value than the code's default, for releases that do not show it."""


def settings_in_force(admin: Admin) -> Mapping[str, str] | None:
    """The settings of the broker; None where the role may not read them."""
    try:
        return admin.runtime_configuration()
    except AdminError as error:
        if error.status in _REFUSED:
            return None
        raise


def completed(
    runtime: Mapping[str, str] | None, admin: Admin, service: Service, topic: str, *, shows_draining: bool
) -> Mapping[str, str]:
    """The settings in force, with those that only the broker's behavior shows.

    ``runtime``: those that can be read; None: none, and what the broker does not show either is as releases ship it.
    ``topic``: one without policies of its own, which exists; others are created beside it.
    ``shows_draining``: whether stats have fields of draining hashes, as also those of the classic implementation may.
    """
    found = dict(runtime if runtime is not None else {**_SHIPPED, **shown_by_policies(admin, topic)})
    if not found.keys() >= {BATCH_INDEX_ACKS, REDELIVERY_COUNTS}:
        found = {**shown_by_deliveries(service, f"{topic}-batch"), **found}
    if runtime is None and shows_draining:
        found[CLASSIC] = str(not drains(admin, service, f"{topic}-keys")).lower()
    return found


def shown_by_policies(admin: Admin, topic: str) -> Mapping[str, str]:
    """The settings that are the defaults of a topic's policies, as far as the release shows these."""
    shown: dict[str, object] = {}
    if (limit := admin.applied_policy(topic, "maxUnackedMessagesOnSubscription", int)) is not None:
        shown["maxUnackedMessagesPerSubscription"] = limit
    if (stored := admin.applied_policy(topic, "persistence", _Persistence)) is not None:
        shown["managedLedgerDefaultMarkDeleteRateLimit"] = stored.rate
    if (delayed := admin.applied_policy(topic, "delayedDelivery", _DelayedDelivery)) is not None:
        shown |= {"delayedDeliveryEnabled": delayed.active, "delayedDeliveryTickTimeMillis": delayed.tick_ms}
    return {name: str(value).lower() for name, value in shown.items()}


def shown_by_deliveries(service: Service, topic: str) -> Mapping[str, str]:
    """Whether parts of batches are acknowledged, and redeliveries counted: both show when a batch is redelivered."""
    with _connected(service) as client:
        producer, consumer = _opened(client, topic, "Shared")
        _store(producer, producer.send_batch([(1, b"acknowledged"), (2, b"left")]))
        batch, _ = _received(consumer, 2)
        consumer.ack([PartOfBatch(position=batch.position, batch_size=2, still_unacknowledged=frozenset({1}))])
        consumer.redeliver()
        (again,) = _received(consumer, 1)
        acknowledges, counts = bool(again.acknowledged), again.redelivery_count > 0
    return {BATCH_INDEX_ACKS: str(acknowledges).lower(), REDELIVERY_COUNTS: str(counts).lower()}


def drains(admin: Admin, service: Service, topic: str) -> bool:
    """Whether Key_Shared subscriptions have draining hashes: pending keys of one consumer drain if another joins."""
    with _connected(service) as client:
        producer, consumer = _opened(client, topic, "Key_Shared")
        for number in range(KEYS):
            _store(producer, producer.send(number, b"a key", partition_key=str(number)))
        _received(consumer, KEYS)
        client.subscribe(topic, "s", kind="Key_Shared", timeout_s=TIMEOUT_S)
        return admin.stats(topic).subscriptions["s"].draining_hashes_count > 0


class _Persistence(msgspec.Struct, frozen=True):
    rate: float = msgspec.field(name="managedLedgerMaxMarkDeleteRate")


class _DelayedDelivery(msgspec.Struct, frozen=True):
    active: bool
    tick_ms: float = msgspec.field(name="tickTime")


@contextmanager
def _connected(service: Service) -> Iterator[WireClient]:
    client = WireClient.connect(service, timeout_s=TIMEOUT_S)
    try:
        yield client
    finally:
        client.abort()


def _opened(client: WireClient, topic: str, kind: Kind) -> tuple[WireProducer, WireConsumer]:
    """A producer, and a consumer with permits for all that is sent."""
    producer = client.open_producer(topic, name=None, timeout_s=TIMEOUT_S)
    consumer = client.subscribe(topic, "s", kind=kind, timeout_s=TIMEOUT_S)
    consumer.flow(2 * KEYS)
    return producer, consumer


def _store(producer: WireProducer, sent: SendTicket) -> None:
    outcome = producer.answer(sent, timeout_s=TIMEOUT_S)
    if not isinstance(outcome, Receipt):
        raise HarnessError(f"the broker does not store a message: {outcome}")


def _received(consumer: WireConsumer, count: int) -> list[WireDelivery]:
    """The next messages. Those that come besides are left: without acks of parts, a redelivery has two."""
    came = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(count)]
    found = [one for one in came if one is not None]
    if len(found) < count:
        raise HarnessError(f"the broker delivers {len(found)} of {count} messages within {TIMEOUT_S:g} s")
    return found
