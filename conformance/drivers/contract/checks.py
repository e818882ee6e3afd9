"""The contract of drivers, one function for each part. It raises :class:`Broken` with the sentence on what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from conformance.clients.driver.interface import OfficialDelivery, OfficialTicket
from conformance.clients.driver.process import DriverProcess
from conformance.clients.driver.protocol import (
    FEATURES,
    Cancel,
    Cancelled,
    Done,
    Error,
    Feature,
    LastSequenceId,
    Message,
    Nothing,
    Receive,
)
from conformance.clients.driver.remote import RemoteClient, RemoteConsumer, RemoteProducer
from conformance.clients.outcomes import CLIENT_ERRORS, Lost, Receipt, SendError, ServerRefused
from conformance.clients.wire.frames import decode_batch
from conformance.drivers.contract.broker import MAX_MESSAGE_BYTES, FakeBroker
from conformance.wait import wait_until
from model.log import Position

TIMEOUT_S: Final = 10.0
"""How long a client may take for anything, its reconnects included."""
_SOON_MS: Final = 300
_LONG_MS: Final = 30_000
_EVERY_TIME: Final = 10_000
_LARGE: Final = bytes(range(256)) * (3 * MAX_MESSAGE_BYTES // 256)


class Broken(Exception):
    """The driver breaks its contract; the sentence goes on after the driver's name."""


@dataclass(frozen=True, slots=True)
class Fixture:
    """A driver, a fake broker, and a topic of its own for one check."""

    driver: DriverProcess
    broker: FakeBroker
    topic: str
    clients: list[RemoteClient] = field(default_factory=list)

    def client(self, timeout_s: float = TIMEOUT_S) -> RemoteClient:
        client = RemoteClient(self.driver, self.broker.url, timeout_s=timeout_s)
        self.clients.append(client)
        return client

    def producer(
        self, *, batching: bool = False, chunking: bool = False, send_timeout_s: float = 0.0
    ) -> RemoteProducer:
        return self.client().open_producer(
            self.topic, name="contract", batching=batching, chunking=chunking, send_timeout_s=send_timeout_s
        )

    def consumer(self, *, nack_delay_s: float = 60.0) -> RemoteConsumer:
        return self.client().subscribe(
            self.topic,
            "contract",
            kind="Shared",
            initial="earliest",
            nack_delay_s=nack_delay_s,
            consumer_name="consumer",
        )

    def await_so(self, is_so: Callable[[], bool], otherwise: str) -> None:
        if not wait_until(is_so, TIMEOUT_S):
            raise Broken(otherwise)


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the contract. ``feature``: only of drivers that declare it."""

    name: str
    run: Callable[[Fixture], None]
    feature: Feature | None = None


def demand(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise Broken(otherwise)


def confirmed(ticket: OfficialTicket, producer: RemoteProducer) -> Receipt:
    outcome = producer.answer(ticket, timeout_s=TIMEOUT_S)
    if not isinstance(outcome, Receipt):
        raise Broken(f"answers a send that the broker confirmed with: {outcome}")
    return outcome


def received(consumer: RemoteConsumer, what: str) -> OfficialDelivery:
    delivery = consumer.receive(timeout_s=TIMEOUT_S)
    if delivery is None:
        raise Broken(f"does not receive {what} within {TIMEOUT_S:g} s")
    return delivery


# ------------------------------------------------------------------------------------------------------- the protocol


def declares_itself(fixture: Fixture) -> None:
    hello = fixture.driver.hello
    demand(bool(hello.client and hello.version), "declares no client or no version in its hello")
    unknown = sorted(set(hello.features) - FEATURES)
    demand(not unknown, f"declares features that the protocol does not have: {', '.join(unknown)}")


def answers_out_of_order(fixture: Fixture) -> None:
    """A waiting receive must not hold up a send of another client of the driver."""
    waits = fixture.consumer()
    producer = fixture.client().open_producer(f"{fixture.topic}-another", name="contract")
    pending = fixture.driver.submit(waiting_receive(fixture, waits))
    ticket = producer.send(1, b"while another request waits")
    demand(ticket.wait(TIMEOUT_S) is not None, "does not confirm a send while a receive waits")
    demand(not pending.settled.is_set(), "answers a receive before a message arrived and before its deadline")
    fixture.broker.put(fixture.topic, b"now")
    fixture.driver.awaited(pending, (Message,), timeout_s=TIMEOUT_S)


def waiting_receive(fixture: Fixture, consumer: RemoteConsumer) -> Receive:
    return Receive(id=fixture.driver.new_id(), consumer=consumer.request_name, timeout_ms=_LONG_MS)


def cancels(fixture: Fixture) -> None:
    consumer = fixture.consumer()
    request = waiting_receive(fixture, consumer)
    pending = fixture.driver.submit(request)
    fixture.driver.ask(
        Cancel(id=fixture.driver.new_id(), request=request.id, timeout_ms=_LONG_MS), Done, timeout_s=TIMEOUT_S
    )
    fixture.driver.awaited(pending, (Cancelled,), timeout_s=TIMEOUT_S)
    fixture.broker.put(fixture.topic, b"after")
    demand(received(consumer, "a message after a cancelled receive").payload == b"after", "receives another message")


def keeps_deadlines(fixture: Fixture) -> None:
    consumer = fixture.consumer()
    began_s = time.monotonic()
    request = Receive(id=fixture.driver.new_id(), consumer=consumer.request_name, timeout_ms=_SOON_MS)
    fixture.driver.ask(request, Nothing, timeout_s=TIMEOUT_S)
    took_ms = (time.monotonic() - began_s) * 1000
    demand(took_ms >= _SOON_MS / 2, f"answers a receive of {_SOON_MS} ms with 'nothing' after {took_ms:.0f} ms")


def says_error(fixture: Fixture) -> None:
    """A request that it cannot perform is an error, and no client's no; it goes on afterwards."""
    request = LastSequenceId(id=fixture.driver.new_id(), producer="no such producer", timeout_ms=_LONG_MS)
    fixture.driver.answer(request, (Error,), timeout_s=TIMEOUT_S)
    fixture.client()


