"""A topic with its producer and consumers on a real broker, in the terms of document 003."""

from __future__ import annotations

from typing import TypeVar

from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import (
    Acknowledged,
    AllReceived,
    AnyOutcome,
    Created,
    CursorRead,
    Delivery,
    Opened,
    ReceivedMessages,
    Sent,
    Stored,
    Subscribed,
)
from model.log import Position
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send
from model.subscription_operations import Acknowledge, ReadCursor, Receive, ReceiveAll, Subscribe
from model.vocabulary import Client, Entry, Limits, Message, Persistence, SubscriptionType

T = TypeVar("T", bound=AnyOutcome)


class Stage:
    """One example with the topic ``t``, whose messages are called 1, 2, 3… in the order of sending."""

    def __init__(
        self,
        world: World,
        *,
        persistence: Persistence = "every-ack",
        is_trimmed: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.performer = RealPerformer(world)
        self._sent = 0
        self.positions: dict[str, Position] = {}
        create = CreateTopic("t", persistence=persistence, is_trimmed=is_trimmed, limits=limits)
        self.see(create, Created)

    def do(self, operation: AnyOperation) -> AnyOutcome:
        """Perform an operation."""
        return self.performer.perform(operation).outcome

    def see(self, operation: AnyOperation, kind: type[T]) -> T:
        """Perform an operation whose outcome is of this kind."""
        outcome = self.do(operation)
        assert isinstance(outcome, kind), f"{operation}: {outcome}"
        return outcome

    def send(self, count: int, *, batch: int = 1, topic: str = "t") -> list[Position]:
        """Store ``count`` entries of ``batch`` messages each, and return their positions."""
        if self._sent == 0 or topic != "t":
            self.see(OpenProducer(f"p-{topic}", topic, "p"), Opened)
        entries = tuple(self._entry(batch) for _ in range(count))
        answers = self.see(Send(f"p-{topic}", entries), Sent).answers
        positions = [answer.position for answer in answers if isinstance(answer, Stored)]
        assert len(positions) == count
        for entry, position in zip(entries, positions, strict=True):
            self.positions |= {message.business_id: position for message in entry.messages}
        return positions

    def _entry(self, batch: int) -> Entry:
        first, self._sent = self._sent + 1, self._sent + batch
        return Entry(tuple(Message(number, str(number)) for number in range(first, first + batch)))

    def subscribe(
        self,
        consumer: str = "c",
        kind: SubscriptionType = "Shared",
        *,
        queue: int = 0,
        client: Client = "wire",
        topic: str = "t",
    ) -> None:
        """Subscribe to ``s`` from the topic's beginning."""
        self.see(Subscribe(consumer, topic, "s", kind, client, queue=queue), Subscribed)

    def take(self, count: int, consumer: str = "c") -> list[str]:
        """The business ids of the messages that a consumer receives."""
        return ids(self.see(Receive(consumer, count), ReceivedMessages).messages)

    def acknowledge(self, *nth: int, consumer: str = "c", cumulative: bool = False) -> list[str]:
        """The business ids of the messages that are acknowledged."""
        return ids(self.see(Acknowledge(consumer, nth, cumulative), Acknowledged).messages)

    def read(self, topic: str = "t") -> CursorRead:
        """The cursor of ``s``."""
        return self.see(ReadCursor(topic, "s"), CursorRead)

    def left(self, kind: SubscriptionType = "Shared") -> list[str]:
        """The business ids of all messages that ``s`` still has to deliver."""
        return ids(self.see(ReceiveAll("t", "s", kind), AllReceived).messages)


def ids(messages: tuple[Delivery, ...]) -> list[str]:
    """Their business ids."""
    return [message.business_id for message in messages]
