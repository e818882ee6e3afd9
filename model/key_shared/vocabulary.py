"""Operations and outcomes of document 004: permits, and what a Key_Shared subscription has sent to whom.

Consumers come, go, acknowledge and fail in the words of :mod:`model.cursors.vocabulary`. What is added here makes
dispatching exact: permits are given without waiting for anything, and then all that the broker sends is gathered,
together with its own account of the subscription.
"""

from __future__ import annotations

from msgspec import Struct

from model.cursors.vocabulary import Dispatched
from model.key_shared.hashing import HashRange
from model.vocabulary import Operation, Outcome


class Permit(Operation, frozen=True):
    """A consumer of the wire client permits the broker to send it so many messages more. Done."""

    consumer: str
    count: int


class Gather(Operation, frozen=True):
    """Take in what the broker sends to the consumers of a subscription, until nothing more must come. Gathered."""

    topic: str
    subscription: str


class DrainingHash(Struct, frozen=True):
    """A hash that waits for one consumer's messages, how many these are, and how often others were held up by it."""

    hashed: int
    unacknowledged: int
    blocked: int


class Share(Struct, frozen=True):
    """A consumer's part in a subscription: what arrived since the last look, in the broker's order; and by the broker's
    account its permits, its unacknowledged messages, its hash ranges (None: the release does not say), the hashes that
    wait for it, and how many of those there have been that wait no more.
    """

    consumer: str
    messages: tuple[Dispatched, ...]
    permits: int
    unacknowledged: int
    ranges: tuple[HashRange, ...] | None = None
    draining: tuple[DrainingHash, ...] = ()
    cleared: int = 0


class Gathered(Outcome, frozen=True):
    """What arrived, by consumer, and the sums that the broker shows for the whole subscription: its draining hashes,
    the messages that they wait for, and how many are cleared. ``waited_ms``: how long it took until nothing more had to
    come. ``is_waiting``: the broker had read all entries that there were, and waited for a new one; ``in_replay``: so
    many entries were in the replay queue then.
    """

    shares: tuple[Share, ...]
    draining: int = 0
    unacknowledged: int = 0
    cleared: int = 0
    waited_ms: float = 0.0
    is_waiting: bool = False
    in_replay: int = 0


KeyOperation = Permit | Gather
"""Every operation that only document 004 has."""

KeyOutcome = Gathered
"""Every outcome that only these have."""
