"""Producers of chunked messages on a real broker: pulsar-client's through a proxy, the wire client's with crafted
chunks.

What passed to the broker is told as lives: from when the broker let the producer in until it closed it. Nothing is
judged here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec.structs import replace

from conformance.clients import protocol_pb2 as pb
from conformance.clients.driver.client import OfficialTicket
from conformance.clients.outcomes import ConnectionLost, NoAnswer, Receipt, SendError, ServerRefused
from conformance.clients.security.service import Service
from conformance.clients.wire.client import WireClient
from conformance.lockstep.proxied import ASK_TIMEOUT_S, Tapped
from conformance.proxy.armed import Armed
from conformance.proxy.events import Command
from conformance.proxy.faults import Cut, Hold, Refuse, Which
from conformance.wait import Deadline
from model.chunking.payloads import digest, part_of, payload_of
from model.chunking.vocabulary import Crafted, Life, OpenChunking, Part, Payload, PayloadsSent, SendPayloads
from model.log import Position

SENT_TIMEOUT_S: Final = 30.0
"""How long pulsar-client may take until a message is confirmed: it waits ever longer between its tries to come back."""
_PAUSE_S: Final = 0.002


class ChunkProducer(Protocol):
    """A producer that was opened."""

    topic: str
    name: str
    last_sequence_id: int | None

    @property
    def is_open(self) -> bool:
        """Whether it can still send."""

    def leave(self, *, crashes: bool) -> None:
        """Close it, or cut its connection."""


class OfficialChunkProducer:
    """A producer of pulsar-client with a client and a proxy of its own."""

    def __init__(self, service: Service, topic: str, operation: OpenChunking) -> None:
        """Open it; errors as :meth:`OfficialClient.open_producer` has them."""
        self.topic = topic
        self.name = operation.producer
        self._proxied = Tapped(service)
        try:
            self._producer = self._proxied.client.open_producer(
                topic, name=operation.producer, chunking=operation.is_chunking, compression=operation.compression
            )
        except BaseException:
            self._proxied.end()
            raise
        self.last_sequence_id: int | None = self._producer.last_sequence_id
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether this side closed it: whatever the broker does, the client comes back."""
        return self._is_open

    def send(self, operation: SendPayloads, unload: Callable[[], object]) -> PayloadsSent:
        """Send payloads, with the fault that was asked for; ``unload`` unloads the topic if that says so."""
        faults = self._inject(operation)
        tickets = self.start(operation.payloads)
        lives: list[Life] = []
        moved_behind = 0
        if faults and self._await_cut(faults[0], lambda: all(ticket.outcome is not None for ticket in tickets)):
            if operation.meanwhile == "dies":
                self._end()
            elif operation.meanwhile == "unload":
                lives += lives_of(self._proxied.news())
                moved_behind = len(lives)
                unload()
        for fault in faults if self._is_open else ():
            fault.lift()
        sent = self.finish(tickets)
        return replace(sent, lives=(*lives, *sent.lives), moved_behind=moved_behind)

    def finish(self, tickets: Sequence[OfficialTicket]) -> PayloadsSent:
        """Wait for the answers; what passed meanwhile."""
        deadline = Deadline.after(SENT_TIMEOUT_S)
        for ticket in tickets:
            with suppress(NoAnswer):
                self._producer.answer(ticket, timeout_s=deadline.left_s)
        outcomes = [ticket.outcome for ticket in tickets]
        return PayloadsSent(
            confirmed=tuple(isinstance(outcome, Receipt) for outcome in outcomes),
            errors=tuple(outcome.code if isinstance(outcome, SendError) else "" for outcome in outcomes),
            lives=tuple(lives_of(self._proxied.news())),
            died=not self._is_open,
        )

    def held_behind(self, sends: int) -> Armed:
        """From now on, so many SENDs pass; what comes behind them stays in the proxy until that is lifted."""
        return self._proxied.proxy.inject(Hold(which=Which(kind="SEND", nth=sends + 1)))

    def start(self, payloads: Sequence[Payload]) -> list[OfficialTicket]:
        """Send payloads without waiting."""
        return [self._producer.send(one.sequence_id, payload_of(one), partition_key=one.key) for one in payloads]

    def _inject(self, operation: SendPayloads) -> list[Armed]:
        """Set the cut, and, unless the client may come back at once, that it is turned away."""
        if not operation.cut_after:
            return []
        cut = Cut(which=Which(kind="SEND", nth=operation.cut_after), where="after")
        faults = [self._proxied.proxy.inject(cut)]
        if operation.meanwhile != "reconnects":
            faults.append(self._proxied.proxy.inject(Refuse()))
        return faults

    def await_held(self, held: Armed, sends: int, tickets: Sequence[OfficialTicket]) -> None:
        """Wait until so many SENDs are answered and the next one is held, or all are, because there are no more."""
        deadline = Deadline.after(ASK_TIMEOUT_S)
        while not deadline.passed and any(ticket.outcome is None for ticket in tickets):
            if held.fired and self._proxied.count("SEND_RECEIPT") >= sends:
                return
            time.sleep(_PAUSE_S)

    def _await_cut(self, cut: Armed, is_answered: Callable[[], bool]) -> bool:
        """Wait until the connection is cut, or all is answered, because so much was never sent."""
        deadline = Deadline.after(ASK_TIMEOUT_S)
        while not cut.fired and not is_answered() and not deadline.passed:
            time.sleep(_PAUSE_S)
        return bool(cut.fired)

    def leave(self, *, crashes: bool) -> None:
        """Close it in good order, which a broker that does not take part does not hinder, or cut its connection."""
        if not crashes:
            with suppress(ConnectionLost, NoAnswer, ServerRefused):
                self._producer.close()
        self._end()

    def _end(self) -> None:
        self._is_open = False
        self._proxied.end()


