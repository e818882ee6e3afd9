"""The events that the proxy records are what was sent and received."""

from __future__ import annotations

from conformance.clients.admin.client import Admin
from conformance.clients.driver.client import OfficialClient
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import read_log
from conformance.lockstep.cursors.consumers import WireMember
from conformance.lockstep.positions import Positions
from conformance.lockstep.settings.traits import Traits
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.events import ChunkFields, ConnectionClosed, ConnectionOpened
from conformance.proxy.frame_reader import payload_digest
from conformance.proxy.proxy import Proxy
from model.log import Position
from model.subscription_operations import Subscribe
from tests.waits import TIMEOUT_S, eventually

LARGE = bytes(range(256)) * 100
"""Two and a half times the maximum message size of the tests' brokers."""


def test_the_events_of_a_producer_are_its_sends_and_their_answers(
    wire: WireClient, events: EventBuffer, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    outcomes = [producer.answer(producer.send(i, b"%d" % i), timeout_s=TIMEOUT_S) for i in (3, 5, 5)]
    (opening,) = events.commands("PRODUCER")
    (opened,) = events.commands("PRODUCER_SUCCESS")
    sends, receipts = events.commands("SEND"), events.commands("SEND_RECEIPT")
    assert (opening.producer, opening.topic, opening.request_id) == ("p", topic, opened.request_id)
    assert (opened.producer, opened.sequence_id, opened.direction) == ("p", -1, "to-client")
    assert [(one.producer, one.topic, one.sequence_id, one.digest) for one in sends] == [
        ("p", topic, i, payload_digest(b"%d" % i)) for i in (3, 5, 5)
    ]
    assert [Receipt(one.sequence_id or 0, 0, one.positions[0]) for one in receipts] == [
        Receipt(one.sequence_id, 0, one.position) for one in outcomes if isinstance(one, Receipt)
    ]
    assert receipts[-1].positions == (None,), "the last one is a duplicate"
    for send, receipt in zip(sends, receipts, strict=True):
        assert send.passed_at_s is not None
        assert receipt.passed_at_s is not None
        assert send.came_at_s <= send.passed_at_s <= receipt.came_at_s <= receipt.passed_at_s


def test_the_events_of_a_consumer_are_its_deliveries_and_acks(
    wire: WireClient, events: EventBuffer, topic: str
) -> None:
    producer = wire.open_producer(topic, name="p", timeout_s=TIMEOUT_S)
    for i in (1, 2, 3):
        producer.answer(producer.send(i, b"%d" % i), timeout_s=TIMEOUT_S)
    consumer = wire.subscribe(topic, "s", kind="Shared", initial="earliest", consumer_name="c", timeout_s=TIMEOUT_S)
    consumer.flow(3)
    deliveries = [consumer.receive(timeout_s=TIMEOUT_S) for _ in range(3)]
    positions = [delivery.position for delivery in deliveries if delivery is not None]
    consumer.ack(positions[:2], timeout_s=TIMEOUT_S)
    consumer.redeliver(positions[2:])
    eventually(lambda: events.commands("REDELIVER_UNACKNOWLEDGED_MESSAGES"))
    messages = events.commands("MESSAGE")[:3]
    assert [(one.consumer, one.topic, one.producer, one.sequence_id, one.positions[0]) for one in messages] == [
        ("c", topic, "p", i, position) for i, position in enumerate(positions, 1)
    ]
    (flow,) = events.commands("FLOW")
    (ack,) = events.commands("ACK")
    (acked,) = events.commands("ACK_RESPONSE")
    (again,) = events.commands("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert (flow.consumer, flow.permits) == ("c", 3)
    assert (ack.positions, ack.is_cumulative, ack.request_id) == (tuple(positions[:2]), False, acked.request_id)
    assert (again.consumer, again.positions) == ("c", tuple(positions[2:]))


def test_a_member_waits_until_the_broker_has_processed_its_redelivery_request(
    proxy: Proxy, admin: Admin, events: EventBuffer, topic: str
) -> None:
    taking, traits = Subscribe("c1", "t0", "s", kind="Shared"), Traits.of(admin.runtime_configuration())
    member = WireMember(proxy.service, taking, topic, "c1", Positions(), traits)
    member.redeliver(None)
    pongs = events.commands("PONG")
    member.close()
    (asked,) = events.commands("REDELIVER_UNACKNOWLEDGED_MESSAGES")
    assert any(pong.direction == "to-client" and pong.number > asked.number for pong in pongs)


def test_a_look_up_is_recorded_with_its_topic(official: OfficialClient, events: EventBuffer, topic: str) -> None:
    official.open_producer(topic, name="p")
    assert {one.topic for kind in ("PARTITIONED_METADATA", "LOOKUP") for one in events.commands(kind)} == {topic}


def test_the_chunks_of_pulsar_client_are_recorded_with_their_ids(
    official: OfficialClient, client: WireClient, events: EventBuffer, topic: str
) -> None:
    producer = official.open_producer(topic, name="p", chunking=True)
    outcome = producer.answer(producer.send(7, LARGE), timeout_s=TIMEOUT_S)
    consumer = official.subscribe(topic, "s", kind="Exclusive", initial="earliest")
    delivery = consumer.receive(timeout_s=TIMEOUT_S)
    assert delivery is not None
    assert delivery.payload == LARGE
    assert isinstance(outcome, Receipt)
    sends = events.commands("SEND")
    uuid = sends[0].chunk.uuid if sends[0].chunk is not None else ""
    assert [one.chunk for one in sends] == [ChunkFields(uuid, i, 3, len(LARGE)) for i in range(3)]
    assert [one.chunk for one in events.commands("MESSAGE")] == [one.chunk for one in sends]
    assert [one.digest for one in events.commands("MESSAGE")] == [one.digest for one in sends]
    entries = read_log(client, topic, timeout_s=TIMEOUT_S)
    assert [one.positions[0] for one in events.commands("SEND_RECEIPT")] == [entry.position for entry in entries]


def test_connections_are_recorded_with_the_ports_that_both_sides_see(
    proxy: Proxy, events: EventBuffer, admin: Admin, client: WireClient, topic: str
) -> None:
    through = WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)
    consumers = [
        one.subscribe(topic, "s", kind="Shared", consumer_name=name, timeout_s=TIMEOUT_S)
        for one, name in ((through, "through"), (client, "past"))
    ]
    opened = [event for event in events.events() if isinstance(event, ConnectionOpened)][-1]
    assert opened.client_port == through.port
    seen = {one.consumer_name: one.address for one in admin.stats(topic).subscriptions["s"].consumers}
    assert seen["through"] == f"/127.0.0.1:{opened.broker_port}"
    assert (proxy.carries(seen["through"]), proxy.carries(seen["past"])) == (True, False)
    through.abort()
    eventually(lambda: any(isinstance(event, ConnectionClosed) and event.by == "client" for event in events.events()))
    assert consumers[1].is_open


def test_the_events_of_several_clients_are_kept_apart(proxy: Proxy, events: EventBuffer, topic: str) -> None:
    clients = [WireClient.connect(proxy.url, timeout_s=TIMEOUT_S) for _ in range(4)]
    producers = [one.open_producer(topic, name=f"p{number}", timeout_s=TIMEOUT_S) for number, one in enumerate(clients)]
    tickets = [(producer, producer.send(i, b"x")) for i in range(1, 20) for producer in producers]
    positions: dict[tuple[str, int], Position | None] = {}
    for producer, ticket in tickets:
        outcome = producer.answer(ticket, timeout_s=TIMEOUT_S)
        assert isinstance(outcome, Receipt)
        positions[producer.name, ticket.sequence_id] = outcome.position
    told = {(one.producer, one.sequence_id): one.positions[0] for one in events.commands("SEND_RECEIPT")}
    assert told == positions
    assert len({one.connection for one in events.commands("SEND")}) == len(clients)
    for one in clients:
        one.abort()


def test_an_event_buffer_keeps_the_last_events_and_counts_all() -> None:
    events = EventBuffer(2)
    for number in (1, 2, 3):
        events(ConnectionClosed(connection=number, at_s=0.0, by="proxy"))
    assert [event.connection for event in events.events() if isinstance(event, ConnectionClosed)] == [2, 3]
    assert events.count == 3
