"""Producers on chunked topics: pulsar-client's session through a proxy, and what sessions sent, as lives.

Nothing is judged here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from conformance.clients.driver.client import OfficialProducer, OfficialTicket
from conformance.clients.security.service import Service
from conformance.lockstep.chunking.proxied import ASK_TIMEOUT_S, Tapped
from conformance.lockstep.sessions import NO_ANSWER, OfficialSession, WireSession, chunk_metadata
from conformance.proxy.armed import Armed
from conformance.proxy.events import Command
from conformance.proxy.faults import Cut, Hold, Refuse, Which
from conformance.wait import Deadline
from model.events import Answer, Duplicate, Refused, Sent, Stored
from model.log import Position
from model.operations import CutAfterSends, OpenProducer
from model.payloads import digest, payload_of
from model.traffic import Life, Part
from model.vocabulary import Entry

_PAUSE_S: Final = 0.002


class WatchedSession(OfficialSession):
    """A session of pulsar-client through a proxy of its own, which sends each message alone and may chunk."""

    timeout_s: ClassVar = 30.0
    """It waits ever longer between its tries to come back."""

    def __init__(self, service: Service, topic: str, operation: OpenProducer) -> None:
        """Open it; errors as :meth:`OfficialClient.open_producer` has them."""
        self._proxied = Tapped(service)
        self._operation = operation
        super().__init__(service, topic, operation.producer, self._proxied.client)

    def _open(self, producer: str) -> OfficialProducer:
        wanted = self._operation
        return self._client.open_producer(
            self.topic, name=producer, chunking=wanted.is_chunking, compression=wanted.compression
        )

    def _send_one(self, entry: Entry) -> Sequence[OfficialTicket]:
        message = entry.messages[0]
        return [self._producer.send(message.sequence_id, payload_of(message), partition_key=message.key)]

    def sent(self) -> Sent:
        """Wait for the answers to the oldest send; what passed meanwhile."""
        answers = self.collect()
        return Sent(answers, lives=tuple(lives_of(self._proxied.news())))

    def send_and_cut(self, entries: Sequence[Entry], cut: CutAfterSends, unload: Callable[[], object]) -> Sent:
        """Send entries, with the connection cut on the way; ``unload`` unloads the topic if that is wanted."""
        armed = self._proxied.proxy.inject(Cut(which=Which(kind="SEND", nth=cut.sends), where="after"))
        # Unless the client may come back at once, it is turned away.
        refused = None if cut.meanwhile == "reconnects" else self._proxied.proxy.inject(Refuse())
        self.send(entries)
        before: list[Life] = []
        if self._awaited(lambda: bool(armed.fired)):
            if cut.meanwhile == "dies":
                self.crash()
            elif cut.meanwhile == "unload":
                before += lives_of(self._proxied.news())
                unload()
        for fault in (armed, refused):
            if fault is not None and self.is_open:
                fault.lift()
        sent = self.sent()
        return replace(sent, lives=(*before, *sent.lives), unloaded_after=len(before))

    def send_and_hold(self, entries: Sequence[Entry], sends: int) -> Armed:
        """Send entries, of which so many SENDs pass; the next one stays in the proxy until that is lifted.

        Waits until those are answered, or all are, because there are no more.
        """
        held = self._proxied.proxy.inject(Hold(which=Which(kind="SEND", nth=sends + 1)))
        self.send(entries)
        self._awaited(lambda: bool(held.fired) and self._proxied.count("SEND_RECEIPT") >= sends)
        return held

    def _awaited(self, is_so: Callable[[], bool]) -> bool:
        """Wait until it is so, or all is answered; whether it is."""
        deadline = Deadline.after(ASK_TIMEOUT_S)
        while not is_so() and not deadline.passed:
            if all(ticket.outcome is not None for tickets in self._pending[-1] for ticket in tickets):
                break
            time.sleep(_PAUSE_S)
        return is_so()

    def crash(self) -> None:
        """Cut the client's connections; what passed until then can still be collected."""
        self._proxied.proxy.stop()
        super().crash()


class CraftingSession(WireSession):
    """A session of the wire client, which sends crafted chunks."""

    _was_seen = False

    def sent(self, entries: Sequence[Entry]) -> Sent:
        """Send entries, and wait for the answers."""
        learned = None if self._was_seen else self.last_sequence_id
        self.send(entries)
        answers = self.collect()
        self._was_seen = True
        return Sent(answers, lives=(_life_of(entries, answers, learned),))


def _life_of(entries: Sequence[Entry], answers: Sequence[Answer], last_sequence_id: int | None) -> Life:
    """The life of a session of the wire client, which sends what it was asked to."""
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
    said = chunk_metadata(message)
    return replace(
        part,
        uuid=said.uuid,
        chunk_id=said.chunk_id,
        chunks=said.num_chunks_from_msg,
        total_bytes=said.total_chunk_msg_size,
    )


def part_passed(command: Command) -> Part:
    """What a SEND or a MESSAGE says of itself."""
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
    """The lives of the one producer of a client, from its commands; the first one may have begun before these.

    What came to the proxy from the broker counts, though it may have been lost behind it.
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
