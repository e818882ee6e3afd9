"""The driver of pulsar-client, in any release: ``python -m conformance.drivers.python``.

It runs in an environment that has the release, and uses the suite's own code on top of it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import msgspec

from conformance.clients.driver.client import OfficialClient, OfficialConsumer, OfficialProducer, client_version
from conformance.clients.driver.features import DECLARED
from conformance.clients.driver.interface import OfficialDelivery
from conformance.clients.driver.protocol import (
    PROTOCOL,
    Abort,
    Acknowledge,
    AnyAnswer,
    AnyRequest,
    Cancel,
    Cancelled,
    Close,
    Connect,
    Connected,
    Done,
    Error,
    Flush,
    GaveUp,
    Hello,
    HelloAnswer,
    IsConnected,
    LastSequenceId,
    Message,
    Nack,
    Nothing,
    Opened,
    OpenProducer,
    Receive,
    Redeliver,
    Refused,
    Send,
    Sent,
    SequenceId,
    Subscribe,
    Unsubscribe,
    read_request,
    write,
)
from conformance.clients.outcomes import ConnectionLost, Lost, NoAnswer, Receipt, SendError, SendOutcome, ServerRefused
from conformance.clients.security.service import Secret, Security, Service
from conformance.harness_error import HarnessError

_AT_ONCE: Final = 256
_SLICE_S: Final = 0.05
"""pulsar-client's receive cannot be interrupted: a long one is made of short ones."""


@dataclass(slots=True)
class _Consumer:
    consumer: OfficialConsumer
    received: list[OfficialDelivery] = field(default_factory=list)
    """By their numbers."""


