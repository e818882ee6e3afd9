"""Producers on chunked topics: pulsar-client's sessions through a proxy, and the lives of sessions.

It judges nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from conformance.clients.driver.connect import connect
from conformance.clients.driver.interface import OfficialTicket, ReleasedProducer
from conformance.clients.security.service import Service
from conformance.lockstep.chunking.proxied import ASK_TIMEOUT_S, ProxiedClient
from conformance.lockstep.sessions import (
    ANSWER_TIMEOUT_S,
    NO_ANSWER,
    OfficialSession,
    ProducerSession,
    WireSession,
    chunk_metadata,
)
from conformance.proxy.armed import ArmedFault
from conformance.proxy.events import Command
from conformance.proxy.faults import Cut, HoldFrames, Refuse, Which
from conformance.wait import Deadline
from model.events import Answer, Duplicate, Refused, Sent, Stored, Unknown
from model.log import Position
from model.operations import CutAfterSends, OpenProducer
from model.payloads import digest, is_whole, payload_of, payload_of_chunks
from model.traffic import Life, Part
from model.vocabulary import Entry

CLOSED: Final = "the session was closed from the other side"
_PAUSE_S: Final = 0.002


class WatchedSession(OfficialSession):
    """A session of pulsar-client through a proxy of its own, which sends each message alone and may chunk."""

    timeout_s: ClassVar = 30.0
    """It backs off between reconnects."""

    def __init__(self, service: Service, topic: str, operation: OpenProducer) -> None:
        """Open it. Raises the same as :meth:`ReleasedClient.open_producer`."""
        self._proxied = ProxiedClient(service, operation.library)
        self._operation = operation
        super().__init__(topic, operation.producer, self._proxied.client)

    def _open(self, producer: str) -> ReleasedProducer:
        wanted = self._operation
        return self._client.open_producer(
            self.topic, name=producer, chunking=wanted.is_chunking, compression=wanted.compression
        )

    def _send_one(self, entry: Entry) -> Sequence[OfficialTicket]:
        message = entry.messages[0]
        return [self._producer.send(message.sequence_id, payload_of(message), partition_key=message.key)]

    def sent(self) -> Sent:
        """The answers to the oldest send, and the commands meanwhile."""
        answers = self.collect()
        return Sent(answers, lives=tuple(lives_of(self._proxied.commands())))

    def send_and_cut(self, entries: Sequence[Entry], cut: CutAfterSends, unload: Callable[[], object]) -> Sent:
        """Send entries and cut the connection in between; ``unload`` unloads the topic if ``cut`` says so."""
        armed = self._proxied.proxy.inject(Cut(which=Which(kind="SEND", nth=cut.sends), where="after"))
        # Refuse the client's reconnects, unless it may reconnect at once.
        refused = None if cut.meanwhile == "reconnects" else self._proxied.proxy.inject(Refuse())
        self.send(entries)
        before: list[Life] = []
        if self._awaited(lambda: bool(armed.fired)):
            if cut.meanwhile == "dies":
                self.crash()
            elif cut.meanwhile == "unload":
                before += lives_of(self._proxied.commands())
                unload()
        for fault in (armed, refused):
            if fault is not None and self.is_open:
                fault.lift()
        sent = self.sent()
        return replace(sent, lives=(*before, *sent.lives), unloaded_after=len(before))

    def send_and_hold(self, entries: Sequence[Entry], sends: int) -> ArmedFault:
        """Send entries; ``sends`` SENDs pass, and the proxy holds the next one until the fault is lifted.

        Waits until those that passed are answered.
        """
        held = self._proxied.proxy.inject(HoldFrames(which=Which(kind="SEND", nth=sends + 1)))
        self.send(entries)
        self._awaited(lambda: bool(held.fired) and self._proxied.count("SEND_RECEIPT") >= sends)
        return held

    def _awaited(self, is_so: Callable[[], bool]) -> bool:
        """Wait until the condition holds or all sends are answered; whether it holds."""
        deadline = Deadline.after(ASK_TIMEOUT_S)
        while not is_so() and not deadline.passed:
            if all(ticket.outcome is not None for tickets in self._pending[-1] for ticket in tickets):
                break
            time.sleep(_PAUSE_S)
        return is_so()

    def crash(self) -> None:
        """Cut the client's connections; the answers until then can still be collected."""
        self._proxied.proxy.stop()
        super().crash()


