"""Scenario 2: a consumer that stores every business id in one transaction with its state (DEDUP-18)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.applications.death import Fate
from conformance.applications.deliveries import PAUSE_S, connected, keep_on, open_consumer, to_message
from conformance.applications.store import Store
from conformance.applications.words import CouldNotGoOn, Ended, Line, Order, Subscribe
from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.wire.consumer import WireDelivery
from conformance.wait import Deadline

_PERMITS: Final = 1000


def subscribe(order: Subscribe, line: Line[Order]) -> None:
    """Apply every business id once, and acknowledge every message, until the broker says that none is left."""
    store, fate = Store(Path(order.database)), Fate(order.death, line)
    deadline = Deadline.after(order.timeout_s)
    try:
        for delivery in keep_on(lambda: _until_nothing_is_left(order, fate, deadline), deadline):
            fate.receive()
            store.apply_once(to_message(delivery), fate.reach)
    except (ConnectionLost, NoAnswer, ServerRefused) as error:
        line.say(CouldNotGoOn(str(error)))
        return
    store.close()
    line.say(Ended(fate.received))


def _until_nothing_is_left(order: Subscribe, fate: Fate, deadline: Deadline) -> Iterator[WireDelivery]:
    """What is delivered, acknowledged once it was taken; if nothing comes for a moment, the broker says if that is all.

    A batch is acknowledged as a whole, behind the last message of it.
    """
    with connected(order.service) as client, Admin(order.admin) as admin:
        consumer = open_consumer(
            lambda: client.subscribe(
                order.topic, order.subscription, kind="Exclusive", initial="earliest", timeout_s=deadline.left_s
            ),
            deadline,
        )
        consumer.flow(_PERMITS)
        while True:
            delivery = consumer.receive(timeout_s=PAUSE_S)
            if delivery is not None:
                yield delivery
                if delivery.batch_index in (-1, delivery.batch_size - 1):
                    consumer.ack([delivery.position])
                    fate.reach("acknowledged")
            elif not (left := unacknowledged(admin.internal_stats(order.topic), order.subscription)):
                return
            elif deadline.passed:
                raise NoAnswer(f"{len(left)} entries are left, from {min(left)} on, and nothing more comes")
