"""Scenario 1: a reader that stores its last message id in one transaction with its state (DEDUP-17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.applications.death import Fate
from conformance.applications.deliveries import connected, keep_on, open_consumer, to_message
from conformance.applications.store import Store
from conformance.applications.words import CouldNotGoOn, Ended, Line, Order, Read
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.wire.consumer import WireConsumer, WireDelivery
from conformance.wait import Deadline
from model.log import Position

_PERMITS: Final = 1000


def read(order: Read, line: Line[Order]) -> None:
    """Go on behind the id in the database, and apply every message up to the topic's end as it is now."""
    store, fate, deadline = Store(Path(order.database)), Fate(order.death, line), Deadline.after(order.timeout_s)
    try:
        for delivery in keep_on(lambda: _deliveries(order, store.last_message(), deadline), deadline):
            fate.receive()
            store.apply_and_keep_id(to_message(delivery), fate.reach)
    except (ConnectionLost, NoAnswer, ServerRefused) as error:
        line.say(CouldNotGoOn(str(error)))
        return
    store.close()
    line.say(Ended(fate.received))


def _deliveries(order: Read, last: tuple[Position, int] | None, deadline: Deadline) -> Iterator[WireDelivery]:
    """What is behind the last message. If that is part of a batch, its entry is read again: there may be more in it."""
    start = None if last is None else _behind_what(*last)
    with connected(order.service) as client:
        reader = open_consumer(
            lambda: client.subscribe(
                order.topic,
                f"reader-{Path(order.database).stem}",
                kind="Exclusive",
                durable=False,
                initial="earliest",
                start_after=start,
                timeout_s=deadline.left_s,
            ),
            deadline,
        )
        end = reader.last_message_id(timeout_s=deadline.left_s)
        reader.flow(_PERMITS)
        if end is not None and (start is None or start < end):
            yield from _up_to(end, reader, last, deadline)


def _behind_what(last: Position, batch_index: int) -> Position:
    return last if batch_index < 0 else Position(last.ledger, last.entry - 1)


def _up_to(
    end: Position, reader: WireConsumer, last: tuple[Position, int] | None, deadline: Deadline
) -> Iterator[WireDelivery]:
    while True:
        delivery = reader.receive(timeout_s=deadline.left_s)
        if delivery is None:
            raise NoAnswer(f"the topic's end is {end}, and nothing more came")
        if last is None or (delivery.position, delivery.batch_index) > last:
            yield delivery
        if delivery.position >= end and delivery.batch_index in (-1, delivery.batch_size - 1):
            return