# ------------------------------------------------------------------------------------------------------------ producers


def produces(fixture: Fixture) -> None:
    producer = fixture.producer()
    demand(producer.name == "contract", f"opens a producer with the name {producer.name!r} instead of 'contract'")
    tickets = [producer.send(number, f"message {number}".encode()) for number in range(1, 21)]
    receipts = [confirmed(ticket, producer) for ticket in tickets]
    stored = fixture.broker.entries(fixture.topic)
    payloads = [bytes(one.payload) for one in stored]
    demand(payloads == [f"message {number}".encode() for number in range(1, 21)], f"sent other messages: {payloads}")
    positions = [receipt.position for receipt in receipts]
    demand(positions == [one.position for one in stored], f"confirms messages at other positions: {positions}")


def sends_sequence_ids(fixture: Fixture) -> None:
    producer = fixture.producer()
    for sequence_id in (3, 4, 17):
        confirmed(producer.send(sequence_id, b"message"), producer)
    sent = [one.metadata.sequence_id for one in fixture.broker.entries(fixture.topic)]
    demand(sent == [3, 4, 17], f"sent the sequence ids {sent} instead of 3, 4 and 17")


def confirms_duplicates(fixture: Fixture) -> None:
    producer = fixture.producer()
    confirmed(producer.send(5, b"first"), producer)
    another = fixture.client().open_producer(fixture.topic, name="contract")
    receipt = confirmed(another.send(5, b"again"), another)
    demand(receipt.position is None, f"confirms a duplicate at {receipt.position} instead of at -1:-1")


def says_last_sequence_id(fixture: Fixture) -> None:
    producer = fixture.producer()
    demand(producer.last_sequence_id == -1, f"opens a new producer with last sequence id {producer.last_sequence_id}")
    confirmed(producer.send(8, b"message"), producer)
    demand(producer.last_sequence_id == 8, f"says that the last sequence id is {producer.last_sequence_id}, not 8")
    another = fixture.client().open_producer(fixture.topic, name="contract")
    last = another.last_sequence_id
    demand(last == 8, f"opens a producer with last sequence id {last}, where the broker said 8")


def sends_keys_and_properties(fixture: Fixture) -> None:
    producer = fixture.producer()
    confirmed(producer.send(1, b"message", partition_key="key", properties={"a": "b"}), producer)
    metadata = fixture.broker.entries(fixture.topic)[0].metadata
    demand(metadata.partition_key == "key", f"sent the key {metadata.partition_key!r} instead of 'key'")
    properties = {one.key: one.value for one in metadata.properties}
    demand(properties == {"a": "b"}, f"sent the properties {properties} instead of a=b")


def sends_ordering_keys(fixture: Fixture) -> None:
    producer = fixture.producer()
    confirmed(producer.send(1, b"message", ordering_key="order"), producer)
    key = fixture.broker.entries(fixture.topic)[0].metadata.ordering_key
    demand(key == b"order", f"sent the ordering key {key!r} instead of 'order'")