class WireChunkProducer:
    """A producer of the wire client on a connection of its own: what is sent is what was asked for."""

    def __init__(self, service: Service, topic: str, operation: OpenChunking) -> None:
        """Open it; errors as :meth:`WireClient.open_producer` has them."""
        self.topic = topic
        self.name = operation.producer
        self._client = WireClient.connect(service, timeout_s=ASK_TIMEOUT_S)
        try:
            self._producer = self._client.open_producer(topic, name=operation.producer, timeout_s=ASK_TIMEOUT_S)
        except BaseException:
            self._client.abort()
            raise
        self.last_sequence_id: int | None = self._producer.last_sequence_id
        self._is_new = True

    @property
    def is_open(self) -> bool:
        """Whether neither side closed it."""
        return self._producer.is_open

    def send(self, chunks: Sequence[Crafted]) -> PayloadsSent:
        """Send crafted chunks, all in flight at once."""
        tickets = [
            self._producer.send(chunk.sequence_id, part_of(chunk), metadata=_metadata_of(chunk)) for chunk in chunks
        ]
        deadline = Deadline.after(ASK_TIMEOUT_S)
        for ticket in tickets:
            with suppress(NoAnswer):
                self._producer.answer(ticket, timeout_s=deadline.left_s)
        outcomes = [ticket.outcome for ticket in tickets]
        receipts = tuple((one.sequence_id, one.position) for one in outcomes if isinstance(one, Receipt))
        life = Life(
            sends=tuple(_part_of(chunk) for chunk in chunks),
            receipts=receipts,
            refused=sum(isinstance(one, SendError) for one in outcomes),
            told=self.last_sequence_id if self._is_new else None,
        )
        self._is_new = False
        return PayloadsSent(
            confirmed=tuple(isinstance(one, Receipt) for one in outcomes),
            errors=tuple(one.code if isinstance(one, SendError) else "" for one in outcomes),
            lives=(life,),
        )

    def leave(self, *, crashes: bool) -> None:
        """Close producer and connection, or cut it."""
        if crashes:
            self._client.abort()
        else:
            self._client.close(timeout_s=ASK_TIMEOUT_S)


def _metadata_of(chunk: Crafted) -> pb.MessageMetadata:
    if chunk.chunks == 1 and not chunk.uuid:
        return pb.MessageMetadata()
    total = chunk.chunks * len(part_of(chunk))
    return pb.MessageMetadata(
        uuid=chunk.uuid, chunk_id=chunk.chunk_id, num_chunks_from_msg=chunk.chunks, total_chunk_msg_size=total
    )


def _part_of(chunk: Crafted) -> Part:
    payload = part_of(chunk)
    if chunk.chunks == 1 and not chunk.uuid:
        return Part(chunk.sequence_id, digest(payload))
    total = chunk.chunks * len(payload)
    return Part(chunk.sequence_id, digest(payload), chunk.uuid, chunk.chunk_id, chunk.chunks, total)


def part_passed(command: Command) -> Part:
    """What a SEND or a MESSAGE says of itself."""
    assert command.sequence_id is not None
    assert command.digest is not None
    if command.chunk is None:
        return Part(command.sequence_id, command.digest)
    chunk = command.chunk
    return Part(command.sequence_id, command.digest, chunk.uuid, chunk.chunk_id, chunk.chunks, chunk.total_size_bytes)


class _Life:
    def __init__(self, told: int | None) -> None:
        self.told = told
        self.sends: list[Part] = []
        self.receipts: list[tuple[int, Position | None]] = []
        self.refused = 0

    def value(self) -> Life:
        return Life(tuple(self.sends), tuple(self.receipts), self.refused, self.told)


def lives_of(commands: Iterable[Command]) -> Iterable[Life]:
    """The lives of the one producer of a client, from its commands; the first one may have begun before these.

    What came to the proxy from the broker counts, though it may have been lost behind it.
    """
    lives: list[_Life] = []
    current: dict[int, _Life] = {}
    for command in commands:
        if command.kind not in ("PRODUCER_SUCCESS", "SEND", "SEND_RECEIPT", "SEND_ERROR"):
            continue
        if command.kind == "PRODUCER_SUCCESS" or command.connection not in current:
            told = command.sequence_id if command.kind == "PRODUCER_SUCCESS" else None
            current[command.connection] = _Life(told)
            lives.append(current[command.connection])
        life = current[command.connection]
        if command.kind == "SEND" and command.passed_at_s is not None:
            life.sends.append(part_passed(command))
        elif command.kind == "SEND_RECEIPT":
            assert command.sequence_id is not None
            life.receipts.append((command.sequence_id, command.positions[0]))
        elif command.kind == "SEND_ERROR":
            life.refused += 1
    return [life.value() for life in lives]


def payload_named(payload: Payload, number: int) -> Payload:
    """The same payload under a later sequence id."""
    return Payload(payload.sequence_id + number, payload.name, payload.size_bytes)
