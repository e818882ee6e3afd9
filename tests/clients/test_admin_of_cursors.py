"""The admin API's operations on cursors and ledgers, on a real broker."""

from __future__ import annotations

import uuid

import pytest

from conformance.clients.admin.client import Admin, AdminError
from conformance.clients.admin.types import Persistence
from conformance.clients.wire.client import WireClient
from model.log import Position
from tests.clients.wire.test_consumer import subscribed, take, write
from tests.waits import TIMEOUT_S, becomes, eventually


def topic_of(admin: Admin, *, persisted_per_s: float, is_kept: bool = True) -> str:
    """A topic in a separate namespace."""
    namespace = f"public/cursors-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.set_retention(namespace, size_mb=-1 if is_kept else 0, time_minutes=-1 if is_kept else 0)
    admin.set_persistence(namespace, Persistence(managed_ledger_max_mark_delete_rate=persisted_per_s))
    topic = f"persistent://{namespace}/t"
    admin.create_topic(topic)
    return topic


def persisted_states(admin: Admin, topic: str) -> int:
    """How many entries the ledger of the cursor ``s`` has."""
    return admin.internal_stats(topic).cursors["s"].cursor_ledger_last_entry + 1


@pytest.mark.parametrize(("persisted_per_s", "is_every_one_persisted"), [(0.0, True), (0.001, False)])
def test_cursors_are_persisted_at_the_rate_of_the_namespace(
    admin: Admin, client: WireClient, persisted_per_s: float, is_every_one_persisted: bool
) -> None:
    topic = topic_of(admin, persisted_per_s=persisted_per_s)
    positions = write(client, topic, 5)
    consumer = subscribed(client, topic, permits=5)
    take(consumer, 5)
    consumer.ack([positions[0]])
    eventually(lambda: admin.internal_stats(topic).cursors["s"].state == "Open")
    before = persisted_states(admin, topic)
    for position in positions[1:]:
        consumer.ack([position])
    # The first one may still have been in flight: a cursor's ledger begins with the state before it.
    is_each = becomes(
        lambda: persisted_states(admin, topic) >= before + 4, within_s=TIMEOUT_S if is_every_one_persisted else 1
    )
    assert is_each == is_every_one_persisted
    assert is_every_one_persisted or persisted_states(admin, topic) <= before + 1


def test_messages_before_a_position_can_be_expired(admin: Admin, client: WireClient, topic: str) -> None:
    positions = write(client, topic, 7)
    admin.create_subscription(topic, "s", earliest=True)
    admin.expire_up_to(topic, "s", positions[5])
    eventually(lambda: admin.internal_stats(topic).cursors["s"].mark_delete_position == str(positions[5]))
    assert admin.stats(topic).subscriptions["s"].total_expired == 6


def test_a_position_after_the_end_cannot_be_expired(admin: Admin, client: WireClient, topic: str) -> None:
    last = write(client, topic, 2)[-1]
    admin.create_subscription(topic, "s", earliest=True)
    with pytest.raises(AdminError) as refused:
        admin.expire_up_to(topic, "s", Position(last.ledger, last.entry + 5))
    assert refused.value.status == 409


def test_a_cursor_is_reset_to_the_publish_time_of_a_message(admin: Admin, client: WireClient, topic: str) -> None:
    positions = write(client, topic, 7)
    admin.create_subscription(topic, "s", earliest=False)
    published_ms = [admin.read_entry(topic, position).publish_time_ms for position in positions]
    assert published_ms == sorted(published_ms)
    admin.reset_cursor_to_time(topic, "s", published_ms[3])
    first = published_ms.index(published_ms[3])
    assert admin.stats(topic).subscriptions["s"].backlog == 7 - first


def test_only_fully_acknowledged_ledgers_are_trimmed(admin: Admin, client: WireClient) -> None:
    topic = topic_of(admin, persisted_per_s=0.0, is_kept=False)
    consumer = subscribed(client, topic, permits=12)  # before the messages: full ledgers without one are deleted
    positions = write(client, topic, 12)
    take(consumer, 12)
    consumer.ack(positions[:7])
    try:
        admin.trim(topic)
    except AdminError as error:
        if error.status in (404, 405):
            pytest.skip("this release cannot be asked to trim")
        raise

    def left() -> list[int]:
        admin.trim(topic)
        return [ledger.ledger_id for ledger in admin.internal_stats(topic).ledgers]

    eventually(lambda: left() == [positions[5].ledger, positions[10].ledger])
