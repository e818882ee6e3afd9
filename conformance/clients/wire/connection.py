"""One connection to a broker, with or without TLS: the handshake, requests and their answers, PING and PONG.

It dispatches frames by the ids of producers and consumers, without interpreting them. It never blocks: bytes move while
a caller waits in the :mod:`pump <conformance.clients.wire.pump>`.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Final, Protocol

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import ConnectionLost, ServerRefused, error_name
from conformance.clients.security.credentials import auth_data_of
from conformance.clients.security.service import Security, Service
from conformance.clients.security.transport import address, addresses_of, connect
from conformance.clients.wire.frames import Frame, FrameDecoder, MalformedFrame, encode_frame
from conformance.clients.wire.pump import Pump, SecondAnswer
from conformance.harness_error import HarnessError
from conformance.wait import Deadline

PROTOCOL_VERSION: Final = 19
"""The client's protocol version: with ack receipts (17), without topic migration (20)."""

_RECEIPTS_SINCE: Final = 17
"""The protocol version from which a broker answers an ack with a request id."""

CLIENT_VERSION: Final = "pulsar-conformance"

_REMEMBERED: Final = 100
"""The number of answered requests whose second answers are noticed."""

_HANDSHAKE: Final = 2**64 - 1
"""The request id in a broker's answer to a command without one, such as CONNECT."""

_RECEIVE_SIZE_BYTES: Final = 256 * 1024
_TLS_RECORD_BYTES: Final = 16 * 1024
_WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_LINGER_ZERO: Final = struct.pack("ii", 1, 0)

_Type = pb.BaseCommand
_ANSWERS: Final = {
    _Type.SUCCESS: "success",
    _Type.ERROR: "error",
    _Type.PRODUCER_SUCCESS: "producer_success",
    _Type.LOOKUP_RESPONSE: "lookup_response",
    _Type.PARTITIONED_METADATA_RESPONSE: "partitioned_metadata_response",
    _Type.GET_LAST_MESSAGE_ID_RESPONSE: "get_last_message_id_response",
    _Type.ACK_RESPONSE: "ack_response",
}
_TO_PRODUCERS: Final = {
    _Type.SEND_RECEIPT: "send_receipt",
    _Type.SEND_ERROR: "send_error",
    _Type.CLOSE_PRODUCER: "close_producer",
}
_TO_CONSUMERS: Final = {
    _Type.MESSAGE: "message",
    _Type.CLOSE_CONSUMER: "close_consumer",
    _Type.ACTIVE_CONSUMER_CHANGE: "active_consumer_change",
    _Type.REACHED_END_OF_TOPIC: "reached_end_of_topic",
}
_BODIES: Final[Mapping[object, FieldDescriptor]] = {
    field.message_type: field for field in pb.BaseCommand.DESCRIPTOR.oneofs_by_name["body"].fields
}


def command_of(body: Message) -> pb.BaseCommand:
    """Wrap a command's body in a BaseCommand."""
    field = _BODIES[body.DESCRIPTOR]
    return pb.BaseCommand(type=field.number, **{field.name: body})  # type: ignore[arg-type]


_PONG: Final = encode_frame(command_of(pb.CommandPong()))


Request = (
    pb.CommandAck
    | pb.CommandCloseConsumer
    | pb.CommandCloseProducer
    | pb.CommandGetLastMessageId
    | pb.CommandLookupTopic
    | pb.CommandPartitionedTopicMetadata
    | pb.CommandProducer
    | pb.CommandSeek
    | pb.CommandSubscribe
    | pb.CommandUnsubscribe
)
"""The answers that carry a request id."""


class Endpoint(Protocol):
    """A producer or consumer, for its connection."""

    def on_frame(self, frame: Frame) -> None:
        """Handle a frame with its id."""

    def on_lost(self, reason: str) -> None:
        """Handle the loss of the connection."""


