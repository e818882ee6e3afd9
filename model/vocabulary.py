"""What all operations and outcomes are made of: the words that their own modules share."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Client = Literal["wire", "official"]
"""Which client speaks for a session: our own on the binary protocol, or pulsar-client."""


class Operation(Struct, frozen=True, tag_field="op", tag=True):
    """What all operations have in common: nothing but that they are values with a name."""


class Outcome(Struct, frozen=True, tag_field="outcome", tag=True):
    """What all outcomes have in common: nothing but that they are values with a name."""


class Message(Struct, frozen=True):
    """One message: its sequence id and the business id that its payload carries."""

    sequence_id: int
    business_id: str


class Entry(Struct, frozen=True):
    """What becomes one entry of the log: a single message, or a batch of several, ids rising."""

    messages: tuple[Message, ...]

    @property
    def lowest(self) -> int:
        """The lowest sequence id in it."""
        return self.messages[0].sequence_id

    @property
    def highest(self) -> int:
        """The highest sequence id in it."""
        return self.messages[-1].sequence_id

    @property
    def is_batch(self) -> bool:
        """Whether it holds more than one message."""
        return len(self.messages) > 1

    def __str__(self) -> str:
        ids = str(self.lowest) if not self.is_batch else f"batch {self.lowest}..{self.highest}"
        return f"{ids} ({', '.join(m.business_id for m in self.messages)})"
