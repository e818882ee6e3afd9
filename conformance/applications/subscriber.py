"""Scenario 2: a consumer that stores every business id in one transaction with its state (DEDUP-18)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance.applications.death import Fate
from conformance.applications.deliveries import PAUSE_S, consumer, keep_on, to_delivery
from conformance.applications.store import Store
from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.handles import ReceivedMessage, SubscriptionConfig
from conformance.clients.outcomes import CLIENT_ERRORS, NoAnswer
from conformance.wait import Deadline
from conformance.workers.line import Line
from conformance.workers.protocol import Ended, GaveUp, Order, SubscribeOrder


def subscribe(order: SubscribeOrder, line: Line[Order]) -> None:
    """Apply every business id once, and acknowledge every message, until the broker says that none is left."""
    store, fate = Store(Path(order.database)), Fate(order.death, line)
    deadline = Deadline.after(order.timeout_s)
    try:
        for message in keep_on(lambda: _until_nothing_is_left(order, fate, deadline), deadline):
            fate.receive()
            store.apply_once(to_delivery(message), fate.reach)
    except CLIENT_ERRORS as error:
        line.send(GaveUp(str(error)))
        return
    store.close()
    line.send(Ended(fate.received))


def _until_nothing_is_left(order: SubscribeOrder, fate: Fate, deadline: Deadline) -> Iterator[ReceivedMessage]:
    """What is delivered, acknowledged after it was applied, a batch as a whole after its last message.

    If nothing arrives for a moment, the broker says whether anything is left.
    """
    wanted = SubscriptionConfig(topic=order.topic, name=order.subscription, kind="Exclusive")
    with Admin(order.admin) as admin, consumer(order.service, wanted, deadline) as handle:
        while True:
            message = handle.receive(timeout_s=PAUSE_S)
            if message is not None:
                yield message
                if message.batch_index in (-1, message.batch_size - 1):
                    handle.ack([message])
                    fate.reach("acknowledged")
            elif not (left := unacknowledged(admin.internal_stats(order.topic), order.subscription)):
                return
            elif deadline.passed:
                raise NoAnswer(f"{len(left)} entries are left, from {min(left)} on, and no message arrives")
