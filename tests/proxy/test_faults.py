"""The effect of each network fault, on pulsar-client and on the wire client, with a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient, OfficialProducer
from conformance.clients.driver.interface import OfficialTicket
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import SendTicket, WireProducer
from conformance.clients.wire.read_log import read_log
from conformance.harness_error import HarnessError
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.events import ConnectionClosed, ConnectionRefused
from conformance.proxy.faults import (
    Corrupt,
    Cut,
    CutAfterBytes,
    DelayFrames,
    FewerIds,
    HoldFrames,
    Lose,
    OtherChunkId,
    OtherUuid,
    PayloadByte,
    Refuse,
    Repeat,
    Swap,
    Which,
)
from conformance.proxy.proxy import Proxy
from tests.waits import eventually

TIMEOUT_S = 20.0
A_WHILE_S = 0.3
SECOND_SEND = Which(kind="SEND", producer="p", nth=2)


def stored(client: WireClient, topic: str) -> list[int]:
    """The sequence ids in the log."""
    return [entry.sequence_id for entry in read_log(client, topic, timeout_s=TIMEOUT_S)]


def confirmed(producer: OfficialProducer, tickets: Sequence[OfficialTicket]) -> list[bool]:
    """Which of the sends were confirmed in the end."""
    return [isinstance(producer.answer(ticket, timeout_s=TIMEOUT_S), Receipt) for ticket in tickets]


def answered(producer: WireProducer, tickets: Sequence[SendTicket]) -> list[str]:
    """The outcomes of the sends, by name."""
    return [type(producer.answer(ticket, timeout_s=TIMEOUT_S)).__name__ for ticket in tickets]


# ------------------------------------------------------------------------------------------- effects on the clients


def test_after_a_lost_receipt_pulsar_client_resends_and_the_log_has_the_message_once(
    proxy: Proxy, events: EventBuffer, official: OfficialClient, client: WireClient, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    lost = proxy.inject(Lose(which=Which(kind="SEND_RECEIPT", producer="p", nth=2, count=3), then_cut=True))
    tickets = [producer.send(i, b"%d" % i) for i in range(1, 7)]
    assert confirmed(producer, tickets) == [True] * 6
    (_, _, last) = lost.await_fired(times=3, timeout_s=TIMEOUT_S)
    marked = [one for one in events.commands("SEND_RECEIPT") if one.fault == lost.number]
    assert [(one.sequence_id, one.passed_at_s) for one in marked] == [(2, None), (3, None), (4, None)]
    assert marked[-1].number == last.command
    assert [one.sequence_id for one in events.commands("SEND")].count(2) == 2, "it was resent"
    assert stored(client, topic) == [1, 2, 3, 4, 5, 6]


def test_a_connection_that_lost_a_receipt_ends_even_without_further_receipts(
    proxy: Proxy, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Lose(which=Which(kind="SEND_RECEIPT", nth=2, count=9), then_cut=True))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert answered(producer, tickets) == ["Receipt", "Lost", "Lost"]
    assert stored(client, topic) == [1, 2, 3]


def test_without_deduplication_a_lost_receipt_leads_to_a_duplicate(
    proxy: Proxy, official: OfficialClient, client: WireClient, admin: Admin
) -> None:
    namespace = f"public/proxy-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.create_topic(topic := f"persistent://{namespace}/t")
    producer = official.open_producer(topic, name="p")
    proxy.inject(Lose(which=Which(kind="SEND_RECEIPT", producer="p"), then_cut=True))
    assert confirmed(producer, [producer.send(1, b"x")]) == [True]
    assert stored(client, topic) == [1, 1]


@pytest.mark.parametrize(("where", "arrived"), [("before", [1]), ("within", [1]), ("after", [1, 2])])
def test_a_cut_at_a_send_stores_the_entries_before_it(
    proxy: Proxy, events: EventBuffer, wire: WireClient, client: WireClient, topic: str, where: str, arrived: list[int]
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    cut = proxy.inject(Cut(which=SECOND_SEND, where=where, within_bytes=30))  # type: ignore[arg-type]
    tickets = [producer.send(i, b"x" * 100) for i in (1, 2, 3)]
    assert answered(producer, tickets)[1:] == ["Lost", "Lost"]
    assert not producer.is_open
    eventually(lambda: stored(client, topic) == arrived)
    (fired,) = cut.fired
    (second,) = (one for one in events.commands("SEND") if one.number == fired.command)
    assert (second.sequence_id, second.passed_at_s is not None, second.fault) == (2, where == "after", cut.number)
    assert ConnectionClosed in {type(event) for event in events.events()}


@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_pulsar_client_reconnects_after_a_cut_and_every_message_is_stored_once_in_order(
    proxy: Proxy, official: OfficialClient, client: WireClient, topic: str, where: str
) -> None:
    producer = official.open_producer(topic, name="p")
    for nth in (2, 4):
        proxy.inject(Cut(which=Which(kind="SEND", nth=nth), where=where))  # type: ignore[arg-type]
    tickets = [producer.send(i, b"x") for i in range(1, 6)]
    assert confirmed(producer, tickets) == [True] * 5
    assert stored(client, topic) == [1, 2, 3, 4, 5]


def test_a_connection_ends_after_the_given_number_of_bytes(
    proxy: Proxy, events: EventBuffer, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    cut = proxy.inject(CutAfterBytes(direction="to-broker", size_bytes=2500))
    tickets = [producer.send(i, b"x" * 900) for i in (1, 2, 3, 4)]
    assert "Lost" in answered(producer, tickets)
    (fired,) = cut.await_fired(timeout_s=TIMEOUT_S)
    (within,) = (one for one in events.commands("SEND") if one.number == fired.command)
    assert (within.sequence_id, within.passed_at_s) == (3, None)
    eventually(lambda: stored(client, topic) == [1, 2])


def test_the_message_of_a_lost_ack_is_redelivered(
    proxy: Proxy, events: EventBuffer, official: OfficialClient, admin: Admin, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    assert confirmed(producer, [producer.send(1, b"x")]) == [True]
    consumer = official.subscribe(topic, "s", kind="Shared", initial="earliest")
    first = consumer.receive(timeout_s=TIMEOUT_S)
    assert first is not None
    lost = proxy.inject(Lose(which=Which(kind="ACK")))
    consumer.ack(first)
    (fired,) = lost.await_fired(timeout_s=TIMEOUT_S)
    (ack,) = (one for one in events.commands("ACK") if one.number == fired.command)
    assert ack.positions == (first.position,)
    proxy.cut()
    again = consumer.receive(timeout_s=TIMEOUT_S)
    assert again is not None
    assert again.position == first.position
    consumer.ack(again)
    eventually(lambda: admin.stats(topic).subscriptions["s"].backlog == 0)


def test_held_commands_continue_in_order_when_released(
    proxy: Proxy, events: EventBuffer, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    held = proxy.inject(HoldFrames(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert isinstance(producer.answer(tickets[0], timeout_s=TIMEOUT_S), Receipt)
    held.await_fired(timeout_s=TIMEOUT_S)
    with pytest.raises(NoAnswer):
        producer.answer(tickets[2], timeout_s=A_WHILE_S)
    assert stored(client, topic) == [1]
    held.lift()
    assert answered(producer, tickets[1:]) == ["Receipt", "Receipt"]
    assert stored(client, topic) == [1, 2, 3]
    second = next(one for one in events.commands("SEND") if one.sequence_id == 2)
    assert second.passed_at_s is not None
    assert second.passed_at_s - second.came_at_s >= A_WHILE_S


def test_held_commands_never_arrive_if_the_connection_is_cut(
    proxy: Proxy, events: EventBuffer, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    held = proxy.inject(HoldFrames(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    producer.answer(tickets[0], timeout_s=TIMEOUT_S)
    held.await_fired(timeout_s=TIMEOUT_S)
    proxy.cut()
    held.lift()
    assert answered(producer, tickets[1:]) == ["Lost", "Lost"]
    has_passed = [one.passed_at_s is not None for one in events.commands("SEND")]
    assert has_passed in ([True, False, False], [True, False])  # the third may be cut off before the proxy has read it
    assert stored(client, topic) == [1]


def test_a_delayed_command_delays_all_commands_after_it(
    proxy: Proxy, events: EventBuffer, wire: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    delay = proxy.inject(DelayFrames(which=Which(kind="SEND_RECEIPT", nth=2), delay_s=A_WHILE_S))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert answered(producer, tickets) == ["Receipt"] * 3
    first, second, third = events.commands("SEND_RECEIPT")
    took_s = [(one.passed_at_s or 0.0) - one.came_at_s for one in (first, second)]
    assert took_s[0] < A_WHILE_S <= took_s[1]
    assert (second.fault, third.fault) == (delay.number, None)
    assert (third.passed_at_s or 0.0) >= (second.passed_at_s or 0.0)


def test_a_slow_direction_is_slow_until_the_fault_is_lifted(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    slow = proxy.inject(DelayFrames(which=Which(direction="to-client", count=None), delay_s=A_WHILE_S))
    for is_slow in (True, True, False):
        began = time.monotonic()
        assert answered(producer, [producer.send(1, b"x")]) == ["Receipt"]
        assert (time.monotonic() - began >= A_WHILE_S) == is_slow
        if len(slow.fired) == 2:
            slow.lift()


def test_connections_are_refused_as_often_as_requested(proxy: Proxy, events: EventBuffer, topic: str) -> None:
    refused = proxy.inject(Refuse(connections=2))
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)
    client = WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)
    client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    assert len(refused.fired) == 2
    assert sum(isinstance(event, ConnectionRefused) for event in events.events()) == 2
    client.abort()


def test_pulsar_client_reconnects_when_connections_are_accepted_again(
    proxy: Proxy, official: OfficialClient, client: WireClient, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    refused = proxy.inject(Refuse(for_s=A_WHILE_S))
    proxy.cut()
    tickets = [producer.send(i, b"x") for i in (1, 2)]
    assert confirmed(producer, tickets) == [True, True]
    assert refused.fired
    assert stored(client, topic) == [1, 2]


# ------------------------------------------------------------------------------------------- seeded defects on the wire


def test_a_repeated_send_is_stored_once_with_deduplication(
    proxy: Proxy, events: EventBuffer, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    repeated = proxy.inject(Repeat(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    answered(producer, tickets)  # the receipt of the second one and the repetition's error may arrive in either order
    assert stored(client, topic) == [1, 2, 3]
    assert [one.fault for one in events.commands("SEND")] == [None, repeated.number, repeated.number, None]
    eventually(lambda: len(events.commands("SEND_RECEIPT", "SEND_ERROR")) == 4)


def test_a_repeated_message_is_delivered_twice(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    answered(producer, [producer.send(1, b"x")])
    proxy.inject(Repeat(which=Which(kind="MESSAGE", consumer="c")))
    consumer = wire.subscribe(topic, "s", kind="Shared", initial="earliest", consumer_name="c", timeout_s=TIMEOUT_S)
    consumer.flow(10)
    deliveries = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(2)]
    assert len({delivery.position for delivery in deliveries if delivery is not None}) == 1


def test_swapped_sends_are_stored_in_the_other_order(
    proxy: Proxy, wire: WireClient, client: WireClient, admin: Admin
) -> None:
    namespace = f"public/proxy-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.create_topic(topic := f"persistent://{namespace}/t")
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Swap(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert answered(producer, tickets) == ["Receipt"] * 3
    assert stored(client, topic) == [1, 3, 2]


def test_a_send_is_swapped_with_the_next_one_of_another_producer(
    proxy: Proxy, wire: WireClient, client: WireClient, admin: Admin
) -> None:
    namespace = f"public/proxy-{uuid.uuid4().hex[:8]}"
    admin.create_namespace(namespace)
    admin.create_topic(topic := f"persistent://{namespace}/t")
    first, second = (wire.open_producer(topic, name=name, timeout_s=TIMEOUT_S) for name in "pq")
    proxy.inject(Swap(which=Which(kind="SEND", producer="p", count=None), behind=Which(kind="SEND", producer="q")))
    tickets = [first.send(1, b"x"), first.send(2, b"x"), second.send(3, b"x")]
    second.answer(tickets[2], timeout_s=TIMEOUT_S)
    assert answered(first, tickets[:2]) == ["Receipt"] * 2
    assert stored(client, topic) == [2, 3, 1], "of two that match, the first one waits"


def test_an_ack_of_few_entries_is_left_unchanged(proxy: Proxy, wire: WireClient, admin: Admin, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    answered(producer, [producer.send(i, b"x") for i in (1, 2, 3)])
    consumer = wire.subscribe(topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    consumer.flow(3)
    positions = [one.position for _ in range(3) if (one := consumer.receive(timeout_s=TIMEOUT_S)) is not None]
    proxy.inject(Corrupt(which=Which(kind="ACK", count=None), change=FewerIds(of_at_least=2)))
    consumer.ack(positions[:1], timeout_s=TIMEOUT_S)
    assert admin.stats(topic).subscriptions["s"].backlog == 2
    consumer.ack(positions[1:], timeout_s=TIMEOUT_S)
    assert admin.stats(topic).subscriptions["s"].backlog == 1


def test_a_lost_send_is_not_stored(proxy: Proxy, wire: WireClient, client: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Lose(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert isinstance(producer.answer(tickets[2], timeout_s=TIMEOUT_S), Receipt)
    assert tickets[1].outcome is None
    assert stored(client, topic) == [1, 3]


@pytest.mark.parametrize("mended", [True, False])
def test_a_corrupted_payload_passes_the_brokers_checksum_only_if_mended(
    proxy: Proxy, wire: WireClient, client: WireClient, topic: str, mended: bool
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Corrupt(which=Which(kind="SEND"), change=PayloadByte(at=-1, flipped=1), mended=mended))
    outcome = producer.answer(producer.send(1, b"ab"), timeout_s=TIMEOUT_S)
    payloads = [payload for entry in read_log(client, topic, timeout_s=TIMEOUT_S) for _, payload in entry.messages]
    if mended:
        assert isinstance(outcome, Receipt)
        assert payloads == [b"ac"]
    else:
        assert isinstance(outcome, SendError)
        assert outcome.code == "ChecksumError"
        assert payloads == []


@pytest.mark.parametrize("change", [OtherChunkId(chunk_id=7), OtherUuid(uuid="another")])
def test_a_chunk_gets_another_chunk_id_or_uuid(
    proxy: Proxy, official: OfficialClient, client: WireClient, topic: str, change: OtherChunkId | OtherUuid
) -> None:
    producer = official.open_producer(topic, name="p", chunking=True)
    proxy.inject(Corrupt(which=Which(kind="SEND", chunk_id=1), change=change))
    payload = b"0123456789" * 2500
    assert confirmed(producer, [producer.send(1, payload)]) == [True]
    entries = read_log(client, topic, timeout_s=TIMEOUT_S)
    ids = [entry.metadata.chunk_id for entry in entries]
    uuids = [entry.metadata.uuid for entry in entries]
    assert b"".join(part for entry in entries for _, part in entry.messages) == payload
    if isinstance(change, OtherChunkId):
        assert (ids, len(set(uuids))) == ([0, 7, 2], 1)
    else:
        assert (ids, uuids[1]) == ([0, 1, 2], "another")


def test_a_message_with_a_chunk_lost_before_the_consumer_is_not_delivered(
    proxy: Proxy, official: OfficialClient, topic: str
) -> None:
    producer = official.open_producer(topic, name="p", chunking=True)
    assert confirmed(producer, [producer.send(1, b"0123456789" * 2500), producer.send(2, b"small")]) == [True, True]
    lost = proxy.inject(Lose(which=Which(kind="MESSAGE", chunk_id=1)))
    consumer = official.subscribe(topic, "s", kind="Exclusive", initial="earliest")
    delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    assert delivery.payload == b"small"
    assert lost.fired


def test_an_ack_can_lose_some_of_its_entries(proxy: Proxy, wire: WireClient, admin: Admin, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    answered(producer, [producer.send(i, b"x") for i in (1, 2, 3)])
    consumer = wire.subscribe(topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    consumer.flow(3)
    deliveries = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(3)]
    proxy.inject(Corrupt(which=Which(kind="ACK"), change=FewerIds(count=2)))
    consumer.ack([delivery.position for delivery in deliveries if delivery is not None], timeout_s=TIMEOUT_S)
    assert admin.stats(topic).subscriptions["s"].backlog == 2


# ------------------------------------------------------------------------------------------------- setting and lifting


def test_a_fault_affects_only_the_commands_that_it_selects(
    proxy: Proxy, wire: WireClient, client: WireClient, topic: str
) -> None:
    producers = [wire.open_producer(topic, name=name, timeout_s=TIMEOUT_S) for name in ("p", "q")]
    lost = proxy.inject(Lose(which=Which(kind="SEND", producer="q", nth=2, count=2)))
    lasts = []
    for producer in producers:
        lasts.append([producer.send(i, b"x") for i in (1, 2, 3, 4)][-1])
    assert [answered(producer, [last]) for producer, last in zip(producers, lasts, strict=True)] == [["Receipt"]] * 2
    assert sorted(stored(client, topic)) == [1, 1, 2, 3, 4, 4]
    assert len(lost.fired) == 2


def test_a_lifted_fault_has_no_further_effect(proxy: Proxy, wire: WireClient, client: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    lost = proxy.inject(Lose(which=Which(kind="SEND", count=None)))
    producer.send(1, b"x")
    lost.await_fired(timeout_s=TIMEOUT_S)
    proxy.lift_all()
    assert answered(producer, [producer.send(2, b"x")]) == ["Receipt"]
    assert stored(client, topic) == [2]


def test_lifting_all_faults_releases_held_commands(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    held = proxy.inject(HoldFrames(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    held.await_fired(timeout_s=TIMEOUT_S)
    proxy.lift_all()
    assert answered(producer, tickets) == ["Receipt"] * 3


def test_a_fault_that_has_no_effect_in_time_is_a_harness_error(proxy: Proxy) -> None:
    with pytest.raises(HarnessError, match="acted 0 times"):
        proxy.inject(Lose(which=Which(kind="SEND"))).await_fired(timeout_s=0.01)


@pytest.mark.parametrize(
    "fault",
    [
        Lose(which=Which(kind="SENT")),
        Lose(which=Which(nth=0)),
        HoldFrames(which=Which(count=0)),
        DelayFrames(which=Which(), delay_s=0.0),
        DelayFrames(which=Which(), delay_s=float("inf")),
        Cut(which=Which(), where="within", within_bytes=0),
        Repeat(which=Which(), times=0),
        CutAfterBytes(direction="to-broker", size_bytes=0),
        Refuse(connections=0),
        Refuse(for_s=-1.0),
    ],
)
def test_a_fault_that_could_never_take_effect_is_a_harness_error(proxy: Proxy, fault: Lose) -> None:
    with pytest.raises(HarnessError, match="no "):
        proxy.inject(fault)


def test_a_send_whose_receipt_was_lost_has_a_lost_outcome(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Lose(which=Which(kind="SEND_RECEIPT"), then_cut=True))
    assert isinstance(producer.answer(producer.send(1, b"x"), timeout_s=TIMEOUT_S), Lost)
