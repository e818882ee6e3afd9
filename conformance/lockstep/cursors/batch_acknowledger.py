"""The acks of a client without batch index acks, which is the default of all clients.

Such a client acknowledges an entry once all messages of the batch are acked. A cumulative ack of a part of a batch
acknowledges the entry before it. A redelivered batch starts without acks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.lockstep.positions import Positions
from model.events import Delivery
from model.log import Position


@dataclass(slots=True)
class _Receipt:
    """One delivery of an entry."""

    topic: str
    messages: dict[int, Delivery] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)

    def acknowledge(self, message: Delivery, *, cumulative: bool) -> bool:
        """Whether this ack completes the entry."""
        self.acknowledged |= set(range(message.batch_index + 1)) if cumulative else {message.batch_index}
        return len(self.acknowledged) >= message.batch_size


class BatchAcknowledger:
    """The incomplete batches of one consumer."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._latest: dict[Position, _Receipt] = {}
        self._receipts: dict[Delivery, _Receipt] = {}

    def arrived(self, topic: str, message: Delivery) -> None:
        """Register a delivery; the messages of a batch arrive in order."""
        receipt = self._latest.get(message.position)
        if receipt is None or message.batch_index in receipt.messages:
            receipt = self._latest[message.position] = _Receipt(topic)
        receipt.messages[message.batch_index] = message
        self._receipts[message] = receipt

    def keeps(self, message: Delivery) -> bool:
        """Whether an acked message waits for the others of its batch."""
        receipt = self._receipts[message]
        return message.batch_index in receipt.acknowledged and len(receipt.acknowledged) < message.batch_size

    def acknowledge(self, messages: Iterable[Delivery]) -> tuple[Delivery, ...]:
        """Ack messages; returns the messages of the entries that this completes."""
        entries: dict[Position, _Receipt] = {}
        for message in messages:
            receipt = self._receipts[message]
            if receipt.acknowledge(message, cumulative=False):
                entries[message.position] = receipt
        return tuple(message for receipt in entries.values() for _, message in sorted(receipt.messages.items()))

    def acknowledge_up_to(self, message: Delivery) -> tuple[Position, tuple[Delivery, ...]]:
        """Ack cumulatively; returns the entry to acknowledge up to, and its last message.

        There is no such message for a part of the first batch of the log.
        """
        receipt = self._receipts[message]
        if receipt.acknowledge(message, cumulative=True):
            return message.position, (receipt.messages[max(receipt.messages)],)
        before = self._positions.last_before(receipt.topic, message.position)
        return Position(message.position.ledger, message.position.entry - 1), () if before is None else (before,)
