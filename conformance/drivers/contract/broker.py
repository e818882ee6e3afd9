"""A fake broker that speaks enough of Pulsar's binary protocol to hold a driver against its contract.

It stores messages in memory, dispatches them, and counts the commands of each kind. It has two addresses: a look-up at
the first can be redirected to the second. Tests make it refuse, swallow or cut what they name. It judges nothing, and
it is no model of a broker: subscriptions know no type, and the newest consumer gets everything.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from google.protobuf.message import Message

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.connection import command_of
from conformance.clients.wire.frames import Frame, FrameDecoder, MalformedFrame, encode_frame
from model.log import Position

MAX_MESSAGE_BYTES: Final = 10_240
"""What it announces: a larger message is split."""
LEDGER: Final = 7
_RECEIVE_BYTES: Final = 1 << 16
_Type = pb.BaseCommand


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry."""

    position: Position
    metadata: pb.MessageMetadata
    payload: bytes


@dataclass(slots=True)
class _Topic:
    entries: list[Stored] = field(default_factory=list)
    highest: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, set[Position]] = field(default_factory=dict)


@dataclass(slots=True)
class _Consumer:
    connection: _Connection
    id: int
    topic: str
    subscription: str
    permits: int = 0
    sent: dict[Position, int] = field(default_factory=dict)
    """How often each unacknowledged entry was sent."""
    again: list[Position] = field(default_factory=list)


@dataclass(slots=True)
class Faults:
    """What the broker does wrong. A number counts down; 0: nothing."""

    refuse_producers: int = 0
    refuse_consumers: int = 0
    swallow_and_cut: int = 0
    """Store so many messages, do not confirm them, and cut the connection."""
    never_confirm: bool = False
    redirect: bool = False
    """Answer a look-up at the first address with the second one."""