class ChunkingSession(WatchedSession):
    """A session of pulsar-client on a topic where each chunk is an entry of the history, which pulsar-client makes."""

    def __init__(self, service: Service, topic: str, operation: OpenProducer) -> None:
        super().__init__(service, topic, operation)
        self._chunks: deque[int] = deque()

    def send(self, entries: Sequence[Entry]) -> None:
        """Send the one message of which these are all chunks."""
        payload, first = payload_of_chunks(entries), entries[0].messages[0]
        self._chunks.append(len(entries))
        self._pending.append([[self._producer.send(first.sequence_id, payload, partition_key=first.key)]])

    def collect(self) -> tuple[Answer, ...]:
        """The answer to each chunk of the oldest send, as far as one connection had them all.

        Receipts name only the sequence id, which all chunks share. The broker stores them in their order.
        """
        count, (answer,) = self._chunks.popleft(), super().collect()
        lives = [life for life in lives_of(self._proxied.commands()) if life.sends]
        if len(lives) != 1 or lives[0].refused or len(lives[0].sends) != count or len(lives[0].receipts) != count:
            sends = " and ".join(str(len(life.sends)) for life in lives) or "no"
            return (Unknown(f"pulsar-client sent {sends} chunks, in so many connections: {answer}"),) * count
        positions = [position for _, position in lives[0].receipts]
        if None not in positions:
            positions.sort()
        return tuple(Duplicate() if position is None else Stored(position) for position in positions)


def session_of(
    operation: OpenProducer, topic: str, service: Service, disturbed: Service, epoch: int | None = None
) -> ProducerSession:
    """Open a session of the client that an operation names, on a topic where each chunk is an entry of the history.

    ``disturbed``: where the network may fail its client, unless it has a proxy of its own. ``epoch``: that of the topic
    with which it reconnects.
    """
    if operation.is_chunking:
        return ChunkingSession(service, topic, operation)
    if operation.client == "wire":
        return WireSession(disturbed, topic, operation.producer, operation.access, epoch)
    client = connect(disturbed, timeout_s=ANSWER_TIMEOUT_S, library=operation.library)
    return OfficialSession(topic, operation.producer, client)


def why_not_sent(session: ProducerSession, entries: Sequence[Entry]) -> str | None:
    """Why a session cannot send these entries; None if it can."""
    if not session.is_open and not session.pending:
        return CLOSED
    if isinstance(session, ChunkingSession) and not is_whole(entries):
        return "pulsar-client sends all chunks of a message"
    if isinstance(session, OfficialSession) and any(one.delay_ms for entry in entries for one in entry.messages):
        return "only the wire client delays messages"
    return None


class CraftingSession(WireSession):
    """A session of the wire client, which sends crafted chunks."""

    _was_seen = False

    def sent(self, entries: Sequence[Entry]) -> Sent:
        """Send entries and wait for the answers."""
        learned = None if self._was_seen else self.last_sequence_id
        self.send(entries)
        answers = self.collect()
        self._was_seen = True
        return Sent(answers, lives=(_life_of(entries, answers, learned),))


def _life_of(entries: Sequence[Entry], answers: Sequence[Answer], last_sequence_id: int | None) -> Life:
    """The life of a session of the wire client, which sends exactly these entries."""
    return Life(
        sends=tuple(_part_of(entry) for entry in entries),
        receipts=tuple(
            (entry.lowest, answer.position if isinstance(answer, Stored) else None)
            for entry, answer in zip(entries, answers, strict=True)
            if isinstance(answer, Stored | Duplicate)
        ),
        refused=sum(isinstance(answer, Refused) and answer != NO_ANSWER for answer in answers),
        last_sequence_id=last_sequence_id,
    )


def _part_of(entry: Entry) -> Part:
    message = entry.messages[0]
    part = Part(message.sequence_id, digest(payload_of(message)))
    if message.chunk is None:
        return part
    metadata = chunk_metadata(message)
    return replace(
        part,
        uuid=metadata.uuid,
        chunk_id=metadata.chunk_id,
        chunks=metadata.num_chunks_from_msg,
        total_bytes=metadata.total_chunk_msg_size,
    )


def part_passed(command: Command) -> Part:
    """The part in a SEND or a MESSAGE."""
    assert command.sequence_id is not None
    assert command.digest is not None
    if command.chunk is None:
        return Part(command.sequence_id, command.digest)
    chunk = command.chunk
    return Part(command.sequence_id, command.digest, chunk.uuid, chunk.chunk_id, chunk.chunks, chunk.total_size_bytes)


class _Life:
    def __init__(self, last_sequence_id: int | None) -> None:
        self.last_sequence_id = last_sequence_id
        self.sends: list[Part] = []
        self.receipts: list[tuple[int, Position | None]] = []
        self.refused = 0

    def value(self) -> Life:
        return Life(tuple(self.sends), tuple(self.receipts), self.refused, self.last_sequence_id)


def lives_of(commands: Iterable[Command]) -> Iterable[Life]:
    """The lives of a client's only producer, from its commands; the first one may have begun earlier.

    A command that the broker sent counts, even if the client lost it.
    """
    lives: list[_Life] = []
    current: dict[int, _Life] = {}
    for command in commands:
        if command.kind not in ("PRODUCER_SUCCESS", "SEND", "SEND_RECEIPT", "SEND_ERROR"):
            continue
        if command.kind == "PRODUCER_SUCCESS" or command.connection not in current:
            last = command.sequence_id if command.kind == "PRODUCER_SUCCESS" else None
            current[command.connection] = _Life(last)
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
