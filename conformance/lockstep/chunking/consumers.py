"""Consumers of chunked messages on a real broker: pulsar-client's, each through a proxy of its own.

What passed and what the application received are told side by side. To know what to wait for, each follows the same
lanes as the model does; whether that was right is not judged here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from conformance.clients.driver.client import OfficialDelivery
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.security.service import Service
from conformance.lockstep.chunking.producers import part_passed
from conformance.lockstep.chunking.proxied import Tapped
from conformance.proxy.events import Command
from conformance.wait import Deadline
from model.chunking.receiving import fresh_lanes, is_explained, met, settled
from model.log import Position
from model.payloads import digest
from model.subscription_operations import Subscribe
from model.traffic import (
    CommandAck,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    Delivery,
    Traffic,
)
from model.vocabulary import IN_ORDER

NACK_DELAY_S: Final = 0.05
"""After which pulsar-client gives back what its application failed with."""
GROUPED_TIMEOUT_S: Final = 3.0
"""How long an acknowledgment or a request may stay in the client: it groups them for a tenth of a second."""
_MOMENT_S: Final = 0.001
_PAUSE_S: Final = 0.002


class ChunkConsumer:
    """A consumer, and what is known of it."""

    def __init__(self, service: Service, topic: str, operation: Subscribe) -> None:
        """Subscribe; errors as :meth:`OfficialClient.subscribe` has them."""
        self.topic = topic
        self.name = operation.consumer
        self.subscription = operation.subscription
        self.kind = operation.kind
        self._proxied = Tapped(service)
        try:
            self._consumer = self._proxied.client.subscribe(
                topic,
                operation.subscription,
                kind=operation.kind,
                initial="earliest",
                consumer_name=operation.consumer,
                prefetch=operation.queue,
                nack_delay_s=NACK_DELAY_S,
                pending_chunked=operation.max_pending_chunked,
                acknowledges_discarded=operation.acks_oldest_chunked,
            )
        except BaseException:
            self._proxied.end()
            raise
        self.holds: set[Position] = set()
        """What it was sent, did not acknowledge, and did not ask for again."""
        self.acknowledged: set[Position] = set()
        """What acknowledgments that passed to the broker named."""
        self._lanes = fresh_lanes(pending=operation.max_pending_chunked, acks_discarded=operation.acks_oldest_chunked)
        self._subscribes = 0
        self._subscribes_due = 1
        self._passed: list[ConsumerCommand] = []
        self._given: list[Delivery] = []
        self.received: list[Delivery] = []
        """All that its application received, in order."""
        self._held: list[tuple[Delivery, OfficialDelivery]] = []

    @property
    def held(self) -> Sequence[Delivery]:
        """What its application received and neither acknowledged nor gave back."""
        return [given for given, _ in self._held]

    def is_address(self, address: str | None) -> bool:
        """Whether an address, as the broker sees it, is this consumer's."""
        return self._proxied.proxy.carries(address)

    def take_in(self) -> bool:
        """Look at what passed, and receive what is there; whether there was anything."""
        news = self._look()
        received = False
        with suppress(ConnectionLost):
            while (delivery := self._consumer.receive(timeout_s=_MOMENT_S)) is not None:
                given = Delivery(delivery.position, size_bytes=len(delivery.payload), digest=digest(delivery.payload))
                self._given.append(given)
                self.received.append(given)
                self._held.append((given, delivery.without_payload()))
                received = True
        return received or bool(news)

    def _look(self) -> list[ConsumerCommand]:
        news = list(_passed(self._proxied.news()))
        for one in news:
            match one:
                case CommandMessage(position):
                    self.holds.add(position)
                case CommandAck(positions):
                    self.acknowledged |= set(positions)
                    self.holds -= set(positions)
                case CommandRedeliver(positions):
                    named = set(positions) if positions and self.kind not in IN_ORDER else set(self.holds)
                    self.holds -= named
                case CommandSubscribe():
                    self._subscribes += 1
                    self.holds.clear()
        self._lanes = met(self._lanes, news)
        self._passed += news
        return news

    @property
    def is_explained(self) -> bool:
        """Whether its application has exactly what it should, by the document and by all that is known of clients."""
        return all(is_explained(lane, self._given) for lane in self._lanes)

    @property
    def may_be_explained(self) -> bool:
        """Whether it has exactly what it should, by the document or by anything that is known of clients."""
        return any(is_explained(lane, self._given) for lane in self._lanes)

    def tell(self) -> Traffic:
        """What passed and was received since the last time; all that must be received was."""
        self._lanes = settled(self._lanes, self._given) or self._lanes
        traffic = Traffic(self.name, tuple(self._passed), tuple(self._given))
        self._passed, self._given = [], []
        return traffic

    def tell_passed(self) -> Traffic:
        """What passed since the last time; what was received is told with the next gathering."""
        self._look()
        traffic = Traffic(self.name, tuple(self._passed))
        self._passed = []
        return traffic

    def before_disconnect(self) -> None:
        """The broker is about to disconnect it: until it subscribed again, its client would lose acknowledgments."""
        self._look()
        self._subscribes_due = self._subscribes + 1

    def _is_back(self) -> bool:
        return self._subscribes >= self._subscribes_due and self._consumer.is_connected

    def forget(self) -> None:
        """The broker was away, or its topic was moved: everything comes again."""
        self._look()
        self.holds.clear()

    def pick(self, nth: Sequence[int]) -> list[Delivery]:
        """Of all that it received, round and round, these; for one that it no longer has, the next that it has."""
        picked: list[Delivery] = []
        for number in nth if self._held else ():
            start = number % len(self.received)
            left = (one for one in (*self.received[start:], *self.received[:start]) if one in self.held)
            picked += [one for one in left if one not in picked][:1]
        return picked

    def acknowledge(self, chosen: Sequence[Delivery], *, is_cumulative: bool) -> None:
        """Acknowledge messages, and wait until that has passed to the broker."""
        self._await(self._is_back)
        seen = len(self._passed)
        deliveries = self._take(chosen)
        for delivery in deliveries[-1:] if is_cumulative else deliveries:
            if is_cumulative:
                self._consumer.ack_cumulative(delivery)
            else:
                self._consumer.ack(delivery)
        wanted = {delivery.position for delivery in (deliveries[-1:] if is_cumulative else deliveries)}
        self._await(lambda: wanted <= _acknowledged(self._passed[seen:]))

    def give_back(self, chosen: Sequence[Delivery] | None) -> None:
        """Fail with messages, or ask for everything again, and wait until that has passed to the broker."""
        self._await(self._is_back)
        before = self._asked()
        if chosen is None:
            self._consumer.redeliver_all()
            self._await(lambda: self._asked() > before)
            if self.kind not in IN_ORDER:
                self._held.clear()
            return
        deliveries = [delivery for given, delivery in self._held if given in chosen]
        if self.kind not in IN_ORDER:
            self._take(chosen)
        for delivery in deliveries:
            self._consumer.nack(delivery)
        wanted = {given.position for given in chosen}
        if self.kind in IN_ORDER:
            self._await(lambda: self._asked() > before)
        else:
            self._await(lambda: wanted <= self._named())

    def _asked(self) -> int:
        return sum(isinstance(one, CommandRedeliver) for one in self._passed)

    def _named(self) -> set[Position]:
        return {position for one in self._passed if isinstance(one, CommandRedeliver) for position in one.positions}

    def _take(self, chosen: Sequence[Delivery]) -> list[OfficialDelivery]:
        taken = [delivery for given, delivery in self._held if given in chosen]
        self._held = [pair for pair in self._held if pair[0] not in chosen]
        return taken

    def _await(self, is_so: Callable[[], bool]) -> None:
        deadline = Deadline.after(GROUPED_TIMEOUT_S)
        while not deadline.passed:
            self._look()
            if is_so():
                return
            time.sleep(_PAUSE_S)

    def leave(self, *, crashes: bool) -> Traffic:
        """Close it in good order, or cut its connection; what passed until then."""
        if not crashes:
            with suppress(ConnectionLost, NoAnswer, ServerRefused):
                self._consumer.close()
        self._proxied.end()
        return self.tell_passed()


def _acknowledged(passed: Iterable[ConsumerCommand]) -> set[Position]:
    return {position for one in passed if isinstance(one, CommandAck) for position in one.positions}


def _passed(commands: Iterable[Command]) -> Iterable[ConsumerCommand]:
    for command in commands:
        if command.passed_at_s is None:
            continue
        positions = tuple(position for position in command.positions if position is not None)
        match command.kind:
            case "SUBSCRIBE":
                yield CommandSubscribe()
            case "MESSAGE":
                producer = command.producer or ""
                yield CommandMessage(positions[0], producer, part_passed(command), command.redelivery_count or 0)
            case "ACK":
                yield CommandAck(positions, bool(command.is_cumulative))
            case "REDELIVER_UNACKNOWLEDGED_MESSAGES":
                yield CommandRedeliver(positions)
            case _:
                pass