class Connection:
    """A connection to one broker, from :meth:`open` until it is lost, closed or aborted; it does not reconnect."""

    def __init__(self, sock: socket.socket, service: Service, pump: Pump) -> None:
        self.address: Final = service.url
        self._security: Final = service.security
        self.pump: Final = pump
        self.max_message_size_bytes = 0
        self.protocol_version = 0
        """The broker's."""
        self._pings = 0
        self._pongs = 0
        self._socket = sock
        self._lost: str | None = None
        self._decoder = FrameDecoder()
        self._unsent = bytearray()
        self._requests = 0
        self._awaited: dict[int, str] = {}
        self._answers: dict[int, pb.BaseCommand] = {}
        self._answered: dict[int, str] = {}
        """The last requests that have their answers."""
        self._queued: set[int] = set()
        """Requests for producers that wait for exclusive access."""
        self._producers: dict[int, Endpoint] = {}
        self._consumers: dict[int, Endpoint] = {}
        pump.add(sock.fileno(), self)

    @classmethod
    def open(
        cls, broker: Service | str, pump: Pump, deadline: Deadline, *, through: Service | None = None
    ) -> Connection:
        """Connect to a broker, perhaps ``through`` a proxy, and send CONNECT.

        Raises :class:`ConnectionLost` if no broker listens there, :class:`ServerRefused` if it refuses.
        """
        service = Service.of(broker)
        connection = cls(_connect(through or service, deadline), service, pump)
        try:
            connection._shake_hands(deadline, proxied=through is not None)
        except BaseException:
            connection.abort()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        """Whether it is not known to be lost."""
        return self._lost is None

    @property
    def local_port(self) -> int:
        """The client port."""
        return int(self._socket.getsockname()[1])

    def send(self, frame: bytes) -> None:
        """Write as much of a frame as the socket accepts; the rest follows while a caller waits.

        Raises :class:`ConnectionLost` if the connection was lost before. If it breaks now, producers and consumers are
        notified.
        """
        with self.pump.lock:
            self._check_open()
            self._unsent += frame
            if len(self._unsent) == len(frame):
                self._write()

    def send_command(self, body: Message) -> None:
        """Send a command without payload and without an answer. Raises the same as :meth:`send`."""
        self.send(encode_frame(command_of(body)))

    def ask(self, body: Request, deadline: Deadline, *, what: str) -> pb.BaseCommand:
        """Send a request with a new request id and wait for its answer.

        Raises :class:`ServerRefused` for an ERROR, :class:`ConnectionLost` and :class:`NoAnswer`; ``what``: the request
        in their texts.
        """
        self._requests += 1
        body.request_id = self._requests
        return self._ask(body, self._requests, deadline, what=what)

    def ask_in_queue(self, body: pb.CommandProducer, deadline: Deadline, *, what: str) -> int:
        """Send a request whose answer may come much later, and wait until it is answered or queued.

        :meth:`answer_to` has the answer. Raises :class:`ConnectionLost` and :class:`NoAnswer`.
        """
        self._requests += 1
        body.request_id = self._requests
        self._awaited[self._requests] = what
        self.send_command(body)
        arrived = (self._answers, self._queued)
        self.pump.wait(lambda: any(body.request_id in one for one in arrived) or not self.is_open, deadline, what=what)
        return self._requests

    def answer_to(self, request_id: int, *, what: str) -> pb.BaseCommand | None:
        """The answer to a queued request; None if it is still queued.

        Raises :class:`ServerRefused` for an ERROR, and :class:`ConnectionLost`.
        """
        answer = self._answers.pop(request_id, None)
        if answer is None and self.is_open:
            return None
        self._awaited.pop(request_id, None)
        self._queued.discard(request_id)
        return self._checked(answer, what)

    @property
    def has_receipts(self) -> bool:
        """Whether the broker answers acks."""
        return self.protocol_version >= _RECEIPTS_SINCE

    def await_done(self, deadline: Deadline, *, what: str) -> None:
        """Wait until the broker has processed all commands so far: it answers a PING after all earlier commands.

        Raises :class:`ConnectionLost` and :class:`NoAnswer`.
        """
        self._pings += 1
        number = self._pings
        self.send_command(pb.CommandPing())
        self.pump.wait(lambda: self._pongs >= number or not self.is_open, deadline, what=what)
        if self._pongs < number:
            raise ConnectionLost(f"{what}: {self._lost}")

    def flush(self, deadline: Deadline) -> None:
        """Wait until everything is written to the socket; it may be in flight still."""
        self.pump.wait(
            lambda: not self._unsent or not self.is_open, deadline, what=f"{self.address} takes what is sent"
        )
        self._check_open()

    def add_producer(self, producer_id: int, producer: Endpoint) -> None:
        """Dispatch frames to this producer from now on."""
        self._producers[producer_id] = producer

    def remove_producer(self, producer_id: int) -> None:
        self._producers.pop(producer_id, None)

    def add_consumer(self, consumer_id: int, consumer: Endpoint) -> None:
        """Dispatch frames to this consumer from now on."""
        self._consumers[consumer_id] = consumer

    def remove_consumer(self, consumer_id: int) -> None:
        self._consumers.pop(consumer_id, None)

    def close(self) -> None:
        """Close the connection (FIN after the written bytes); drop what is not written."""
        self._end("this client closed the connection", reset=False)

    def abort(self) -> None:
        """Reset the connection (RST), as if the process crashed."""
        self._end("this client cut the connection", reset=True)

    def on_ready(self, *, readable: bool, writable: bool) -> None:
        """Read and write without blocking; the pump calls it."""
        if readable:
            self._read()
        if writable and self._lost is None:
            self._write()

    # -------------------------------------------------------------------------------------------------- in private

    def _shake_hands(self, deadline: Deadline, *, proxied: bool) -> None:
        connect = connect_command(self._security)
        if proxied:
            connect.proxy_to_broker_url = address(*addresses_of(self.address)[0])
        answer = self._ask(connect, _HANDSHAKE, deadline, what=f"connecting to {self.address}")
        if answer.type != _Type.CONNECTED:
            raise ServerRefused("AuthenticationError", "the broker asks for an authentication that the suite has not")
        self.max_message_size_bytes = answer.connected.max_message_size
        self.protocol_version = answer.connected.protocol_version

    def _ask(self, body: Message, request_id: int, deadline: Deadline, *, what: str) -> pb.BaseCommand:
        self._awaited[request_id] = what
        try:
            self.send_command(body)
            self.pump.wait(lambda: request_id in self._answers or not self.is_open, deadline, what=what)
        finally:
            self._awaited.pop(request_id, None)
            answer = self._answers.pop(request_id, None)
        return self._checked(answer, what)

    def _checked(self, answer: pb.BaseCommand | None, what: str) -> pb.BaseCommand:
        if answer is None:
            raise ConnectionLost(f"{what}: {self._lost}")
        if answer.type == _Type.ERROR:
            raise ServerRefused(error_name(answer.error.error), answer.error.message)
        return answer

    def _check_open(self) -> None:
        if self._lost is not None:
            raise ConnectionLost(f"no connection to {self.address}: {self._lost}")

    def _write(self) -> None:
        try:
            sent = _send(self._socket, self._unsent)
        except OSError as error:
            # Bytes that the broker sent before it closed the connection may still be unread.
            while self._lost is None and self._read():
                pass
            self._fail(f"the connection broke while sending: {error}")
            return
        del self._unsent[:sent]
        self.pump.watch_writes(self._socket.fileno(), wanted=bool(self._unsent))

    def _read(self) -> bool:
        """Read what has arrived; whether there may be more."""
        try:
            data = self._socket.recv(_RECEIVE_SIZE_BYTES)
        except _WOULD_BLOCK:
            return False
        except OSError as error:
            self._fail(f"the connection broke: {error}")
            return False
        if not data:
            self._fail(
                "the broker closed the connection" + (", within a frame" if self._decoder.buffered_size_bytes else "")
            )
            return False
        try:
            for frame in self._decoder.feed(data):
                self._dispatch(frame)
        except MalformedFrame as malformed:
            self._fail(f"the broker sent what is no frame: {malformed}")
            raise
        return len(data) == _RECEIVE_SIZE_BYTES or isinstance(self._socket, ssl.SSLSocket)

    def _dispatch(self, frame: Frame) -> None:
        command = frame.command
        if command.type in _TO_CONSUMERS:
            consumer = self._consumers.get(getattr(command, _TO_CONSUMERS[command.type]).consumer_id)
            if consumer is not None:
                consumer.on_frame(frame)
        elif command.type in _TO_PRODUCERS:
            producer = self._producers.get(getattr(command, _TO_PRODUCERS[command.type]).producer_id)
            if producer is not None:
                producer.on_frame(frame)
        elif command.type in _ANSWERS:
            self._take_answer(getattr(command, _ANSWERS[command.type]).request_id, command)
        elif command.type == _Type.AUTH_CHALLENGE and _HANDSHAKE not in self._awaited:
            self._answer_challenge()
        elif command.type in (_Type.CONNECTED, _Type.AUTH_CHALLENGE):
            self._take_answer(_HANDSHAKE, command)
        elif command.type == _Type.PING:
            self._unsent += _PONG
            self.pump.watch_writes(self._socket.fileno(), wanted=True)
        elif command.type == _Type.PONG:
            self._pongs += 1
        # Other commands are for features that this client lacks (schemas, transactions, migration).

    def _take_answer(self, request_id: int, command: pb.BaseCommand) -> None:
        if command.type == _Type.PRODUCER_SUCCESS and not command.producer_success.producer_ready:
            self._queued.add(request_id)  # a second answer follows when it has exclusive access
            return
        if (what := self._awaited.pop(request_id, None)) is not None:
            self._answers[request_id] = command
            if request_id != _HANDSHAKE:
                self._answered[request_id] = what
                if len(self._answered) > _REMEMBERED:
                    del self._answered[next(iter(self._answered))]
        elif (what := self._answered.get(request_id)) is not None:
            is_error = command.type == _Type.ERROR
            code = error_name(command.error.error) if is_error else _ANSWERS[command.type]
            self.pump.on_second_answer(SecondAnswer(what, code, command.error.message if is_error else ""))

    def _answer_challenge(self) -> None:
        """The credentials have expired: send the current ones."""
        try:
            data = pb.AuthData(auth_method_name=self._security.auth_method, auth_data=auth_data_of(self._security))
        except HarnessError as harness_error:
            self._fail(f"the broker asked for a fresh token, and there is none: {harness_error}")
            return
        response = pb.CommandAuthResponse(
            client_version=CLIENT_VERSION, protocol_version=PROTOCOL_VERSION, response=data
        )
        self._unsent += encode_frame(command_of(response))
        self.pump.watch_writes(self._socket.fileno(), wanted=True)

    def _end(self, reason: str, *, reset: bool) -> None:
        with self.pump.lock:
            if self._lost is None:
                if reset:
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
                self._fail(reason)

    def _fail(self, reason: str) -> None:
        if self._lost is not None:
            return
        self._lost = reason
        self._unsent.clear()
        self.pump.remove(self._socket.fileno())
        self._socket.close()
        for endpoint in (*self._producers.values(), *self._consumers.values()):
            endpoint.on_lost(reason)
        self._producers.clear()
        self._consumers.clear()


def connect_command(security: Security) -> pb.CommandConnect:
    """CONNECT with the credentials. Raises :class:`HarnessError` without a token."""
    return pb.CommandConnect(
        client_version=CLIENT_VERSION,
        protocol_version=PROTOCOL_VERSION,
        auth_method_name=security.auth_method,
        auth_data=auth_data_of(security) or None,
        feature_flags=pb.FeatureFlags(supports_auth_refresh=True) if security.auth_method is not None else None,
    )


def _connect(service: Service, deadline: Deadline) -> socket.socket:
    sock = connect(service, deadline)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _send(sock: socket.socket, data: bytearray) -> int:
    """Write as much as the socket accepts; with TLS record by record, as a call writes all or nothing."""
    if not isinstance(sock, ssl.SSLSocket):
        try:
            return sock.send(data)
        except BlockingIOError:
            return 0
    sent = 0
    while sent < len(data):
        try:
            sent += sock.send(data[sent : sent + _TLS_RECORD_BYTES])
        except _WOULD_BLOCK:
            break
    return sent