def sends_batches(fixture: Fixture) -> None:
    producer = fixture.producer(batching=True)
    tickets = producer.send_batch([(1, b"one"), (2, b"two"), (3, b"three")])
    receipts = [confirmed(ticket, producer) for ticket in tickets]
    entries = fixture.broker.entries(fixture.topic)
    demand(len(entries) == 1, f"sent a batch of three messages as {len(entries)} entries")
    inside = [
        payload for _, payload in decode_batch(bytes(entries[0].payload), entries[0].metadata.num_messages_in_batch)
    ]
    demand(inside == [b"one", b"two", b"three"], f"sent another batch: {inside}")
    indexes = [receipt.batch_index for receipt in receipts]
    demand(indexes == [0, 1, 2], f"confirms the messages of a batch with the indexes {indexes}")


def sends_chunks(fixture: Fixture) -> None:
    producer = fixture.producer(chunking=True)
    confirmed(producer.send(1, _LARGE), producer)
    chunks = fixture.broker.entries(fixture.topic)
    demand(len(chunks) > 1, f"sent a message of {len(_LARGE)} bytes in one entry, over the limit of the broker")
    demand(b"".join(bytes(one.payload) for one in chunks) == _LARGE, "sent chunks that are not the message")
    delivery = received(fixture.consumer(), "a chunked message")
    demand(delivery.payload == _LARGE, f"receives {len(delivery.payload)} bytes of a chunked message, or others")


def passes_refusals_on(fixture: Fixture) -> None:
    """Refused until the client gives up: some clients retry even a busy producer or consumer."""
    fixture.broker.faults.refuse_producers = _EVERY_TIME
    try:
        fixture.client().open_producer(fixture.topic, name="contract")
    except ServerRefused as refused:
        demand(refused.code == "ProducerBusy", f"reports the broker's ProducerBusy as {refused.code}")
    else:
        raise Broken("opens a producer that the broker refused")
    fixture.broker.faults.refuse_consumers = _EVERY_TIME
    try:
        fixture.consumer()
    except ServerRefused as refused:
        demand(refused.code == "ConsumerBusy", f"reports the broker's ConsumerBusy as {refused.code}")
    else:
        raise Broken("subscribes a consumer that the broker refused")


def reports_failed_sends(fixture: Fixture) -> None:
    producer = fixture.producer(send_timeout_s=1.0)
    fixture.broker.faults.never_confirm = True
    outcome = producer.answer(producer.send(1, b"never confirmed"), timeout_s=2 * TIMEOUT_S)
    demand(isinstance(outcome, Lost | SendError), f"answers a send that was never confirmed with: {outcome}")
    demand(not isinstance(outcome, SendError) or outcome.code == "Timeout", f"a send timed out, and it says: {outcome}")


# ------------------------------------------------------------------------------------------------------------ consumers


def consumes(fixture: Fixture) -> None:
    consumer = fixture.consumer()
    position = fixture.broker.put(fixture.topic, b"\x00\xff message", properties={"a": "b"}, key="key")
    delivery = received(consumer, "a message")
    demand(delivery.payload == b"\x00\xff message", f"receives the payload {delivery.payload!r}")
    demand(delivery.position == position, f"receives a message at {delivery.position}, stored at {position}")
    demand(
        delivery.topic == fixture.topic, f"receives a message of the topic {delivery.topic!r}, not {fixture.topic!r}"
    )
    demand(delivery.key == "key", f"receives the key {delivery.key!r} instead of 'key'")
    demand(dict(delivery.properties) == {"a": "b"}, f"receives the properties {delivery.properties} instead of a=b")
    consumer.ack(delivery)
    acknowledged_at(fixture, {position}, "does not acknowledge a message")


def acknowledged_at(fixture: Fixture, wanted: set[Position], otherwise: str) -> None:
    fixture.await_so(lambda: fixture.broker.acknowledged(fixture.topic, "contract") == wanted, otherwise)


def receives_three(fixture: Fixture, consumer: RemoteConsumer) -> Sequence[OfficialDelivery]:
    for number in range(3):
        fixture.broker.put(fixture.topic, f"message {number}".encode())
    return [received(consumer, f"message {number} of 3") for number in range(3)]


def acknowledges_cumulatively(fixture: Fixture) -> None:
    consumer = fixture.client().subscribe(fixture.topic, "contract", kind="Exclusive", initial="earliest")
    messages = receives_three(fixture, consumer)
    consumer.ack_cumulative(messages[1])
    wanted = {messages[0].position, messages[1].position}
    acknowledged_at(fixture, wanted, "does not acknowledge cumulatively up to a message")


