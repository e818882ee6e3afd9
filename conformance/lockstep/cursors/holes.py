"""Performs operations on many holes between acknowledgments, each by a function that is found by its type.

The topic beside a topic of the example has a producer and a subscription of its own. Each operation opens a connection
of its own, so nothing is connected when the topic is unloaded or its broker is killed. The consumer is exclusive, so it
receives in order: the message that is sent last ends what it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import singledispatchmethod
from itertools import groupby
from typing import Final, TypeVar

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import namespace_of
from conformance.clients.outcomes import NoAnswer, Receipt
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireConsumer
from conformance.lockstep.cursors.persistence import PersistedStates
from conformance.lockstep.world import World
from model.events import AnyOutcome, Persisted, Skipped
from model.hole_operations import (
    UNKNOWN,
    HoleOperation,
    HolesMade,
    HolesReceived,
    MakeHoles,
    ReceiveHoles,
    progressions,
)
from model.log import Position

T = TypeVar("T")

_NAME: Final = "holes"
"""The name of the producer and of the subscription."""
_AT_ONCE: Final = 1_000
"""How many messages are sent, or acknowledged, before the answer is awaited; and half of the receiver's queue."""
_TIMEOUT_S: Final = 30.0
"""How long to wait for any one answer, or for the next message."""


class HoleTopics:
    """Those of one example; ``topics`` maps a history's names to real ones and grows during the example."""

    def __init__(self, world: World, topics: Mapping[str, str], persisted: PersistedStates) -> None:
        self._world = world
        self._topics = topics
        self._persisted = persisted
        self._stored: dict[str, list[Position]] = {}
        """The positions of all messages of a topic beside, by its real name."""

    def beside(self, topic: str) -> tuple[str, ...]:
        """The topic beside a topic, if there is one; real names."""
        name = _beside(topic)
        return (name,) if name in self._stored else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The real names of all of them."""
        return tuple(self._stored)

    def perform(self, operation: HoleOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        topic = self._topics.get(operation.topic)
        if topic is None:
            return Skipped("there is no such topic")
        if self._world.is_home or self._world.namespaces.is_of_one_topic(namespace_of(topic)):
            return Skipped("there is no place for another topic in its namespace")
        name = _beside(topic)
        if name not in self._stored:
            self._create(self._world.admin, name, self._persisted.limit(topic))
        return self._perform(operation, name)

    def _create(self, admin: Admin, name: str, persisted_per_s: float | None) -> None:
        admin.create_topic(name)
        self._stored[name] = []
        if persisted_per_s is not None:
            self._persisted.set_limit(name, persisted_per_s)
        with self._consumer(name):
            pass

    @singledispatchmethod
    def _perform(self, operation: HoleOperation, name: str) -> AnyOutcome:
        raise NotImplementedError(type(operation).__name__)

    @_perform.register
    def _(self, operation: MakeHoles, name: str) -> AnyOutcome:
        if operation.count:
            self._send(name, operation.count)
        positions = self._stored[name][operation.first :: operation.stride]
        self._persisted.changing(name, _NAME)
        if positions:
            with self._consumer(name) as consumer:
                for first in range(0, len(positions), _AT_ONCE):
                    consumer.ack(positions[first : first + _AT_ONCE], timeout_s=_TIMEOUT_S)
        waited = self._persisted.wait(name, _NAME) if operation.awaits else None
        return HolesMade(self._ledgers(name), is_persisted=isinstance(waited, Persisted))

    @_perform.register
    def _(self, operation: ReceiveHoles, name: str) -> AnyOutcome:  # noqa: ARG002 - found by its type
        self._send(name, 1)
        numbers = {position: number for number, position in enumerate(self._stored[name])}
        received: list[int] = []
        with self._consumer(name) as consumer:
            consumer.flow(2 * _AT_ONCE)
            while not received or received[-1] != len(numbers) - 1:
                message = consumer.receive(timeout_s=_TIMEOUT_S)
                if message is None:
                    break
                received.append(numbers.get(message.position, UNKNOWN))
                if len(received) % _AT_ONCE == 0:
                    consumer.flow(_AT_ONCE)
        is_cut_short = not received or received[-1] != len(numbers) - 1
        return HolesReceived(self._ledgers(name), progressions(received), is_cut_short=is_cut_short)

    def _ledgers(self, name: str) -> tuple[int, ...]:
        return tuple(len(list(group)) for _, group in groupby(self._stored[name], key=lambda one: one.ledger))

    def _send(self, name: str, count: int) -> None:
        """Send so many messages. Raises :class:`NoAnswer` if one of them is not confirmed."""
        stored = self._stored[name]
        with self._client() as client:
            producer = self._retried(lambda: client.open_producer(name, name=_NAME, timeout_s=_TIMEOUT_S), name)
            for first in range(len(stored), len(stored) + count, _AT_ONCE):
                until = min(first + _AT_ONCE, len(stored) + count)
                tickets = [producer.send(number + 1, b"%d" % number) for number in range(first, until)]
                answers = [producer.answer(ticket, timeout_s=_TIMEOUT_S) for ticket in tickets]
                confirmed = [one.position for one in answers if isinstance(one, Receipt) and one.position is not None]
                if len(confirmed) < len(answers):
                    raise NoAnswer(f"{len(answers) - len(confirmed)} messages beside a topic were not confirmed")
                stored += confirmed
            producer.close(timeout_s=_TIMEOUT_S)

    @contextmanager
    def _consumer(self, name: str) -> Iterator[WireConsumer]:
        with self._client() as client:
            yield self._retried(
                lambda: client.subscribe(name, _NAME, kind="Exclusive", initial="earliest", timeout_s=_TIMEOUT_S),
                name,
            )

    @contextmanager
    def _client(self) -> Iterator[WireClient]:
        client = self._retried(lambda: WireClient.connect(self._world.service, timeout_s=_TIMEOUT_S), None)
        try:
            yield client
        finally:
            client.close()

    def _retried(self, request: Callable[[], T], topic: str | None) -> T:
        what = "a client of the topic beside another one"
        return self._world.answers.retry(request, _TIMEOUT_S, what=what, topic=topic)


def _beside(topic: str) -> str:
    return f"{topic}-holes"
