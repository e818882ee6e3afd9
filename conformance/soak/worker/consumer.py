"""One consumer of a soak: it receives, keeps messages a little, acknowledges them, closes, and subscribes again.

In the quiesce phase it stays and acknowledges everything. One of a replicated subscription moves to another cluster
when it is ordered to, together with the others.

Some consumers are the wire client's: pulsar-client does not tell whether the broker has processed an ack. Only with
confirmed acks can it be seen that an acknowledged message is redelivered (ACK-09).
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from typing import Final

from conformance.clients.handles import OfficialConsumerHandle, ReceivedMessage, SubscriptionConfig, WireConsumerHandle
from conformance.clients.outcomes import CLIENT_ERRORS
from conformance.recorder import RecordedHandle
from conformance.soak.worker.context import OPERATION_TIMEOUT_S, Context
from conformance.soak.worker.payloads import is_whole
from conformance.wait import Deadline
from conformance.workers.client_plan import ConsumerRole
from model.vocabulary import IN_ORDER

RETRY_S: Final = 0.5
RECEIVE_S: Final = 0.2
HELD_AT_MOST: Final = 20
NACKED: Final = 0.01
"""The share of messages that are negatively acknowledged, where some are."""
PREFETCH: Final = 200
SLOW_S: Final = 0.04
"""How long a consumer of a late subscription takes for a message at most: something is to be left when an update has
reached the other clusters, and cursors were read there."""


class ConsumerThread(threading.Thread):
    """Runs until the process ends."""

    def __init__(self, plan: ConsumerRole, context: Context) -> None:
        super().__init__(name=plan.name, daemon=True)
        self.plan = plan
        self._clients = context.clients
        self._cluster = plan.cluster
        self._counters = context.counters
        self._quiesce = context.quiesce
        self._ending = context.ending
        self._reconnect = threading.Event()
        self._chance = random.Random(plan.seed)
        self._is_cumulative = plan.kind in IN_ORDER and plan.comes_and_goes
        self._unacknowledged: list[ReceivedMessage] = []
        self._was_open = False
        self.failure: str | None = None

    def reconnect(self, cluster: str | None = None) -> None:
        """Have it close and subscribe again, at this cluster if one is named; a late one subscribes."""
        self._cluster = self._cluster if cluster is None else cluster
        self._reconnect.set()

    @property
    def is_ready(self) -> bool:
        """Whether it has subscribed, or is to only later."""
        return self.plan.is_later or self._was_open

    def run(self) -> None:
        try:
            while self.plan.is_later and not (self._ending.is_set() or self._reconnect.wait(RETRY_S)):
                pass
            while not self._ending.is_set():
                consumer = self._subscribed()
                if consumer is not None:
                    self._use(consumer)
        except Exception as error:  # noqa: BLE001 - it is reported, and ends the soak
            self.failure = f"the consumer {self.name} failed: {type(error).__name__}: {error}"

    def _subscribed(self) -> RecordedHandle | None:
        self._reconnect.clear()  # before it looks which cluster
        plan, cluster = self.plan, self._clients[self._cluster]
        wanted = SubscriptionConfig(
            topic=plan.topic,
            name=plan.subscription,
            kind=plan.kind,
            consumer_name=plan.name,
            prefetch=PREFETCH,
            is_replicated=plan.is_replicated or None,
            nack_delay_s=1.0,
        )
        try:
            handle = (
                WireConsumerHandle(cluster.service, wanted, timeout_s=OPERATION_TIMEOUT_S)
                if plan.is_confirmed
                else OfficialConsumerHandle(
                    cluster.service, wanted, timeout_s=OPERATION_TIMEOUT_S, client=cluster.client
                )
            )
        except CLIENT_ERRORS:  # the broker is away, or another consumer is still connected
            self._ending.wait(RETRY_S)
            return None
        self._counters.add(reopened=self._was_open)
        self._was_open = True
        return cluster.recorder.handle(handle, wanted, is_confirmed=plan.is_confirmed)

    def _use(self, consumer: RecordedHandle) -> None:
        self._unacknowledged = []
        stays = Deadline.after(self._chance.uniform(10, 60))
        with suppress(*CLIENT_ERRORS):  # it was closed, and subscribes again
            while not self._leaves(stays):
                self._receive(consumer)
            if self._chance.random() < 0.5:
                self._acknowledge(consumer)
        if self._ending.is_set():
            return  # it ends with its process
        consumer.close()
        if not self._quiesce.is_set():
            self._ending.wait(self._chance.uniform(0, 2))

    def _leaves(self, stays: Deadline) -> bool:
        is_free = self.plan.comes_and_goes and not self._quiesce.is_set()
        return self._ending.is_set() or self._reconnect.is_set() or (is_free and stays.passed)

    def _receive(self, consumer: RecordedHandle) -> None:
        message = consumer.receive(timeout_s=RECEIVE_S)
        if message is None:
            self._acknowledge(consumer)
            return
        self._counters.add(received=1, redelivered=message.redelivery_count > 0, damaged=not is_whole(message.payload))
        if self.plan.is_later and not self._quiesce.is_set():
            self._ending.wait(self._chance.uniform(0, SLOW_S))
        if self.plan.fails_sometimes and not self._quiesce.is_set() and self._chance.random() < NACKED:
            consumer.redeliver([message])
            self._counters.add(nacked=1)
            return
        self._unacknowledged.append(message)
        if len(self._unacknowledged) > self._chance.randint(0, HELD_AT_MOST):
            self._acknowledge(consumer)

    def _acknowledge(self, consumer: RecordedHandle) -> None:
        unacknowledged, self._unacknowledged = self._unacknowledged, []
        if not unacknowledged:
            return
        if self._is_cumulative:
            consumer.ack(unacknowledged[-1:], cumulative=True)
        else:
            self._chance.shuffle(unacknowledged)
            consumer.ack(unacknowledged)
        self._counters.add(acknowledged=len(unacknowledged))
