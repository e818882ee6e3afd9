"""Each fault does what it says, to pulsar-client and to the wire client, on a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient, OfficialProducer, OfficialTicket
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import SendTicket, WireProducer
from conformance.clients.wire.read_log import read_log
from conformance.harness_error import HarnessError
from conformance.proxy.event_buffer import Ring
from conformance.proxy.events import Closed, TurnedAway
from conformance.proxy.faults import (
    Corrupt,
    Cut,
    CutAfterBytes,
    Delay,
    FewerIds,
    Hold,
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
from tests.polling import eventually

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
    """What became of the sends, by the names of the outcomes."""
    return [type(producer.answer(ticket, timeout_s=TIMEOUT_S)).__name__ for ticket in tickets]


# ------------------------------------------------------------------------------------------------------- to the clients


def test_after_a_lost_confirmation_pulsar_client_sends_again_and_the_log_has_it_once(
    proxy: Proxy, ring: Ring, official: OfficialClient, client: WireClient, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    lost = proxy.inject(Lose(which=Which(kind="SEND_RECEIPT", producer="p", nth=2, count=3), then_cut=True))
    tickets = [producer.send(i, b"%d" % i) for i in range(1, 7)]
    assert confirmed(producer, tickets) == [True] * 6
    (_, _, last) = lost.await_fired(times=3, timeout_s=TIMEOUT_S)
    marked = [one for one in ring.commands("SEND_RECEIPT") if one.fault == lost.number]
    assert [(one.sequence_id, one.passed_at_s) for one in marked] == [(2, None), (3, None), (4, None)]
    assert marked[-1].number == last.command
    assert [one.sequence_id for one in ring.commands("SEND")].count(2) == 2, "it was sent again"
    assert stored(client, topic) == [1, 2, 3, 4, 5, 6]


def test_a_connection_that_lost_something_ends_though_no_more_comes_that_is_to_be_lost(
    proxy: Proxy, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Lose(which=Which(kind="SEND_RECEIPT", nth=2, count=9), then_cut=True))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert answered(producer, tickets) == ["Receipt", "Lost", "Lost"]
    assert stored(client, topic) == [1, 2, 3]


def test_without_deduplication_a_lost_confirmation_leaves_it_twice(
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
def test_a_cut_at_a_send_leaves_what_was_sent_before_it(
    proxy: Proxy, ring: Ring, wire: WireClient, client: WireClient, topic: str, where: str, arrived: list[int]
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    cut = proxy.inject(Cut(which=SECOND_SEND, where=where, within_bytes=30))  # type: ignore[arg-type]
    tickets = [producer.send(i, b"x" * 100) for i in (1, 2, 3)]
    assert answered(producer, tickets)[1:] == ["Lost", "Lost"]
    assert not producer.is_open
    eventually(lambda: stored(client, topic) == arrived)
    (fired,) = cut.fired
    (second,) = (one for one in ring.commands("SEND") if one.number == fired.command)
    assert (second.sequence_id, second.passed_at_s is not None, second.fault) == (2, where == "after", cut.number)
    assert Closed in {type(event) for event in ring.events()}


@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_pulsar_client_comes_back_after_a_cut_and_every_message_is_there_once_in_order(
    proxy: Proxy, official: OfficialClient, client: WireClient, topic: str, where: str
) -> None:
    producer = official.open_producer(topic, name="p")
    for nth in (2, 4):
        proxy.inject(Cut(which=Which(kind="SEND", nth=nth), where=where))  # type: ignore[arg-type]
    tickets = [producer.send(i, b"x") for i in range(1, 6)]
    assert confirmed(producer, tickets) == [True] * 5
    assert stored(client, topic) == [1, 2, 3, 4, 5]


def test_a_connection_ends_after_so_many_bytes(
    proxy: Proxy, ring: Ring, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    cut = proxy.inject(CutAfterBytes(direction="to-broker", size_bytes=2500))
    tickets = [producer.send(i, b"x" * 900) for i in (1, 2, 3, 4)]
    assert "Lost" in answered(producer, tickets)
    (fired,) = cut.await_fired(timeout_s=TIMEOUT_S)
    (within,) = (one for one in ring.commands("SEND") if one.number == fired.command)
    assert (within.sequence_id, within.passed_at_s) == (3, None)
    eventually(lambda: stored(client, topic) == [1, 2])


def test_a_lost_ack_leaves_a_message_to_be_delivered_again(
    proxy: Proxy, ring: Ring, official: OfficialClient, admin: Admin, topic: str
) -> None:
    producer = official.open_producer(topic, name="p")
    assert confirmed(producer, [producer.send(1, b"x")]) == [True]
    consumer = official.subscribe(topic, "s", kind="Shared", initial="earliest")
    first = consumer.receive(timeout_s=TIMEOUT_S)
    assert first is not None
    lost = proxy.inject(Lose(which=Which(kind="ACK")))
    consumer.ack(first)
    (fired,) = lost.await_fired(timeout_s=TIMEOUT_S)
    (ack,) = (one for one in ring.commands("ACK") if one.number == fired.command)
    assert ack.positions == (first.position,)
    proxy.cut()
    again = consumer.receive(timeout_s=TIMEOUT_S)
    assert again is not None
    assert again.position == first.position
    consumer.ack(again)
    eventually(lambda: admin.stats(topic).subscriptions["s"].backlog == 0)


def test_what_is_held_goes_on_when_it_is_released_and_in_order(
    proxy: Proxy, ring: Ring, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    held = proxy.inject(Hold(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert isinstance(producer.answer(tickets[0], timeout_s=TIMEOUT_S), Receipt)
    held.await_fired(timeout_s=TIMEOUT_S)
    with pytest.raises(NoAnswer):
        producer.answer(tickets[2], timeout_s=A_WHILE_S)
    assert stored(client, topic) == [1]
    held.lift()
    assert answered(producer, tickets[1:]) == ["Receipt", "Receipt"]
    assert stored(client, topic) == [1, 2, 3]
    second = next(one for one in ring.commands("SEND") if one.sequence_id == 2)
    assert second.passed_at_s is not None
    assert second.passed_at_s - second.came_at_s >= A_WHILE_S


def test_what_is_held_when_the_connection_is_cut_never_arrives(
    proxy: Proxy, ring: Ring, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    held = proxy.inject(Hold(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    producer.answer(tickets[0], timeout_s=TIMEOUT_S)
    held.await_fired(timeout_s=TIMEOUT_S)
    proxy.cut()
    held.lift()
    assert answered(producer, tickets[1:]) == ["Lost", "Lost"]
    has_passed = [one.passed_at_s is not None for one in ring.commands("SEND")]
    assert has_passed in ([True, False, False], [True, False])  # the third may be cut off before the proxy has read it
    assert stored(client, topic) == [1]


def test_a_delayed_command_and_all_behind_it_come_later(proxy: Proxy, ring: Ring, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    delay = proxy.inject(Delay(which=Which(kind="SEND_RECEIPT", nth=2), delay_s=A_WHILE_S))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    assert answered(producer, tickets) == ["Receipt"] * 3
    first, second, third = ring.commands("SEND_RECEIPT")
    took_s = [(one.passed_at_s or 0.0) - one.came_at_s for one in (first, second)]
    assert took_s[0] < A_WHILE_S <= took_s[1]
    assert (second.fault, third.fault) == (delay.number, None)
    assert (third.passed_at_s or 0.0) >= (second.passed_at_s or 0.0)


def test_a_slow_direction_is_slow_until_the_fault_is_lifted(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    slow = proxy.inject(Delay(which=Which(direction="to-client", count=None), delay_s=A_WHILE_S))
    for is_slow in (True, True, False):
        began = time.monotonic()
        assert answered(producer, [producer.send(1, b"x")]) == ["Receipt"]
        assert (time.monotonic() - began >= A_WHILE_S) == is_slow
        if len(slow.fired) == 2:
            slow.lift()


def test_who_comes_is_turned_away_as_often_as_asked_for(proxy: Proxy, ring: Ring, topic: str) -> None:
    refused = proxy.inject(Refuse(connections=2))
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)
    client = WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)
    client.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    assert len(refused.fired) == 2
    assert sum(isinstance(event, TurnedAway) for event in ring.events()) == 2
    client.abort()


def test_pulsar_client_comes_back_when_it_is_let_in_again(
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
    proxy: Proxy, ring: Ring, wire: WireClient, client: WireClient, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    repeated = proxy.inject(Repeat(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    answered(producer, tickets)  # the second one's confirmation and the repetition's error may come in either order
    assert stored(client, topic) == [1, 2, 3]
    assert [one.fault for one in ring.commands("SEND")] == [None, repeated.number, repeated.number, None]
    eventually(lambda: len(ring.commands("SEND_RECEIPT", "SEND_ERROR")) == 4)


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


def test_a_send_is_swapped_with_the_next_one_of_another_kind(
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
    assert stored(client, topic) == [2, 3, 1], "of two that are to wait, the first does"


def test_an_ack_of_few_entries_is_left_alone(proxy: Proxy, wire: WireClient, admin: Admin, topic: str) -> None:
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
def test_a_corrupted_payload_passes_the_brokers_checksum_only_if_that_is_mended(
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
def test_a_chunk_says_that_it_is_another_one(
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


def test_a_chunk_that_is_lost_on_its_way_to_the_consumer_keeps_the_message_back(
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


def test_an_ack_says_less_than_the_client_said(proxy: Proxy, wire: WireClient, admin: Admin, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    answered(producer, [producer.send(i, b"x") for i in (1, 2, 3)])
    consumer = wire.subscribe(topic, "s", kind="Shared", initial="earliest", timeout_s=TIMEOUT_S)
    consumer.flow(3)
    deliveries = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(3)]
    proxy.inject(Corrupt(which=Which(kind="ACK"), change=FewerIds(count=2)))
    consumer.ack([delivery.position for delivery in deliveries if delivery is not None], timeout_s=TIMEOUT_S)
    assert admin.stats(topic).subscriptions["s"].backlog == 2


# ------------------------------------------------------------------------------------------------- setting and lifting


def test_a_fault_acts_on_the_commands_that_it_names_and_no_others(
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


def test_what_is_lifted_acts_no_more(proxy: Proxy, wire: WireClient, client: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    lost = proxy.inject(Lose(which=Which(kind="SEND", count=None)))
    producer.send(1, b"x")
    lost.await_fired(timeout_s=TIMEOUT_S)
    proxy.lift_all()
    assert answered(producer, [producer.send(2, b"x")]) == ["Receipt"]
    assert stored(client, topic) == [2]


def test_lifting_all_lets_go_on_what_is_held(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    held = proxy.inject(Hold(which=SECOND_SEND))
    tickets = [producer.send(i, b"x") for i in (1, 2, 3)]
    held.await_fired(timeout_s=TIMEOUT_S)
    proxy.lift_all()
    assert answered(producer, tickets) == ["Receipt"] * 3


def test_a_fault_that_does_not_act_in_time_is_harness_error(proxy: Proxy) -> None:
    with pytest.raises(HarnessError, match="acted 0 times"):
        proxy.inject(Lose(which=Which(kind="SEND"))).await_fired(timeout_s=0.01)


@pytest.mark.parametrize(
    "fault",
    [
        Lose(which=Which(kind="SENT")),
        Lose(which=Which(nth=0)),
        Hold(which=Which(count=0)),
        Delay(which=Which(), delay_s=0.0),
        Delay(which=Which(), delay_s=float("inf")),
        Cut(which=Which(), where="within", within_bytes=0),
        Repeat(which=Which(), times=0),
        CutAfterBytes(direction="to-broker", size_bytes=0),
        Refuse(connections=0),
        Refuse(for_s=-1.0),
    ],
)
def test_a_fault_that_could_never_act_is_harness_error(proxy: Proxy, fault: Lose) -> None:
    with pytest.raises(HarnessError, match="no "):
        proxy.inject(fault)


def test_an_outcome_that_the_client_never_learned_is_lost_to_it(proxy: Proxy, wire: WireClient, topic: str) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    proxy.inject(Lose(which=Which(kind="SEND_RECEIPT"), then_cut=True))
    assert isinstance(producer.answer(producer.send(1, b"x"), timeout_s=TIMEOUT_S), Lost)