class FakeBroker:
    """The broker, from ``with`` to its end."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._received: Counter[str] = Counter()
        """How many commands of each kind."""
        self.was_redirected = 0
        """Connections to its second address."""
        self._lock = threading.RLock()
        self._topics: dict[str, _Topic] = {}
        self._consumers: list[_Consumer] = []
        self._connections: list[_Connection] = []
        self._listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self._is_open = True

    def __enter__(self) -> Self:
        for number in range(len(self._listeners)):
            threading.Thread(target=self._accept, args=(number,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_open = False
        for listener in self._listeners:
            listener.close()
        self.cut()

    def connections_for(self, topic: str) -> int:
        """How many open connections had a request for this topic."""
        with self._lock:
            return sum(topic in one.topics for one in self._connections)

    @property
    def url(self) -> str:
        return self.address(0)

    def address(self, number: int) -> str:
        return f"pulsar://127.0.0.1:{self._listeners[number].getsockname()[1]}"

    def entries(self, topic: str) -> Sequence[Stored]:
        with self._lock:
            return list(self._topic(topic).entries)

    def acknowledged(self, topic: str, subscription: str) -> set[Position]:
        with self._lock:
            return set(self._topic(topic).acknowledged.get(subscription, ()))

    def count(self, kind: str) -> int:
        with self._lock:
            return self._received[kind]

    def cut(self) -> None:
        """Cut all connections."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.cut()

    def unload(self) -> None:
        """Close all producers and consumers, as an unload of their topics does."""
        with self._lock:
            for connection in self._connections:
                connection.close_all()
            self._consumers.clear()

    def put(self, topic: str, payload: bytes, *, properties: dict[str, str] | None = None, key: str = "") -> Position:
        """Store a message as a producer elsewhere, and dispatch it."""
        with self._lock:
            entries = self._topic(topic).entries
            metadata = pb.MessageMetadata(
                producer_name="elsewhere", sequence_id=len(entries) + 1, publish_time=time.time_ns() // 1_000_000
            )
            metadata.properties.extend(pb.KeyValue(key=name, value=one) for name, one in (properties or {}).items())
            if key:
                metadata.partition_key = key
            entries.append(Stored(Position(LEDGER, len(entries)), metadata, payload))
            self.dispatch()
            return entries[-1].position

    def _topic(self, name: str) -> _Topic:
        return self._topics.setdefault(name, _Topic())

    def _accept(self, number: int) -> None:
        with suppress(OSError):
            while self._is_open:
                accepted, _ = self._listeners[number].accept()
                with self._lock:
                    self.was_redirected += number
                    connection = _Connection(self, accepted, number)
                    self._connections.append(connection)
                threading.Thread(target=connection.serve, daemon=True).start()

    # ------------------------------------------------------------------------------------------- requests, under lock

    def take(self, connection: _Connection, frame: Frame) -> None:
        """Answer a command."""
        kind = _Type.Type.Name(frame.command.type)
        name = frame.command.WhichOneof("body")
        body = None if name is None else getattr(frame.command, name)
        with self._lock:
            self._received[kind] += 1
            connection.topics.add(getattr(body, "topic", ""))
            answer: Callable[[_Connection, Any, Frame], None] | None = getattr(self, f"_on_{kind.lower()}", None)
            if answer is not None:
                answer(connection, body, frame)

    def _on_connect(self, connection: _Connection, _body: Any, _frame: Frame) -> None:
        connection.send(
            pb.CommandConnected(server_version="fake", protocol_version=19, max_message_size=MAX_MESSAGE_BYTES)
        )

    def _on_ping(self, connection: _Connection, _body: Any, _frame: Frame) -> None:
        connection.send(pb.CommandPong())

    def _on_partitioned_metadata(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        success = pb.CommandPartitionedTopicMetadataResponse.Success
        connection.send(
            pb.CommandPartitionedTopicMetadataResponse(partitions=0, request_id=body.request_id, response=success)
        )

    def _on_lookup(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        kind = pb.CommandLookupTopicResponse
        is_elsewhere = self.faults.redirect and connection.number == 0
        connection.send(
            pb.CommandLookupTopicResponse(
                broker_service_url=self.address(1 if self.faults.redirect else 0),
                response=kind.Redirect if is_elsewhere else kind.Connect,
                request_id=body.request_id,
                authoritative=True,
            )
        )

    def _on_producer(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        if self.faults.refuse_producers:
            self.faults.refuse_producers -= 1
            self._refuse(connection, body, pb.ProducerBusy)
            return
        name = body.producer_name or f"fake-{body.producer_id}"
        connection.producers[body.producer_id] = (body.topic, name)
        last = self._topic(body.topic).highest.get(name, -1)
        connection.send(
            pb.CommandProducerSuccess(
                request_id=body.request_id, producer_name=name, last_sequence_id=last, schema_version=b""
            )
        )

    def _on_send(self, connection: _Connection, body: Any, frame: Frame) -> None:
        named = connection.producers.get(body.producer_id)
        if named is None or frame.metadata is None:
            return
        topic, name = named
        stored = self._store(self._topic(topic), name, body, frame)
        if self.faults.swallow_and_cut:
            self.faults.swallow_and_cut -= 1
            connection.cut()
        elif not self.faults.never_confirm:
            there = stored or Position(2**64 - 1, 2**64 - 1)
            message_id = pb.MessageIdData(ledger_id=there.ledger, entry_id=there.entry)
            receipt = pb.CommandSendReceipt(
                producer_id=body.producer_id, sequence_id=body.sequence_id, message_id=message_id
            )
            if body.HasField("highest_sequence_id"):
                receipt.highest_sequence_id = body.highest_sequence_id
            connection.send(receipt)
        self.dispatch()

    def _store(self, topic: _Topic, name: str, body: Any, frame: Frame) -> Position | None:
        """Store an entry, unless its sequence id says that it is a duplicate; chunks of a message share one."""
        assert frame.metadata is not None
        highest = max(body.sequence_id, body.highest_sequence_id)
        is_next_chunk = frame.metadata.chunk_id > 0
        if highest < topic.highest.get(name, -1) or (highest == topic.highest.get(name) and not is_next_chunk):
            return None
        topic.highest[name] = highest
        topic.entries.append(Stored(Position(LEDGER, len(topic.entries)), frame.metadata, frame.payload))
        return topic.entries[-1].position

    def _on_subscribe(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        if self.faults.refuse_consumers:
            self.faults.refuse_consumers -= 1
            self._refuse(connection, body, pb.ConsumerBusy)
            return
        topic = self._topic(body.topic)
        if body.subscription not in topic.acknowledged:
            starts_at_end = body.initial_position == pb.CommandSubscribe.Latest
            topic.acknowledged[body.subscription] = {one.position for one in topic.entries if starts_at_end}
        self._consumers.append(_Consumer(connection, body.consumer_id, body.topic, body.subscription))
        connection.send(pb.CommandSuccess(request_id=body.request_id))

    def _on_flow(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        for consumer in self._those(connection, body):
            consumer.permits += body.message_permits
        self.dispatch()

    def _on_ack(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        for consumer in self._those(connection, body):
            topic = self._topic(consumer.topic)
            for one in body.message_id:
                upto = Position(one.ledger_id, one.entry_id)
                is_cumulative = body.ack_type == pb.CommandAck.Cumulative
                done = (
                    {stored.position for stored in topic.entries if stored.position <= upto}
                    if is_cumulative
                    else {upto}
                )
                topic.acknowledged[consumer.subscription] |= done
                for position in done:
                    consumer.sent.pop(position, None)
        if body.HasField("request_id"):
            connection.send(pb.CommandAckResponse(consumer_id=body.consumer_id, request_id=body.request_id))

    def _on_redeliver_unacknowledged_messages(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        asked = [Position(one.ledger_id, one.entry_id) for one in body.message_ids]
        for consumer in self._those(connection, body):
            consumer.again += [position for position in (asked or consumer.sent) if position in consumer.sent]
        self.dispatch()

    def _on_get_last_message_id(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        for consumer in self._those(connection, body):
            entries = self._topic(consumer.topic).entries
            message_id = pb.MessageIdData(ledger_id=LEDGER, entry_id=len(entries) - 1 if entries else 2**64 - 1)
            connection.send(pb.CommandGetLastMessageIdResponse(last_message_id=message_id, request_id=body.request_id))

    def _on_close_producer(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        connection.producers.pop(body.producer_id, None)
        connection.send(pb.CommandSuccess(request_id=body.request_id))

    def _on_close_consumer(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        self._consumers = [one for one in self._consumers if one not in self._those(connection, body)]
        connection.send(pb.CommandSuccess(request_id=body.request_id))

    def _on_unsubscribe(self, connection: _Connection, body: Any, _frame: Frame) -> None:
        for consumer in self._those(connection, body):
            self._topic(consumer.topic).acknowledged.pop(consumer.subscription, None)
        connection.send(pb.CommandSuccess(request_id=body.request_id))

    def _refuse(self, connection: _Connection, body: Any, error: pb.ServerError.ValueType) -> None:
        connection.send(pb.CommandError(request_id=body.request_id, error=error, message="the test refuses it"))

    def _those(self, connection: _Connection, body: Any) -> list[_Consumer]:
        return [one for one in self._consumers if one.connection is connection and one.id == body.consumer_id]

    def consumers_of(self, connection: _Connection) -> Sequence[int]:
        """The ids of its consumers."""
        return [one.id for one in self._consumers if one.connection is connection]

    def gone(self, connection: _Connection) -> None:
        """Forget the consumers of a connection."""
        with self._lock:
            self._consumers = [one for one in self._consumers if one.connection is not connection]
            if connection in self._connections:
                self._connections.remove(connection)

    def dispatch(self) -> None:
        """Send what is due, to the newest consumer of each subscription, as far as it has permits."""
        newest = {(one.topic, one.subscription): one for one in self._consumers}
        for consumer in newest.values():
            topic = self._topic(consumer.topic)
            acknowledged = topic.acknowledged.get(consumer.subscription, set())
            for stored in self._due(consumer, topic, acknowledged):
                if consumer.permits <= 0:
                    break
                if stored.position in consumer.again:
                    consumer.again.remove(stored.position)
                times = consumer.sent.get(stored.position, 0)
                consumer.sent[stored.position] = times + 1
                consumer.permits -= stored.metadata.num_messages_in_batch
                consumer.connection.send(
                    pb.CommandMessage(
                        consumer_id=consumer.id,
                        message_id=pb.MessageIdData(ledger_id=LEDGER, entry_id=stored.position.entry, partition=-1),
                        redelivery_count=times,
                    ),
                    stored,
                )

    def _due(self, consumer: _Consumer, topic: _Topic, acknowledged: set[Position]) -> Iterator[Stored]:
        for stored in list(topic.entries):
            is_new = stored.position not in consumer.sent and stored.position not in acknowledged
            if is_new or stored.position in consumer.again:
                yield stored


class _Connection:
    """One connection of a client."""

    def __init__(self, broker: FakeBroker, sock: socket.socket, number: int) -> None:
        self.number = number
        """0: it is to the first address."""
        self.producers: dict[int, tuple[str, str]] = {}
        self.topics: set[str] = set()
        """Those of its requests."""
        self._broker = broker
        self._socket = sock

    def serve(self) -> None:
        decoder = FrameDecoder()
        with suppress(OSError, MalformedFrame):
            while data := self._socket.recv(_RECEIVE_BYTES):
                for frame in decoder.feed(data):
                    self._broker.take(self, frame)
        self._broker.gone(self)
        self.cut()

    def send(self, body: Message, stored: Stored | None = None) -> None:
        with suppress(OSError):
            command = command_of(body)
            frame = encode_frame(command) if stored is None else encode_frame(command, stored.metadata, stored.payload)
            self._socket.sendall(frame)

    def close_all(self) -> None:
        """Tell its producers and consumers that the broker closed them."""
        for producer in self.producers:
            self.send(pb.CommandCloseProducer(producer_id=producer, request_id=0))
        self.producers.clear()
        for consumer in self._broker.consumers_of(self):
            self.send(pb.CommandCloseConsumer(consumer_id=consumer, request_id=0))

    def cut(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
