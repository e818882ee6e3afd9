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
    """One message: its sequence id, the business id that its payload carries, and its keys if it has any.

    Key_Shared subscriptions go by the ordering key where there is one, and otherwise by the key.
    """

    sequence_id: int
    business_id: str
    key: str | None = None
    ordering_key: str | None = None

    @property
    def sticky_key(self) -> str | None:
        """What Key_Shared subscriptions go by."""
        return self.key if self.ordering_key is None else self.ordering_key


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
    def sticky_key(self) -> str | None:
        """What Key_Shared subscriptions go by: the entry's own key, which is that of its first message."""
        return self.messages[0].sticky_key

    @property
    def is_batch(self) -> bool:
        """Whether it holds more than one message."""
        return len(self.messages) > 1

    def __str__(self) -> str:
        ids = str(self.lowest) if not self.is_batch else f"batch {self.lowest}..{self.highest}"
        key = f", key {self.sticky_key}" if self.sticky_key is not None else ""
        return f"{ids} ({', '.join(m.business_id for m in self.messages)}{key})"
