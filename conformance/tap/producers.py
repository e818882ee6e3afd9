"""Translates what producers do: each message that was sent, when its outcome is known or will never be."""

from __future__ import annotations

from collections import deque
from typing import Final

from conformance.history.recorded import CallOutcome, Kind
from conformance.proxy.events import Command
from conformance.tap.handles import PendingSend, Row, TapConnection, TapProducer, fields_of
from conformance.tap.times import NOTICED_WITHIN_NS
from conformance.tap.topics import Topics
from model.log import Position

MOST_PENDING: Final = 100_000
"""How many SENDs of a producer may be without an answer; older ones are unknown."""

REFUSALS: Final = frozenset({"ChecksumError", "NotAllowedError", "TopicTerminatedError"})
"""The errors after which a message is certainly not stored."""


class Producers:
    """Handlers of the commands of producers."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def created(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        if command.producer_id is None or command.topic is None or command.producer_id in connection.producers:
            return
        topic = self._topics.named(command.topic)
        if topic is None:
            return
        told = -1 if command.sequence_id is None else command.sequence_id
        connection.producers[command.producer_id] = TapProducer(
            topic=topic, name=command.producer or "", told=told, pending=deque(), highest=-1, refused=set()
        )
        if topic.producers is not None:
            topic.producers.add(command.producer or "")
        self._topics.joined(topic, at_ns)

    def send(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        producer = connection.producers.get(command.producer_id or 0)
        if producer is None or command.sequence_id is None:
            return
        if len(producer.pending) >= MOST_PENDING:
            self._sent(producer, producer.pending.popleft(), CallOutcome.UNKNOWN, None, at_ns)
        producer.pending.append(PendingSend(command.sequence_id, at_ns, command.contents, command.chunk))
        if command.contents is not None:
            last = max((message.sequence_id for message in command.contents.messages), default=-1)
            if command.sequence_id <= producer.highest < last:
                producer.topic.not_deduplicated = (
                    "its batches have sequence ids between those of others (batched by key)"
                )
            producer.highest = max(producer.highest, last)

    def receipt(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        producer = connection.producers.get(command.producer_id or 0)
        send = None if producer is None else producer.answered(command.sequence_id or 0)
        if producer is None or send is None:
            return
        position = command.positions[0]
        self._sent(producer, send, CallOutcome.DUPLICATE if position is None else CallOutcome.OK, position, at_ns)

    def send_error(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        producer = connection.producers.get(command.producer_id or 0)
        send = None if producer is None else producer.answered(command.sequence_id or 0)
        if producer is not None and send is not None:
            outcome = CallOutcome.FAILED if command.error in REFUSALS else CallOutcome.UNKNOWN
            self._sent(producer, send, outcome, None, at_ns)

    def _sent(
        self, producer: TapProducer, send: PendingSend, outcome: CallOutcome, position: Position | None, at_ns: int
    ) -> None:
        """Record the messages of a SEND whose outcome is known, or will never be."""
        topic, contents, chunk = producer.topic, send.contents, send.chunk
        if position is not None and (topic.first is None or position < topic.first):
            topic.first = position
        if contents is None:
            topic.trouble = "it has batches that the tap cannot read, because they are encrypted"
            return
        if chunk is not None:
            if outcome in (CallOutcome.FAILED, CallOutcome.UNKNOWN):
                producer.refused.add(chunk.uuid)
            if chunk.chunk_id + 1 < chunk.chunks:
                return
            if chunk.uuid in producer.refused:
                producer.refused.discard(chunk.uuid)
                outcome = CallOutcome.UNKNOWN
        is_of_earlier = outcome is CallOutcome.DUPLICATE and send.sequence_id <= producer.told
        if contents.is_transactional or is_of_earlier:  # it may be aborted; or its first copy is from before the tap
            outcome = CallOutcome.UNKNOWN
        stored = position if outcome is CallOutcome.OK else None
        for message in contents.messages:
            place: Row = {}
            if stored is not None:
                place = {"ledger": stored.ledger, "entry": stored.entry, "batch_index": message.batch_index}
            self._topics.record(
                Kind.SEND,
                topic=topic.name,
                producer=producer.name,
                outcome=outcome,
                chunks=None if chunk is None else chunk.chunks,
                invoked_ns=send.invoked_ns,
                completed_ns=at_ns,
                **place,
                **fields_of(message),
            )

    def close(self, connection: TapConnection, command: Command, _at_ns: int) -> None:
        if command.request_id is not None:
            producer_id = command.producer_id or 0

            def closed(at_ns: int, is_success: bool | None) -> None:
                if is_success:
                    self.left(connection, producer_id, at_ns)

            connection.closing[command.request_id] = closed

    def closed_by_broker(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        producer = connection.producers.get(command.producer_id or 0)
        if producer is not None:
            self._topics.unseen(producer.topic, at_ns - NOTICED_WITHIN_NS)
            self.left(connection, command.producer_id or 0, at_ns)

    def left(self, connection: TapConnection, producer_id: int, at_ns: int) -> None:
        producer = connection.producers.pop(producer_id, None)
        if producer is not None:
            for send in producer.pending:
                self._sent(producer, send, CallOutcome.UNKNOWN, None, at_ns)
            self._topics.left(producer.topic, at_ns)
