"""What does not come although it is due, in releases that deviate: the deviation behind each single entry.

A deviation holds up the entries that its cause affects, and no others: those of a hash, those in the ranges of a
consumer that left, or those behind an entry in the replay queue. It ends with its cause: whenever the broker dispatches
something, it reads the replay queue first at the next read; and two of the deviations end when a consumer permits more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from immutables import Map

from model.deviations.key_shared import (
    LEAVE_TRIGGERS_NO_READ,
    LOOK_AHEAD_SKIPS_REPLAY,
    REPLAY_HASH_KEPT_AFTER_ACK,
    REPLAY_HEAD_OF_LINE_BLOCKING,
    REWIND_SKIPPED_AFTER_REPLAY_READ,
)
from model.key_shared.liveness import Open, Receiver, owner_of
from model.key_shared.state import Keyed
from model.log import Position

ENDED_BY_PERMITS = (LEAVE_TRIGGERS_NO_READ, LOOK_AHEAD_SKIPS_REPLAY)


@dataclass(frozen=True, slots=True)
class Look:
    """A look at a subscription: the entries that are not acknowledged, its consumers, and what may have gone wrong.

    ``without_hash``: entries of which the replay queue has no hash. ``passed``: the hashes of entries that were
    acknowledged while they waited to come again. ``is_passed_over``: a look ahead may have passed over the replay
    queue. ``has_come``: something was dispatched since the look before.
    """

    entries: Sequence[Open]
    receivers: Sequence[Receiver]
    without_hash: frozenset[Position]
    passed: frozenset[int]
    is_passed_over: bool
    has_come: bool


def explained(keyed: Keyed, owed: Iterable[Position], look: Look) -> Map[Position, str]:
    """The entries that do not come by a deviation, and by which; a stall that has not ended goes on."""
    ended = ENDED_BY_PERMITS if keyed.is_permitted else ()
    before = {} if look.has_come else {at: name for at, name in keyed.stalled.items() if name not in ended}
    hashes = {entry.position: entry.hashed for entry in look.entries}
    reasons = {at: before.get(at) or _reason(keyed, at, hashes[at], look) for at in owed}
    held_up = {at: name for at, name in reasons.items() if name is not None}
    if REWIND_SKIPPED_AFTER_REPLAY_READ in held_up.values():
        # The broker reads nothing before the next new message, so neither does it read what follows these.
        following = (entry.position for entry in look.entries if entry.holder is None)
        held_up = {**dict.fromkeys(following, REWIND_SKIPPED_AFTER_REPLAY_READ), **held_up}
    return Map(held_up)


def _reason(keyed: Keyed, position: Position, hashed: int, look: Look) -> str | None:
    if any(hashed in own for own in keyed.unread):
        return LEAVE_TRIGGERS_NO_READ
    if keyed.may_be_read:
        return REWIND_SKIPPED_AFTER_REPLAY_READ
    waiting = (entry for entry in look.entries if entry.holder is None and entry.position < position)
    if any(entry.position in look.without_hash and owner_of(entry.hashed, look.receivers) for entry in waiting):
        return REPLAY_HEAD_OF_LINE_BLOCKING
    if hashed in look.passed:
        return REPLAY_HASH_KEPT_AFTER_ACK
    return LOOK_AHEAD_SKIPS_REPLAY if look.is_passed_over else None
