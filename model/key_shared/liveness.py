"""The due entries of a Key_Shared subscription: those that nothing blocks.

An entry is due to a consumer if its hash is in the consumer's ranges, the consumer has permits, the hash is not
draining at another consumer, and no earlier entry of the hash is blocked. The performer waits for exactly these
entries, and the model judges by them (KEY-05, KEY-13).

While the replay queue is full, the dispatcher reads no new message (PIP-379,
``keySharedLookAheadMsgInReplayThreshold…``). The classic implementation and subscriptions at a limit on unacknowledged
messages are judged elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from model.log import Position
from model.vocabulary import NO_LIMITS, HashRange, LookAhead


@dataclass(frozen=True, slots=True)
class Open:
    """An unacknowledged entry: its hash, and the consumer at which it is pending (None: at none).

    ``is_not_due``: a delayed message whose time may not have come.
    """

    position: Position
    hashed: int
    holder: str | None
    is_not_due: bool = False


@dataclass(frozen=True)  # without slots, which a cached property needs
class Receiver:
    """A consumer in the broker's stats; its ranges do not overlap and are in order."""

    name: str
    permits: int
    ranges: tuple[HashRange, ...]

    @cached_property
    def _firsts(self) -> list[int]:
        return [one.first for one in self.ranges]

    def has(self, hashed: int) -> bool:
        """Whether a hash is in its ranges."""
        at = bisect_right(self._firsts, hashed) - 1
        return at >= 0 and hashed in self.ranges[at]


def owner_of(hashed: int, receivers: Iterable[Receiver]) -> Receiver | None:
    """The consumer whose ranges a hash is in."""
    return next((one for one in receivers if one.has(hashed)), None)


def draining(entries: Iterable[Open], receivers: Iterable[Receiver]) -> dict[int, str]:
    """The draining hashes, and the consumer that each waits for: it has pending entries and no longer the range.

    On subscriptions that allow out-of-order delivery no hash drains.
    """
    receivers = list(receivers)
    waits: dict[int, str] = {}
    for entry in entries:
        if entry.holder is not None:
            owner = owner_of(entry.hashed, receivers)
            if owner is None or owner.name != entry.holder:
                waits[entry.hashed] = entry.holder
    return waits


def due(
    entries: Iterable[Open],
    receivers: Iterable[Receiver],
    *,
    drains: bool = True,
    look_ahead: LookAhead = NO_LIMITS,
) -> dict[Position, str]:
    """The first due entry of each hash, in the order of positions, and its consumer.

    ``drains``: hashes drain, as they do unless consumers allow out-of-order delivery. Entries after as many as the
    replay queue may hold need not have been read. A delayed message may be in that queue before its time, and blocks
    no later entry of its hash.
    """
    entries, receivers = list(entries), list(receivers)
    blocked = set(draining(entries, receivers)) if drains else set[int]()
    limit = look_ahead.limit(len(receivers))
    found: dict[Position, str] = {}
    found_hashes: set[int] = set()
    waiting = 0
    for entry in entries:
        if entry.holder is not None or entry.hashed in found_hashes:
            continue
        if limit is not None and waiting >= limit:
            break
        owner = owner_of(entry.hashed, receivers)
        if entry.is_not_due:
            waiting += 1
        elif entry.hashed not in blocked and owner is not None and owner.permits > 0:
            found[entry.position] = owner.name
            found_hashes.add(entry.hashed)  # later entries of the hash follow it
        else:
            blocked.add(entry.hashed)  # and blocks later entries of the hash
            waiting += 1
    return found
