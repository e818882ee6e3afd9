"""What a client acknowledges that does not acknowledge parts of batches, as all clients do by default.

Such a client keeps the acks of a batch until all its messages have one, and acknowledges the entry then. A cumulative
ack of a part of a batch acknowledges the entry before it. A batch that is delivered again starts without acks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.lockstep.positions import Whereabouts
from model.events import Delivery
from model.log import Position


@dataclass(slots=True)
class _Receipt:
    """An entry as it was delivered once."""

    topic: str
    messages: dict[int, Delivery] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)

    def acknowledge(self, message: Delivery, *, cumulative: bool) -> bool:
        """Whether the entry is acknowledged with this message."""
        self.acknowledged |= set(range(message.batch_index + 1)) if cumulative else {message.batch_index}
        return len(self.acknowledged) >= message.batch_size


class BatchAcknowledger:
    """The acks that one consumer keeps, batch by batch."""

    def __init__(self, whereabouts: Whereabouts) -> None:
        self._whereabouts = whereabouts
        self._latest: dict[Position, _Receipt] = {}
        self._receipts: dict[Delivery, _Receipt] = {}

    def arrived(self, topic: str, message: Delivery) -> None:
        """A message was delivered; the messages of a batch arrive in their order."""
        receipt = self._latest.get(message.position)
        if receipt is None or message.batch_index in receipt.messages:
            receipt = self._latest[message.position] = _Receipt(topic)
        receipt.messages[message.batch_index] = message
        self._receipts[message] = receipt

    def keeps(self, message: Delivery) -> bool:
        """Whether a message that was acknowledged waits for the others of its batch."""
        receipt = self._receipts[message]
        return message.batch_index in receipt.acknowledged and len(receipt.acknowledged) < message.batch_size

    def acknowledge(self, messages: Iterable[Delivery]) -> tuple[Delivery, ...]:
        """Take individual acks; returns the messages of the entries that are acknowledged with them."""
        entries: dict[Position, _Receipt] = {}
        for message in messages:
            receipt = self._receipts[message]
            if receipt.acknowledge(message, cumulative=False):
                entries[message.position] = receipt
        return tuple(message for receipt in entries.values() for _, message in sorted(receipt.messages.items()))

    def acknowledge_up_to(self, message: Delivery) -> tuple[Position, tuple[Delivery, ...]]:
        """Take a cumulative ack; returns the entry to acknowledge up to, and its last message.

        There is no such message where the log has nothing before a batch of which a part is acknowledged.
        """
        receipt = self._receipts[message]
        if receipt.acknowledge(message, cumulative=True):
            return message.position, (receipt.messages[max(receipt.messages)],)
        before = self._whereabouts.last_before(receipt.topic, message.position)
        return Position(message.position.ledger, message.position.entry - 1), () if before is None else (before,)
