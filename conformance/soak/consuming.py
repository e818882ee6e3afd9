"""One consumer of a soak: it receives, holds messages a little, acknowledges them one way or another, leaves, returns.

Once the soak heals it stays, and acknowledges whatever comes. One of a replicated subscription goes to another cluster
when it is told to, together with the others.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import pulsar

from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.recorder import RecordedConsumer
from conformance.soak.confirming import ConfirmingConsumer
from conformance.soak.payloads import is_whole
from conformance.soak.plan import Consume
from conformance.soak.seat import Seat
from conformance.soak.tally import Tally

RETRY_S: Final = 0.5
RECEIVE_MS: Final = 200
HELD_AT_MOST: Final = 20
FAILS: Final = 0.01
"""How many of the messages are given back instead of acknowledged, where that is done."""
PREFETCH: Final = 200
SLOW_S: Final = 0.04
"""How long at most a consumer that came later takes for a message: something is to be left when an update has
come to the other clusters and cursors were read there."""

GONE: Final = (pulsar.PulsarException, ConnectionLost, NoAnswer, ServerRefused)
"""What both kinds of client raise when a consumer cannot go on; it then comes again."""

_TYPES: Final = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Shared": pulsar.ConsumerType.Shared,
    "Failover": pulsar.ConsumerType.Failover,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}


class Consuming(threading.Thread):
    """Runs until ``ending`` is set."""

    def __init__(
        self,
        plan: Consume,
        seats: Mapping[str, Seat],
        tally: Tally,
        *,
        healing: threading.Event,
        ending: threading.Event,
    ) -> None:
        super().__init__(name=plan.name, daemon=True)
        self.plan = plan
        self._seats = seats
        self._cluster = plan.cluster
        self._tally = tally
        self._healing = healing
        self._ending = ending
        self._renewing = threading.Event()
        self._chance = random.Random(plan.seed)
        self._is_cumulative = plan.kind in ("Exclusive", "Failover") and plan.comes_and_goes
        self._held: list[Any] = []
        self.is_open = threading.Event()
        self.failure: str | None = None

    def renew(self, cluster: str | None = None) -> None:
        """Have it leave and come again, to this cluster if one is named; one that is to come later comes."""
        self._cluster = self._cluster if cluster is None else cluster
        self._renewing.set()

    @property
    def is_ready(self) -> bool:
        """Whether it is open, or is to come only later."""
        return self.plan.is_later or self.is_open.is_set()

    def run(self) -> None:
        """Receive."""
        try:
            while self.plan.is_later and not (self._ending.is_set() or self._renewing.wait(RETRY_S)):
                pass
            while not self._ending.is_set():
                consumer = self._subscribed()
                if consumer is not None:
                    self._use(consumer)
        except Exception as error:  # noqa: BLE001 - it is told, and ends the soak
            self.failure = f"the consumer {self.name} failed: {type(error).__name__}: {error}"

    def _subscribed(self) -> RecordedConsumer | None:
        self._renewing.clear()  # before it looks where to go
        plan, seat = self.plan, self._seats[self._cluster]
        try:
            consumer = ConfirmingConsumer(seat.service, plan) if plan.is_confirmed else self._of_pulsar_client(seat)
        except GONE:  # away, or somebody else is still there
            self._ending.wait(RETRY_S)
            return None
        self._tally.add(reopened=self.is_open.is_set())
        self.is_open.set()
        return seat.recorder.consumer(
            consumer, _TYPES[plan.kind], is_confirmed=plan.is_confirmed, is_replicated=plan.is_replicated
        )

    def _of_pulsar_client(self, seat: Seat) -> Any:
        plan = self.plan
        return seat.client.subscribe(
            plan.topic,
            plan.subscription,
            consumer_type=_TYPES[plan.kind],
            consumer_name=plan.name,
            receiver_queue_size=PREFETCH,
            initial_position=pulsar.InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=1000,
            replicate_subscription_state_enabled=plan.is_replicated,
        )

    def _use(self, consumer: RecordedConsumer) -> None:
        self._held = []
        leaves_at_s = time.monotonic() + self._chance.uniform(10, 60)
        with contextlib.suppress(*GONE):  # its place is gone; it comes again
            while not self._leaves(leaves_at_s):
                self._receive(consumer)
            if self._chance.random() < 0.5:
                self._acknowledge(consumer)
        if self._ending.is_set():
            return  # everything is over: it ends with its process
        with contextlib.suppress(*GONE):  # what is gone need not leave; what is not would keep its messages
            consumer.close()
        if not self._healing.is_set():
            self._ending.wait(self._chance.uniform(0, 2))

    def _leaves(self, at_s: float) -> bool:
        is_free = self.plan.comes_and_goes and not self._healing.is_set()
        return self._ending.is_set() or self._renewing.is_set() or (is_free and time.monotonic() > at_s)

    def _receive(self, consumer: RecordedConsumer) -> None:
        try:
            message = consumer.receive(RECEIVE_MS)
        except pulsar.Timeout:
            self._acknowledge(consumer)
            return
        self._tally.add(received=1, redelivered=message.redelivery_count() > 0, damaged=not is_whole(message.data()))
        if self.plan.is_later and not self._healing.is_set():
            self._ending.wait(self._chance.uniform(0, SLOW_S))
        if self.plan.fails_sometimes and not self._healing.is_set() and self._chance.random() < FAILS:
            consumer.negative_acknowledge(message)
            self._tally.add(given_back=1)
            return
        self._held.append(message)
        if len(self._held) > self._chance.randint(0, HELD_AT_MOST):
            self._acknowledge(consumer)

    def _acknowledge(self, consumer: RecordedConsumer) -> None:
        held, self._held = self._held, []
        if not held:
            return
        if self._is_cumulative:
            consumer.acknowledge_cumulative(held[-1])
        else:
            self._chance.shuffle(held)
            for message in held:
                consumer.acknowledge(message)
        self._tally.add(acknowledged=len(held))