class Driver:
    """The clients, producers and consumers by the names that the suite gave them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._writing = threading.Lock()
        self._clients: dict[str, OfficialClient] = {}
        self._producers: dict[str, OfficialProducer] = {}
        self._consumers: dict[str, _Consumer] = {}
        self._cancelled: set[int] = set()
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    def take(self, line: bytes) -> None:
        """Perform a request: sends and flushes at once, so that they stay in order, and others side by side."""
        request = read_request(line)
        match request:
            case Send():
                self._answered(request.id, lambda: self._send(request))
            case Flush():
                self._answered(request.id, lambda: self.say(self._perform(request)))
            case _:
                self._pool.submit(self._answered, request.id, lambda: self.say(self._perform(request)))

    def say(self, answer: AnyAnswer) -> None:
        with self._writing, suppress(OSError):
            self._out.write(write(answer) + b"\n")
            self._out.flush()

    def _answered(self, request: int, perform: Callable[[], None]) -> None:
        """Perform a request; what it raises is its answer."""
        try:
            perform()
        except ServerRefused as refused:
            self.say(Refused(id=request, code=refused.code, message=refused.message))
        except NoAnswer as late:
            self.say(GaveUp(id=request, why="timeout", message=str(late)))
        except ConnectionLost as lost:
            self.say(GaveUp(id=request, why="disconnected", message=str(lost)))
        except HarnessError as error:
            self.say(Error(id=request, message=str(error)))
        except Exception as error:  # noqa: BLE001 - the suite must learn of any bug
            self.say(Error(id=request, message=f"{type(error).__name__}: {error}"))

    def _send(self, request: Send) -> None:
        self._producers[request.producer].send(
            request.sequence_id or 0,
            request.payload,
            properties=request.properties or None,
            partition_key=request.key,
            ordering_key=request.ordering_key,
            on_outcome=lambda outcome: self.say(_answer_of(request.id, outcome)),
        )

    def _perform(self, request: AnyRequest) -> AnyAnswer:
        number = request.id
        match request:
            case Hello():
                features = tuple(sorted(DECLARED))
                version = client_version()
                return HelloAnswer(id=number, protocol=PROTOCOL, client="python", version=version, features=features)
            case Connect():
                self._clients[request.client] = _client_of(request)
            case OpenProducer():
                return self._open(request)
            case Flush(producer=producer):
                self._producers[producer].flush()
            case LastSequenceId(producer=producer):
                return SequenceId(id=number, last_sequence_id=self._producers[producer].last_sequence_id)
            case Subscribe():
                self._subscribe(request)
            case Receive():
                return self._receive(request)
            case Acknowledge(consumer=name, message=message, cumulative=cumulative):
                consumer = self._consumers[name]
                acknowledge = consumer.consumer.ack_cumulative if cumulative else consumer.consumer.ack
                acknowledge(consumer.received[message])
            case Nack(consumer=name, message=message):
                self._consumers[name].consumer.nack(self._consumers[name].received[message])
            case IsConnected(consumer=name):
                return Connected(id=number, connected=self._consumers[name].consumer.is_connected)
            case Redeliver(consumer=name):
                self._consumers[name].consumer.redeliver_all()
            case Unsubscribe(consumer=name):
                self._consumers[name].consumer.unsubscribe()
            case Close(name=name):
                self._close(name)
            case Abort(client=name):
                if name in self._clients:
                    self._clients[name].abort()
            case Cancel(request=cancelled):
                self._cancelled.add(cancelled)
            case _:
                return Error(id=number, message="it is performed elsewhere")
        return Done(id=number)

    def _open(self, request: OpenProducer) -> Opened:
        options: dict[str, Any] = {}
        if request.batching:
            options = {"batch_delay_ms": request.batch_delay_ms, "batch_messages": request.batch_messages}
        producer = self._clients[request.client].open_producer(
            request.topic,
            name=request.name,
            send_timeout_s=request.send_timeout_ms / 1000,
            initial_sequence_id=request.initial_sequence_id,
            batching=request.batching,
            chunking=request.chunking,
            compression=request.compression,
            **options,
        )
        self._producers[request.producer] = producer
        return Opened(id=request.id, name=producer.name, last_sequence_id=producer.last_sequence_id)

    def _subscribe(self, request: Subscribe) -> None:
        consumer = self._clients[request.client].subscribe(
            request.topic,
            request.subscription,
            kind=request.kind,
            initial=request.initial,
            consumer_name=request.name,
            prefetch=request.queue,
            nack_delay_s=request.nack_delay_ms / 1000,
            acknowledges_parts=request.batch_index_ack,
            pending_chunked=request.max_pending_chunked,
            acknowledges_discarded=request.ack_oldest_chunked,
            replicated=request.replicated,
        )
        self._consumers[request.consumer] = _Consumer(consumer)

    def _receive(self, request: Receive) -> Message | Nothing | Cancelled:
        consumer = self._consumers[request.consumer]
        deadline_s = time.monotonic() + request.timeout_ms / 1000
        while request.id not in self._cancelled:
            left_s = max(0.001, deadline_s - time.monotonic())
            delivery = consumer.consumer.receive(timeout_s=min(left_s, _SLICE_S))
            if delivery is not None:
                consumer.received.append(delivery.without_payload())
                return _message_of(request.id, len(consumer.received) - 1, delivery)
            if time.monotonic() >= deadline_s:
                return Nothing(id=request.id)
        self._cancelled.discard(request.id)
        return Cancelled(id=request.id)

    def _close(self, name: str) -> None:
        if name in self._producers:
            self._producers.pop(name).close()
        elif name in self._consumers:
            self._consumers.pop(name).consumer.close()
        else:
            self._clients.pop(name).close()


def _client_of(request: Connect) -> OfficialClient:
    security = Security(
        token=None if request.token is None else Secret(request.token),
        trust_certs_file=request.trust_certs_file,
        allow_insecure=request.allow_insecure,
        verify_hostname=request.verify_hostname,
    )
    return OfficialClient(Service(request.url, security), timeout_s=request.timeout_ms / 1000)


def _answer_of(request: int, outcome: SendOutcome) -> AnyAnswer:
    match outcome:
        case Receipt(position=None, batch_index=index):
            return Sent(id=request, ledger=-1, entry=-1, batch_index=index)
        case Receipt(position=position, batch_index=index) if position is not None:
            return Sent(id=request, ledger=position.ledger, entry=position.entry, batch_index=index)
        case SendError(code, message):
            return Refused(id=request, code=code, message=message)
        case Lost(reason):
            return GaveUp(id=request, why="timeout" if "Timeout" in reason else "disconnected", message=reason)
        case _:
            raise AssertionError(outcome)


def _message_of(request: int, number: int, delivery: OfficialDelivery) -> Message:
    return Message(
        id=request,
        message=number,
        ledger=delivery.position.ledger,
        entry=delivery.position.entry,
        payload=delivery.payload,
        topic=delivery.topic,
        batch_index=delivery.batch_index,
        producer=delivery.producer_name,
        key=delivery.key or None,
        properties=dict(delivery.properties),
        redelivery_count=delivery.redelivery_count,
    )


def main() -> None:
    """Serve standard input until it ends; then end without closing anything."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no message of the protocol
    driver = Driver(out)
    for line in sys.stdin.buffer:
        try:
            driver.take(line)
        except msgspec.DecodeError as error:
            with suppress(msgspec.DecodeError):
                number = msgspec.json.decode(line, type=dict[str, Any]).get("id", 0)
                driver.say(Error(id=number, message=str(error)))
    os._exit(0)


if __name__ == "__main__":
    main()
