"""Consumers of chunked messages on a real broker: pulsar-client's, each through a proxy of its own.

An outcome has the commands that passed the proxy, and the messages that the application received. To know what to wait
for, a consumer has the clients that the model knows; it judges nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, assert_never

from conformance.clients.driver.interface import OfficialDelivery
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.security.service import Service
from conformance.lockstep.chunking.producers import part_passed
from conformance.lockstep.chunking.proxied import ProxiedClient
from conformance.proxy.events import Command
from conformance.wait import Deadline
from model.chunking.deliveries import CLIENTS, fresh, is_explained, met, settled
from model.log import Position
from model.payloads import digest
from model.subscription_operations import Subscribe
from model.traffic import (
    CommandAck,
    CommandFlow,
    CommandMessage,
    CommandRedeliver,
    CommandSubscribe,
    ConsumerCommand,
    Delivery,
    Traffic,
)
from model.vocabulary import IN_ORDER, SubscriptionType

NACK_DELAY_S: Final = 0.05
"""The delay after which pulsar-client requests the redelivery of a nacked message."""
GROUPED_TIMEOUT_S: Final = 3.0
"""How long the client may hold an ack or a redelivery request: it groups them for a tenth of a second."""
_MOMENT_S: Final = 0.001
_PAUSE_S: Final = 0.002


class ChunkConsumer:
    """A consumer behind a proxy, with its traffic."""

    def __init__(self, service: Service, topic: str, operation: Subscribe) -> None:
        """Subscribe. Raises the same as :meth:`ReleasedClient.subscribe`."""
        self.topic = topic
        self.name = operation.consumer
        self.subscription = operation.subscription
        self.kind = operation.kind
        self.library: Final = operation.library
        self._proxied = ProxiedClient(service, operation.library)
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
        self.pending: set[Position] = set()
        """Entries that the broker sent, without those acknowledged or returned."""
        self.acknowledged: set[Position] = set()
        """The positions in acks that passed the proxy."""
        self._clients = [
            fresh(pending=operation.max_pending_chunked, acks_discarded=operation.acks_oldest_chunked, variant=variant)
            for variant in CLIENTS
        ]
        self._subscribes = 0
        self._subscribes_due = 1
        self._passed: list[ConsumerCommand] = []
        self._delivered: list[Delivery] = []
        self.received: list[Delivery] = []
        """All messages that its application received, in order."""
        self._unacknowledged: list[tuple[Delivery, OfficialDelivery]] = []

    @property
    def unacknowledged(self) -> Sequence[Delivery]:
        """The messages that its application received and neither acknowledged nor returned."""
        return [delivered for delivered, _ in self._unacknowledged]

    def take_in(self) -> bool:
        """Read the proxy's commands and receive messages; whether there were any."""
        commands = self._look()
        received = False
        with suppress(ConnectionLost):
            while (delivery := self._consumer.receive(timeout_s=_MOMENT_S)) is not None:
                delivered = Delivery(
                    delivery.position, size_bytes=len(delivery.payload), digest=digest(delivery.payload)
                )
                self._delivered.append(delivered)
                self.received.append(delivered)
                self._unacknowledged.append((delivered, delivery.without_payload()))
                received = True
        return received or bool(commands)

    def _look(self) -> list[ConsumerCommand]:
        commands = list(_passed(self._proxied.commands()))
        for one in commands:
            match one:
                case CommandAck(positions):
                    self.acknowledged |= set(positions)
                case CommandSubscribe():
                    self._subscribes += 1
                case _:
                    pass
        self.pending = pending_after(self.pending, commands, self.kind)
        self._clients = [met(client, commands) for client in self._clients]
        self._passed += commands
        return commands

    @property
    def is_explained(self) -> bool:
        """Whether its application received exactly the due messages, whichever of these clients it has."""
        return all(is_explained(client, self._delivered) for client in self._clients)

    @property
    def may_be_explained(self) -> bool:
        """Whether its application received exactly the due messages if it has one of these clients."""
        return any(is_explained(client, self._delivered) for client in self._clients)

    def traffic(self) -> Traffic:
        """The commands and messages since the last call, after all due messages were received."""
        explaining = [client for client in self._clients if is_explained(client, self._delivered)]
        self._clients = [settled(client, self._delivered) for client in explaining] or self._clients
        traffic = Traffic(self.name, tuple(self._passed), tuple(self._delivered))
        self._passed, self._delivered = [], []
        return traffic

    def traffic_passed(self) -> Traffic:
        """The commands since the last call; messages follow with the next :meth:`traffic`."""
        self._look()
        traffic = Traffic(self.name, tuple(self._passed))
        self._passed = []
        return traffic

    def before_disconnect(self) -> None:
        """Expect a disconnect: until the client has subscribed again, it would lose acks."""
        self._look()
        self._subscribes_due = self._subscribes + 1

    def is_back(self) -> bool:
        """Whether it has subscribed again since the last disconnect that was to be expected."""
        return self._subscribes >= self._subscribes_due and self._consumer.is_connected

    def reset(self) -> None:
        """The topic is reloaded: the broker sends all unacknowledged entries again."""
        self._look()
        self.pending.clear()

    def pick(self, nth: Sequence[int]) -> list[Delivery]:
        """Choose received messages by number, modulo their count; instead of one without a handle, the next."""
        picked: list[Delivery] = []
        for number in nth if self._unacknowledged else ():
            start = number % len(self.received)
            left = (one for one in (*self.received[start:], *self.received[:start]) if one in self.unacknowledged)
            picked += [one for one in left if one not in picked][:1]
        return picked

    def acknowledge(self, chosen: Sequence[Delivery], *, is_cumulative: bool) -> None:
        """Acknowledge messages, and wait until the ack has passed the proxy.

        Cumulatively up to the last one in the log, which after a redelivery need not be the one that was received last.
        """
        self._await(self.is_back)
        seen = len(self._passed)
        deliveries = self._take(chosen)
        if is_cumulative and deliveries:
            deliveries = [max(deliveries, key=lambda delivery: delivery.position)]
        for delivery in deliveries:
            if is_cumulative:
                self._consumer.ack_cumulative(delivery)
            else:
                self._consumer.ack(delivery)
        wanted = {delivery.position for delivery in deliveries}
        self._await(lambda: wanted <= _acknowledged(self._passed[seen:]))

    def request_redelivery(self, chosen: Sequence[Delivery] | None) -> None:
        """Nack messages, or request all, and wait until the request has passed the proxy."""
        self._await(self.is_back)
        before = self._redelivery_requests()
        if chosen is None:
            self._consumer.redeliver_all()
            self._await(lambda: self._redelivery_requests() > before)
            if self.kind not in IN_ORDER:
                self._unacknowledged.clear()
            return
        deliveries = [delivery for delivered, delivery in self._unacknowledged if delivered in chosen]
        if self.kind not in IN_ORDER:
            self._take(chosen)
        for delivery in deliveries:
            self._consumer.nack(delivery)
        wanted = {delivered.position for delivered in chosen}
        if self.kind in IN_ORDER:
            self._await(lambda: self._redelivery_requests() > before)
        else:
            self._await(lambda: wanted <= self._redelivered())

    def _redelivery_requests(self) -> int:
        return sum(isinstance(one, CommandRedeliver) for one in self._passed)

    def _redelivered(self) -> set[Position]:
        return {position for one in self._passed if isinstance(one, CommandRedeliver) for position in one.positions}

    def _take(self, chosen: Sequence[Delivery]) -> list[OfficialDelivery]:
        taken = [delivery for delivered, delivery in self._unacknowledged if delivered in chosen]
        self._unacknowledged = [pair for pair in self._unacknowledged if pair[0] not in chosen]
        return taken

    def _await(self, is_so: Callable[[], bool]) -> None:
        deadline = Deadline.after(GROUPED_TIMEOUT_S)
        while not deadline.passed:
            self._look()
            if is_so():
                return
            time.sleep(_PAUSE_S)

    def leave(self, *, crashes: bool) -> Traffic:
        """Close it, or cut its connection; returns the traffic until then."""
        if not crashes:
            with suppress(ConnectionLost, NoAnswer, ServerRefused):
                self._consumer.close()
        self._proxied.end()
        return self.traffic_passed()


def pending_after(
    before: Iterable[Position], passed: Iterable[ConsumerCommand], kind: SubscriptionType
) -> set[Position]:
    """The entries that a consumer was sent, without those acknowledged or to be sent again, after these commands.

    In order, an entry that is sent again is the first of all that are: what was sent before a redelivery request
    arrived, and passed the proxy after that, is sent again, too.
    """
    pending = set(before)
    for one in passed:
        match one:
            case CommandMessage(position):
                if kind in IN_ORDER and position in pending:
                    pending.clear()
                pending.add(position)
            case CommandAck(positions):
                pending -= set(positions)
            case CommandRedeliver(positions):
                pending -= set(positions) if positions and kind not in IN_ORDER else set(pending)
            case CommandSubscribe():
                pending.clear()
            case CommandFlow():
                pass
            case _:
                assert_never(one)
    return pending


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
            case "FLOW":
                yield CommandFlow(command.permits or 0)
            case _:
                pass
