"""Producer and consumer handles: the same calls have the same effects with the wire client and with pulsar-client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.applications.remote_producer import RemoteProducerHandle
from conformance.brokers.interface import Broker
from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient
from conformance.clients.handles import (
    ConsumerHandle,
    OfficialConsumerHandle,
    OfficialProducerHandle,
    ProducerHandle,
    ReceivedMessage,
    SubscriptionConfig,
    WireProducerHandle,
    open_consumer,
)
from conformance.clients.outcomes import Receipt, ServerRefused
from conformance.workers.protocol import Report, read_report
from conformance.workers.starter import Starter
from model.vocabulary import Client
from tests.waits import TIMEOUT_S, eventually

CLIENTS: tuple[Client, ...] = ("wire", "official")
PRODUCERS = ("wire", "official", "remote")


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter[Report]]:
    starter = Starter("conformance.applications", read_report)
    yield starter
    starter.close()


def opened(kind: str, broker: Broker, topic: str, starter: Starter[Report]) -> ProducerHandle:
    service = broker.addresses.service
    match kind:
        case "wire":
            return WireProducerHandle(service, topic, "p", timeout_s=TIMEOUT_S)
        case "official":
            return OfficialProducerHandle(service, topic, "p", timeout_s=TIMEOUT_S)
        case _:
            return RemoteProducerHandle(starter, service, topic, "p", timeout_s=TIMEOUT_S)


def consumer(client: Client, broker: Broker, topic: str, **options: object) -> ConsumerHandle:
    wanted = SubscriptionConfig(topic=topic, name="s", kind="Shared", **options)  # type: ignore[arg-type]
    return open_consumer(client, broker.addresses.service, wanted, timeout_s=TIMEOUT_S)


def received(handle: ConsumerHandle, count: int) -> list[ReceivedMessage]:
    messages = list[ReceivedMessage]()
    while len(messages) < count:
        message = handle.receive(timeout_s=TIMEOUT_S)
        assert message is not None, f"no message after {messages}"
        messages.append(message)
    return messages


def send(broker: Broker, topic: str, count: int) -> None:
    producer = WireProducerHandle(broker.addresses.service, topic, "sender", timeout_s=TIMEOUT_S)
    tickets = [producer.send(number + 1, b"%d" % number, partition_key="k") for number in range(count)]
    assert all(isinstance(ticket.wait(TIMEOUT_S), Receipt) for ticket in tickets)
    producer.close()


@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_send_has_a_receipt_and_its_repetition_is_a_duplicate(
    kind: str, broker: Broker, topic: str, starter: Starter[Report]
) -> None:
    producer = opened(kind, broker, topic, starter)
    assert producer.last_sequence_id == -1
    stored, again = (producer.send(5, b"x").wait(TIMEOUT_S) for _ in range(2))
    assert isinstance(stored, Receipt)
    assert stored.position is not None
    assert isinstance(again, Receipt)
    assert again.position is None
    producer.close()
    producer = opened(kind, broker, topic, starter)
    assert producer.last_sequence_id == 5
    producer.abort()


@pytest.mark.parametrize("kind", PRODUCERS)
def test_a_refused_producer_raises_and_leaves_no_connection(
    kind: str, broker: Broker, topic: str, starter: Starter[Report], admin: Admin
) -> None:
    first = opened("wire", broker, topic, starter)
    with pytest.raises(ServerRefused) as refused:
        opened(kind, broker, topic, starter)
    assert refused.value.code == "ProducerBusy"
    first.close()
    eventually(lambda: not admin.stats(topic).publishers)


@pytest.mark.parametrize("client", CLIENTS)
def test_only_acknowledged_messages_are_gone(client: Client, broker: Broker, topic: str, admin: Admin) -> None:
    handle = consumer(client, broker, topic)
    send(broker, topic, 3)
    messages = received(handle, 3)
    assert [message.payload for message in messages] == [b"0", b"1", b"2"]
    assert {message.key for message in messages} == {"k"}
    handle.ack(messages[:1])
    handle.ack(messages[2:])
    left = frozenset({messages[1].position})
    eventually(lambda: unacknowledged(admin.internal_stats(topic), "s") == left)
    handle.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_cumulative_ack_covers_everything_before_it(client: Client, broker: Broker, topic: str, admin: Admin) -> None:
    wanted = SubscriptionConfig(topic=topic, name="s", kind="Exclusive")
    handle = open_consumer(client, broker.addresses.service, wanted, timeout_s=TIMEOUT_S)
    send(broker, topic, 3)
    handle.ack(received(handle, 3)[1:2], cumulative=True)
    eventually(lambda: len(unacknowledged(admin.internal_stats(topic), "s")) == 1)
    handle.close()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("named", [True, False])
def test_a_nacked_message_is_redelivered(client: Client, named: bool, broker: Broker, topic: str) -> None:
    handle = consumer(client, broker, topic, nack_delay_s=0.1)
    send(broker, topic, 1)
    (first,) = received(handle, 1)
    handle.redeliver([first] if named else None)
    (again,) = received(handle, 1)
    assert (again.position, again.redelivery_count) == (first.position, 1)
    handle.abort()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_receives_more_than_it_prefetched(client: Client, broker: Broker, topic: str) -> None:
    handle = consumer(client, broker, topic, prefetch=4)
    send(broker, topic, 20)
    assert len(received(handle, 20)) == 20
    assert handle.receive(timeout_s=0.05) is None
    handle.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_aborting_a_consumer_redelivers_its_messages_to_others(
    client: Client, broker: Broker, topic: str, admin: Admin
) -> None:
    handle = consumer(client, broker, topic)
    send(broker, topic, 1)
    (first,) = received(handle, 1)
    handle.abort()
    eventually(lambda: not admin.stats(topic).subscriptions["s"].consumers)
    other = consumer(client, broker, topic)
    (again,) = received(other, 1)
    assert again.position == first.position
    other.close()


def test_handles_that_share_a_client_do_not_close_it(broker: Broker, topic: str) -> None:
    service = broker.addresses.service
    with OfficialClient(service, timeout_s=TIMEOUT_S) as client:
        producer = OfficialProducerHandle(service, topic, "p", timeout_s=TIMEOUT_S, client=client)
        wanted = SubscriptionConfig(topic=topic, name="s", kind="Shared")
        handle = OfficialConsumerHandle(service, wanted, timeout_s=TIMEOUT_S, client=client)
        producer.close()
        send(broker, topic, 1)
        assert len(received(handle, 1)) == 1
        handle.close()
        assert client.open_producer(topic, name="p").last_sequence_id == -1
