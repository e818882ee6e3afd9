"""The plan of a machine of document 003: its consumers and what was sent, without the broker's answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from model.vocabulary import Client, Entry, Message, SubscriptionType
from stateful.cursors.ages import Ages, age_of
from stateful.delays import Delays, delay_of


@dataclass(frozen=True, slots=True)
class PlannedConsumer:
    """A consumer that the machine expects to be subscribed."""

    name: str
    topic: str
    subscription: str
    client: Client


@dataclass(slots=True)
class ConsumptionPlan:
    """What was sent and which consumers should be subscribed, without the broker's answers.

    ``mark`` begins all its names where other machines have theirs on the same topic.
    """

    kinds: dict[str, SubscriptionType] = field(default_factory=dict)
    consumers: list[PlannedConsumer] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    mark: str = ""
    delays: Delays = ()
    """Those of single messages."""
    ages: Ages = ()
    """How old the messages are when they are sent."""
    _names: int = 0
    _sequence_id: int = 0

    def subscribed_as(self, kinds: Iterable[SubscriptionType]) -> None:
        """Plan subscriptions of these types."""
        self.kinds = {f"{self.mark}s{number}": kind for number, kind in enumerate(kinds)}

    def fresh_name(self) -> str:
        """A consumer's name that was not used before."""
        self._names += 1
        return f"{self.mark}c{self._names}"

    def entries(self, sizes: list[int]) -> tuple[Entry, ...]:
        """New entries of so many messages each."""
        return tuple(Entry(tuple(self._message(size) for _ in range(size))) for size in sizes)

    @property
    def age_s(self) -> int:
        """How old the messages are that were planned last."""
        return age_of(self.ages, self._sequence_id - 1)

    def _message(self, size: int) -> Message:
        self._sequence_id += 1
        self.sent.append(f"{self.mark}b{self._sequence_id}")
        # The client gives a delayed message the present time, and later messages are never older.
        delay_ms = 0 if self.age_s else delay_of(self.delays, self._sequence_id, batch_size=size)
        return Message(self._sequence_id, self.sent[-1], delay_ms=delay_ms)

    def drop_wire(self, subscription: str | None = None) -> None:
        """The broker disconnected the consumers; those of the wire client do not reconnect."""
        self.consumers = [
            one
            for one in self.consumers
            if one.client != "wire" or (subscription is not None and one.subscription != subscription)
        ]
