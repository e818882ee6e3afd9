"""Translates what consumers do: joins and leaves, dispatches, acks, and redelivery requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from conformance.clients.wire.entries import is_left
from conformance.history.recorded import CallOutcome, Kind
from conformance.proxy.events import Command
from conformance.tap.handles import (
    PendingAck,
    TapConnection,
    TapConsumer,
    TapSubscription,
    fields_of,
    rows_of_entry,
)
from conformance.tap.times import NOTICED_WITHIN_NS, ns
from conformance.tap.topics import Topics
from model.log import Position

MOST_PENDING: Final = 100_000
"""How many ACKs of a connection may be without an answer; older ones are unknown."""

LAST_INDEX: Final = 2**31 - 1
"""A batch index after all others: of a cumulative ack of a batch of unknown size."""


class Consumers:
    """Handlers of the commands of consumers."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def subscribe(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        topic = self._topics.named(command.topic or "")
        if topic is None or command.request_id is None or command.consumer_id is None:
            return
        name = command.subscription or ""
        subscription = topic.subscriptions.get(name) or TapSubscription(
            name, is_durable=command.is_durable is not False
        )
        consumer = TapConsumer(
            topic=topic,
            subscription=subscription,
            who={
                "subscription": name,
                "subscription_type": command.subscription_type,
                "consumer": f"{command.consumer or ''}@{command.connection}.{command.consumer_id}",
            },
            subscribed_ns=at_ns,
            is_replicated=bool(command.is_replicated),
        )
        connection.subscribing[command.request_id] = command.consumer_id, consumer

    def subscribed(self, connection: TapConnection, consumer_id: int, consumer: TapConsumer, at_ns: int) -> None:
        self.left(connection, consumer_id, at_ns, at_ns)  # the same again, if it was still there
        topic, subscription = consumer.topic, consumer.subscription
        connection.consumers[consumer_id] = consumer
        topic.subscriptions[subscription.name] = subscription
        subscription.consumers += 1
        self._topics.record(
            Kind.SUBSCRIBE,
            topic=topic.name,
            replicated=consumer.is_replicated,
            invoked_ns=consumer.subscribed_ns,
            completed_ns=at_ns,
            **consumer.who,
        )
        self._topics.joined(topic, at_ns)

    def message(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        consumer = connection.consumers.get(command.consumer_id or 0)
        position = command.positions[0]
        if consumer is None or position is None:
            return
        contents, chunk = command.contents, command.chunk
        if contents is None:
            consumer.subscription.trouble = "it has batches that the tap cannot read, because they are encrypted"
            return
        if not contents.is_whole:
            return
        ack_set = command.ack_sets[0] if command.ack_sets else ()
        who = consumer.who
        if contents.batch_size:
            dropped = consumer.subscription.dispatched(position, contents.batch_size)
            if dropped is not None:
                self._acknowledged_perhaps(consumer, *dropped, at_ns)
            if who["subscription_type"] == "Key_Shared" and any(one.key != contents.key for one in contents.messages):
                self._topics.say_once(
                    f"{consumer.topic.name}: a batch has messages of several keys, which Key_Shared dispatches as one; "
                    "the order and the consumers of their keys are not judged (batch by key)"
                )
                who = {**who, "subscription_type": None}
        for message in contents.messages:
            if contents.batch_size and not is_left(message.batch_index, ack_set):
                continue
            self._topics.record(
                Kind.DISPATCH,
                topic=consumer.topic.name,
                producer=command.producer,
                ledger=position.ledger,
                entry=position.entry,
                batch_index=message.batch_index,
                redeliveries=command.redelivery_count,
                delayed=contents.is_delayed or None,
                chunk_uuid=None if chunk is None else chunk.uuid,
                chunks=None if chunk is None else chunk.chunks,
                invoked_ns=at_ns,
                completed_ns=at_ns,
                **fields_of(message),
                **who,
            )

    def ack(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        consumer = connection.consumers.get(command.consumer_id or 0)
        if consumer is None:
            return
        consumer.subscription.acks += 1
        pending = PendingAck(consumer, at_ns, [], ())
        for index, position in enumerate(command.positions):
            ack_set = command.ack_sets[index] if command.ack_sets else ()
            if position is not None:
                self._add_rows(pending, command, position, ack_set)
        if command.request_id is None:
            self.acknowledged(pending, CallOutcome.UNKNOWN, ns(command.passed_at_s or command.came_at_s))
            return
        if len(connection.acks) >= MOST_PENDING:
            self.acknowledged(connection.acks.pop(next(iter(connection.acks))), CallOutcome.UNKNOWN, at_ns)
        connection.acks[command.request_id] = pending

    def _add_rows(self, pending: PendingAck, command: Command, position: Position, ack_set: Sequence[int]) -> None:
        """The rows for one position of an ACK.

        Whether the broker takes acks of parts of batches is its setting: these are never certain. Neither are those in
        a transaction, and those of a subscription that is not durable.
        """
        subscription = pending.consumer.subscription
        size = subscription.batches.get(position)
        is_certain = not ack_set and not command.is_transactional and subscription.is_durable
        if command.is_cumulative:
            left = next((index for index in range(64 * len(ack_set)) if is_left(index, ack_set)), None)
            if left is not None and ack_set:
                index = left - 1
            elif size is not None:
                index = size - 1
            else:
                index = LAST_INDEX
            rows = rows_of_entry(position, [index])
        elif ack_set:
            rows = rows_of_entry(position, [index for index in range(size or 0) if not is_left(index, ack_set)])
        else:
            rows = rows_of_entry(position, _indexes(size))
        kind = Kind.ACK_CUMULATIVE if command.is_cumulative else Kind.ACK
        pending.rows += [{**row, "kind": kind, "is_certain": is_certain} for row in rows]
        if not ack_set:
            pending.positions = (*pending.positions, position)

    def ack_response(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        pending = connection.acks.pop(-1 if command.request_id is None else command.request_id, None)
        if pending is not None:
            self.acknowledged(pending, CallOutcome.OK if command.error is None else CallOutcome.FAILED, at_ns)

    def acknowledged(self, pending: PendingAck, outcome: CallOutcome, at_ns: int) -> None:
        consumer = pending.consumer
        for row in pending.rows:
            kind, is_certain = row.pop("kind"), row.pop("is_certain")
            self._topics.record(
                kind,
                topic=consumer.topic.name,
                outcome=outcome if is_certain else CallOutcome.UNKNOWN,
                invoked_ns=pending.invoked_ns,
                completed_ns=at_ns,
                **row,
                **consumer.who,
            )
            if kind is Kind.ACK_CUMULATIVE and outcome is not CallOutcome.FAILED:
                _forget_up_to(consumer.subscription.batches, Position(row["ledger"], row["entry"]))
        if outcome is not CallOutcome.FAILED:
            for position in pending.positions:
                consumer.subscription.batches.pop(position, None)

    def _acknowledged_perhaps(self, consumer: TapConsumer, position: Position, size: int, at_ns: int) -> None:
        """A batch is no longer remembered, so that its ack will not be recognized."""
        rows = [{**row, "kind": Kind.ACK, "is_certain": False} for row in rows_of_entry(position, range(size))]
        self.acknowledged(PendingAck(consumer, at_ns, rows, ()), CallOutcome.UNKNOWN, at_ns)

    def redeliver(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        consumer = connection.consumers.get(command.consumer_id or 0)
        if consumer is None:
            return
        times = {"topic": consumer.topic.name, "invoked_ns": at_ns, "completed_ns": at_ns, **consumer.who}
        if not command.positions:
            self._topics.record(Kind.REDELIVER, **times)
        for position in command.positions:
            if position is not None:
                for row in rows_of_entry(position, _indexes(consumer.subscription.batches.get(position))):
                    self._topics.record(Kind.NACK, **row, **times)

    def seek(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        consumer = connection.consumers.get(command.consumer_id or 0)
        if consumer is not None and command.request_id is not None:
            connection.closing[command.request_id] = partial(self._reset, consumer, "it was reset by a seek", at_ns)

    def _reset(self, consumer: TapConsumer, trouble: str, invoked_ns: int, at_ns: int, is_success: bool | None) -> None:
        """A subscription was set to a position that the wire does not show, if the request was answered so."""
        if is_success is False:
            return
        consumer.subscription.trouble = trouble
        self._topics.record(
            Kind.SEEK,
            topic=consumer.topic.name,
            subscription=consumer.subscription.name,
            outcome=CallOutcome.OK if is_success else CallOutcome.UNKNOWN,
            invoked_ns=invoked_ns,
            completed_ns=at_ns,
        )

    def unsubscribe(self, connection: TapConnection, command: Command, asked_ns: int) -> None:
        consumer_id = command.consumer_id or 0
        consumer = connection.consumers.get(consumer_id)
        if consumer is None or command.request_id is None:
            return

        def answered(at_ns: int, is_success: bool | None) -> None:
            self._reset(consumer, "it was deleted by an unsubscribe", asked_ns, at_ns, is_success)
            if is_success:
                self.left(connection, consumer_id, asked_ns, at_ns)

        consumer.left_ns = asked_ns
        connection.closing[command.request_id] = answered

    def close(self, connection: TapConnection, command: Command, asked_ns: int) -> None:
        consumer_id = command.consumer_id or 0
        consumer = connection.consumers.get(consumer_id)
        if consumer is None or command.request_id is None:
            return

        def answered(at_ns: int, is_success: bool | None) -> None:
            if is_success:
                self.left(connection, consumer_id, asked_ns, at_ns)

        consumer.left_ns = asked_ns
        connection.closing[command.request_id] = answered

    def closed_by_broker(self, connection: TapConnection, command: Command, at_ns: int) -> None:
        consumer = connection.consumers.get(command.consumer_id or 0)
        if consumer is not None:
            self._topics.unseen(consumer.topic, at_ns - NOTICED_WITHIN_NS)
            self.left(connection, command.consumer_id or 0, at_ns - NOTICED_WITHIN_NS, at_ns)

    def left(self, connection: TapConnection, consumer_id: int, invoked_ns: int, at_ns: int) -> None:
        consumer = connection.consumers.pop(consumer_id, None)
        if consumer is None:
            return
        topic, subscription = consumer.topic, consumer.subscription
        self._topics.record(
            Kind.UNSUBSCRIBE, topic=topic.name, invoked_ns=invoked_ns, completed_ns=at_ns, **consumer.who
        )
        subscription.consumers -= 1
        if not subscription.is_durable and not subscription.consumers:
            topic.subscriptions.pop(subscription.name, None)
        self._topics.left(topic, at_ns)


def _indexes(batch_size: int | None) -> Sequence[int]:
    """The batch indexes of an entry; that of a single message without a size."""
    return (-1,) if batch_size is None else range(batch_size)


def _forget_up_to(batches: dict[Position, int], position: Position) -> None:
    while batches and (first := next(iter(batches))) <= position:
        del batches[first]
