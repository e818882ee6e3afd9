"""What must come: the entries that a Key_Shared subscription has no reason to hold back any longer.

A consumer must get an entry when its hash is in the consumer's range, the consumer has permits, the hash is not
draining at another consumer, and no earlier entry of the hash is held back. This is the whole of it, so a performer
waits for exactly this and for nothing else, and the model judges by it (KEY-05, KEY-13).

Nothing new is read while the replay queue is full (PIP-379, ``keySharedLookAheadMsgInReplayThreshold…``). Nothing is
said here of subscriptions without draining hashes (the classic implementation), nor of those that are blocked by a
limit on unacknowledged messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.log import Position
from model.vocabulary import HashRange


@dataclass(frozen=True, slots=True)
class Open:
    """An entry that is not acknowledged: its hash, and who has it (None: nobody)."""

    position: Position
    hashed: int
    holder: str | None


@dataclass(frozen=True, slots=True)
class Receiver:
    """A consumer as the broker sees it; its ranges do not overlap and are in order."""

    name: str
    permits: int
    ranges: tuple[HashRange, ...]


def owner_of(hashed: int, receivers: Iterable[Receiver]) -> Receiver | None:
    """The consumer whose ranges a hash is in."""
    return next((one for one in receivers if _is_in(hashed, one.ranges)), None)


def _is_in(hashed: int, ranges: Sequence[HashRange]) -> bool:
    at = bisect_right(ranges, hashed, key=lambda own: own.first) - 1
    return at >= 0 and hashed in ranges[at]


def draining(entries: Iterable[Open], receivers: Iterable[Receiver]) -> dict[int, str]:
    """The hashes that wait for a consumer whose ranges they are not in any more, and for whom.

    Not for subscriptions that allow messages out of order: there nothing waits.
    """
    receivers = list(receivers)
    waits: dict[int, str] = {}
    for entry in entries:
        if entry.holder is not None:
            owner = owner_of(entry.hashed, receivers)
            if owner is None or owner.name != entry.holder:
                waits[entry.hashed] = entry.holder
    return waits


@dataclass(frozen=True, slots=True)
class LookAhead:
    """How many messages may wait in the replay queue before a dispatcher reads no more new ones: so many for each
    consumer, and so many in all (0: no limit)."""

    per_consumer: int = 2000
    per_subscription: int = 20000

    def limit(self, consumers: int) -> int | None:
        """How many that is with so many consumers; None: there is no limit."""
        limits = [one for one in (self.per_consumer * consumers, self.per_subscription) if one > 0]
        return min(limits, default=None)


NO_LIMITS = LookAhead(0, 0)


def due(
    entries: Iterable[Open],
    receivers: Iterable[Receiver],
    *,
    drains: bool = True,
    look_ahead: LookAhead = NO_LIMITS,
) -> dict[Position, str]:
    """The entries, in the order of positions, of which the next must come now, and to whom.

    ``drains``: the subscription lets hashes drain, as it does unless its consumers allow messages out of order. What
    comes after as many entries as the dispatcher may have waiting need not have been read.
    """
    entries, receivers = list(entries), list(receivers)
    held_back = set(draining(entries, receivers)) if drains else set[int]()
    limit = look_ahead.limit(len(receivers))
    found: dict[Position, str] = {}
    coming: set[int] = set()
    waiting = 0
    for entry in entries:
        if entry.holder is not None or entry.hashed in coming:
            continue
        if limit is not None and waiting >= limit:
            break
        owner = owner_of(entry.hashed, receivers)
        if entry.hashed not in held_back and owner is not None and owner.permits > 0:
            found[entry.position] = owner.name
            coming.add(entry.hashed)  # what follows it comes behind it
        else:
            held_back.add(entry.hashed)  # and so does what follows one that does not come
            waiting += 1
    return found