def nacks(fixture: Fixture) -> None:
    consumer = fixture.consumer(nack_delay_s=0.2)
    messages = receives_three(fixture, consumer)
    consumer.nack(messages[1])
    again = received(consumer, "a message again that it nacked")
    demand(
        again.position == messages[1].position, f"has {again.position} redelivered, and nacked {messages[1].position}"
    )
    if "redelivery-count" in fixture.driver.hello.features:
        demand(again.redelivery_count == 1, f"shows the redelivery count {again.redelivery_count} instead of 1")


def requests_redelivery(fixture: Fixture) -> None:
    consumer = fixture.consumer()
    messages = receives_three(fixture, consumer)
    consumer.redeliver_all()
    again = {received(consumer, "all unacknowledged messages again").position for _ in messages}
    demand(again == {one.position for one in messages}, f"has {again} redelivered instead of all")


def closes_consumers(fixture: Fixture) -> None:
    consumer = fixture.consumer()
    messages = receives_three(fixture, consumer)
    for message in messages:
        consumer.ack(message)
    consumer.close()
    acknowledged_at(fixture, {one.position for one in messages}, "loses acks when it closes a consumer")
    demand(fixture.broker.count("CLOSE_CONSUMER") > 0, "closes a consumer without telling the broker")


# ---------------------------------------------------------------------------------------------------------- connections


def follows_redirects(fixture: Fixture) -> None:
    fixture.broker.faults.redirect = True
    producer = fixture.producer()
    confirmed(producer.send(1, b"message"), producer)
    demand(fixture.broker.was_redirected > 0, "does not connect to the broker that a look-up redirects it to")


def returns_after_unload(fixture: Fixture) -> None:
    producer, consumer = fixture.producer(), fixture.consumer()
    confirmed(producer.send(1, b"before"), producer)
    consumer.ack(received(consumer, "a message"))
    acknowledged_at(fixture, {fixture.broker.entries(fixture.topic)[0].position}, "does not acknowledge a message")
    fixture.broker.unload()
    confirmed(producer.send(2, b"after"), producer)
    demand(
        received(consumer, "a message after an unload").payload == b"after", "receives another message after an unload"
    )


def resends(fixture: Fixture) -> None:
    producer = fixture.producer()
    fixture.broker.faults.swallow_and_cut = 1
    confirmed(producer.send(1, b"lost confirmation"), producer)
    stored = [bytes(one.payload) for one in fixture.broker.entries(fixture.topic)]
    demand(stored == [b"lost confirmation"], f"after a lost confirmation, the broker has {stored}")
    demand(fixture.broker.count("SEND") >= 2, "says that a message is confirmed which the broker did not confirm")


def aborts(fixture: Fixture) -> None:
    producer = fixture.producer()
    confirmed(producer.send(1, b"message"), producer)
    fixture.clients[-1].abort()
    # Only this client knows the topic. Others may connect meanwhile: the port may have been that of an earlier check.
    fixture.await_so(
        lambda: not fixture.broker.connections_for(fixture.topic), "does not cut its connections when it is aborted"
    )
    demand(fixture.broker.count("CLOSE_PRODUCER") == 0, "closes producers gracefully when it is aborted")
    try:
        fixture.clients[-1].abort()
    except CLIENT_ERRORS as error:
        raise Broken(f"cannot abort a client twice: {error}") from None


CHECKS: Final = (
    Check("declares itself", declares_itself),
    Check("opens a producer and sends in order", produces),
    Check("receives and acknowledges", consumes),
    Check("answers out of order", answers_out_of_order),
    Check("keeps deadlines", keeps_deadlines),
    Check("cancels", cancels),
    Check("says error, and goes on", says_error),
    Check("passes refusals on", passes_refusals_on),
    Check("reports sends that time out", reports_failed_sends),
    Check("sends keys and properties", sends_keys_and_properties),
    Check("sends sequence ids", sends_sequence_ids, "sequence-id"),
    Check("confirms duplicates", confirms_duplicates, "sequence-id"),
    Check("knows the last sequence id", says_last_sequence_id, "last-sequence-id"),
    Check("sends ordering keys", sends_ordering_keys, "ordering-key"),
    Check("sends batches", sends_batches, "batching"),
    Check("splits and assembles messages", sends_chunks, "chunking"),
    Check("acknowledges cumulatively", acknowledges_cumulatively, "cumulative-ack"),
    Check("nacks", nacks, "nack"),
    Check("requests redelivery", requests_redelivery, "redeliver"),
    Check("flushes acks when it closes a consumer", closes_consumers),
    Check("follows redirects", follows_redirects),
    Check("returns after an unload", returns_after_unload),
    Check("sends again after a lost confirmation", resends, "sequence-id"),
    Check("aborts", aborts, "abort"),
)
"""The contract, in the order of its checks."""
OF_END: Final = "ends with its standard input"
"""The check after these."""
