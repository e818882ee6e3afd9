"""Scenario 1: a reader that stores its last message id in one transaction with its state (DEDUP-17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance.applications.death import Fate
from conformance.applications.deliveries import consumer, keep_on, to_delivery
from conformance.applications.store import Store
from conformance.clients.handles import ReceivedMessage, SubscriptionConfig, WireConsumerHandle
from conformance.clients.outcomes import CLIENT_ERRORS, NoAnswer
from conformance.wait import Deadline
from conformance.workers.line import Line
from conformance.workers.protocol import Ended, GaveUp, Order, ReadOrder
from model.log import Position


def read(order: ReadOrder, line: Line[Order]) -> None:
    """Continue after the id in the database, and apply every message up to the topic's end as it is now."""
    store, fate, deadline = Store(Path(order.database)), Fate(order.death, line), Deadline.after(order.timeout_s)
    try:
        for message in keep_on(lambda: _messages(order, store.last_message(), deadline), deadline):
            fate.receive()
            store.apply_and_keep_id(to_delivery(message), fate.reach)
    except CLIENT_ERRORS as error:
        line.send(GaveUp(str(error)))
        return
    store.close()
    line.send(Ended(fate.received))


def _messages(order: ReadOrder, last: tuple[Position, int] | None, deadline: Deadline) -> Iterator[ReceivedMessage]:
    """The messages after the last one. If that is part of a batch, its entry is read again: there may be more in it."""
    start = None if last is None else _start_after(*last)
    wanted = SubscriptionConfig(
        topic=order.topic,
        name=f"reader-{Path(order.database).stem}",
        kind="Exclusive",
        is_durable=False,
        start_after=start,
    )
    with consumer(order.service, wanted, deadline) as reader:
        end = reader.consumer.last_message_id(timeout_s=deadline.left_s)
        if end is not None and (start is None or start < end):
            yield from _up_to(end, reader, last, deadline)


def _start_after(last: Position, batch_index: int) -> Position:
    return last if batch_index < 0 else Position(last.ledger, last.entry - 1)


def _up_to(
    end: Position, reader: WireConsumerHandle, last: tuple[Position, int] | None, deadline: Deadline
) -> Iterator[ReceivedMessage]:
    while True:
        message = reader.receive(timeout_s=deadline.left_s)
        if message is None:
            raise NoAnswer(f"the topic's end is {end}, and no message arrives")
        if last is None or (message.position, message.batch_index) > last:
            yield message
        if message.position >= end and message.batch_index in (-1, message.batch_size - 1):
            return
