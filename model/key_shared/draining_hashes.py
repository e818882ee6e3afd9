"""The life of a draining hash as a table of states and inputs (document 004).

A hash *drains* if it was reassigned while messages of it were pending at its former consumer. Until these are
acknowledged, nacked, or their consumer is gone, no message of the hash is sent to another consumer. A draining hash
counts its pending messages and the attempts that it blocked. If it blocked none, its end wakes no dispatcher.

``TABLE`` is complete: an input that is not in it cannot happen. :class:`DrainingHashes` are the hashes of a
subscription.

The document is silent on a hash that returned to its consumer and moved away again before a dispatch. Here its pending
messages are counted again from zero. The document's listing adds them to the former count, which then never reaches
zero.

:mod:`model.key_shared.selectors` assigns hashes, and :mod:`model.key_shared.dispatcher` sends messages.
"""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.structs import replace

from model.rules.catalogue import carries


class DrainingState(enum.Enum):
    FREE = "not draining"
    DRAINING = "draining"
    BLOCKING = "draining, and something was blocked"


class DrainingInput(enum.Enum):
    MOVED = "it is reassigned while messages of it are pending"
    OFFERED_TO_ANOTHER = "a message of it is about to be sent to a consumer that does not drain it"
    OFFERED_TO_ITS_OWN = "a message of it is about to be sent to the consumer that drains it"
    REMOVED = "a pending message of it is removed, and more are counted"
    LAST_REMOVED = "a pending message of it is removed, and no more are counted"
    LAST_CLOSED = "its consumer disconnects: a pending message of it is removed, and no more are counted"


class DrainingEffect(enum.Enum):
    NOTHING = "nothing"
    COUNT = "its pending messages are counted"
    COUNT_DOWN = "the count decreases by one"
    SEND = "the message may be sent"
    BLOCK = "the message enters the replay queue, and the attempt is counted"
    RETURN = "the message may be sent, and the hash leaves the set"
    CLEAR = "the hash leaves the set"
    UNBLOCK = "the hash leaves the set, and the messages that it blocked are sent"


class DrainingTransition(Struct, frozen=True):
    effect: DrainingEffect
    after: DrainingState


TABLE: dict[tuple[DrainingState, DrainingInput], DrainingTransition] = {
    (DrainingState.FREE, DrainingInput.MOVED): DrainingTransition(DrainingEffect.COUNT, DrainingState.DRAINING),
    (DrainingState.FREE, DrainingInput.OFFERED_TO_ANOTHER): DrainingTransition(DrainingEffect.SEND, DrainingState.FREE),
    (DrainingState.FREE, DrainingInput.LAST_REMOVED): DrainingTransition(DrainingEffect.NOTHING, DrainingState.FREE),
    (DrainingState.FREE, DrainingInput.LAST_CLOSED): DrainingTransition(DrainingEffect.NOTHING, DrainingState.FREE),
    (DrainingState.DRAINING, DrainingInput.MOVED): DrainingTransition(DrainingEffect.COUNT, DrainingState.DRAINING),
    (DrainingState.DRAINING, DrainingInput.OFFERED_TO_ANOTHER): DrainingTransition(
        DrainingEffect.BLOCK, DrainingState.BLOCKING
    ),
    (DrainingState.DRAINING, DrainingInput.OFFERED_TO_ITS_OWN): DrainingTransition(
        DrainingEffect.RETURN, DrainingState.FREE
    ),
    (DrainingState.DRAINING, DrainingInput.REMOVED): DrainingTransition(
        DrainingEffect.COUNT_DOWN, DrainingState.DRAINING
    ),
    (DrainingState.DRAINING, DrainingInput.LAST_REMOVED): DrainingTransition(DrainingEffect.CLEAR, DrainingState.FREE),
    (DrainingState.DRAINING, DrainingInput.LAST_CLOSED): DrainingTransition(DrainingEffect.CLEAR, DrainingState.FREE),
    (DrainingState.BLOCKING, DrainingInput.MOVED): DrainingTransition(DrainingEffect.COUNT, DrainingState.BLOCKING),
    (DrainingState.BLOCKING, DrainingInput.OFFERED_TO_ANOTHER): DrainingTransition(
        DrainingEffect.BLOCK, DrainingState.BLOCKING
    ),
    (DrainingState.BLOCKING, DrainingInput.OFFERED_TO_ITS_OWN): DrainingTransition(
        DrainingEffect.RETURN, DrainingState.FREE
    ),
    (DrainingState.BLOCKING, DrainingInput.REMOVED): DrainingTransition(
        DrainingEffect.COUNT_DOWN, DrainingState.BLOCKING
    ),
    (DrainingState.BLOCKING, DrainingInput.LAST_REMOVED): DrainingTransition(
        DrainingEffect.UNBLOCK, DrainingState.FREE
    ),
    (DrainingState.BLOCKING, DrainingInput.LAST_CLOSED): DrainingTransition(DrainingEffect.CLEAR, DrainingState.FREE),
}
"""The life of a draining hash. A hash that does not drain has no count and no consumer."""


class DrainingHashEntry(Struct, frozen=True, gc=False):
    """A draining hash: its consumer, its number of pending messages there, and of attempts that it blocked."""

    consumer: str
    pending: int
    blocked: int = 0

    @property
    def state(self) -> DrainingState:
        """Its state in the table."""
        return DrainingState.BLOCKING if self.blocked else DrainingState.DRAINING


class DrainingHashes(Struct, frozen=True, cache_hash=True, gc=False):
    """The draining hashes of a subscription, in order, and how many left the set so far (KEY-11)."""

    entries: tuple[tuple[int, DrainingHashEntry], ...] = ()
    cleared: int = 0

    def of(self, hashed: int) -> DrainingHashEntry | None:
        return next((entry for one, entry in self.entries if one == hashed), None)

    def with_entry(self, hashed: int, entry: DrainingHashEntry | None) -> DrainingHashes:
        others = tuple(pair for pair in self.entries if pair[0] != hashed)
        if entry is None:
            return replace(self, entries=others, cleared=self.cleared + (len(others) < len(self.entries)))
        return replace(self, entries=tuple(sorted((*others, (hashed, entry)), key=lambda pair: pair[0])))


NONE_DRAINING = DrainingHashes()


def transition(entry: DrainingHashEntry | None, happens: DrainingInput) -> DrainingTransition:
    """The transition of a hash (None: not draining); ValueError for an input that cannot happen."""
    state = DrainingState.FREE if entry is None else entry.state
    found = TABLE.get((state, happens))
    if found is None:
        raise ValueError(f"it cannot be that {happens.value}: it is {state.value}")
    return found


@carries("KEY-03", "KEY-05", "KEY-11")
def moved(draining: DrainingHashes, hashed: int, *, consumer: str, pending: int) -> DrainingHashes:
    """The hash is reassigned while ``pending`` messages of it, at least one, are pending at ``consumer``.

    ValueError if it drains elsewhere: while a hash drains, no other consumer may have pending messages of it (KEY-10).
    """
    entry = draining.of(hashed)
    if entry is not None and entry.consumer != consumer:
        raise ValueError(f"hash {hashed} drains at {entry.consumer}, and messages of it are pending at {consumer}")
    transition(entry, DrainingInput.MOVED)
    return draining.with_entry(hashed, DrainingHashEntry(consumer, pending, entry.blocked if entry else 0))


@carries("KEY-03", "KEY-04", "KEY-07")
def offered(draining: DrainingHashes, hashed: int, *, consumer: str) -> tuple[DrainingHashes, bool]:
    """A message of the hash is about to be sent to this consumer. Returns whether it may be (KEY-03, KEY-04).

    A hash that returned to the consumer that drains it leaves the set only now (KEY-07).
    """
    entry = draining.of(hashed)
    is_its_own = entry is not None and entry.consumer == consumer
    effect = transition(
        entry, DrainingInput.OFFERED_TO_ITS_OWN if is_its_own else DrainingInput.OFFERED_TO_ANOTHER
    ).effect
    if effect is DrainingEffect.BLOCK:
        assert entry is not None
        return draining.with_entry(hashed, replace(entry, blocked=entry.blocked + 1)), False
    return draining.with_entry(hashed, None), True


@carries("KEY-05", "KEY-06", "KEY-11")
def removed(
    draining: DrainingHashes, hashed: int, *, consumer: str, closing: bool = False
) -> tuple[DrainingHashes, DrainingEffect]:
    """A pending message of the hash is removed, also if it does not drain. Returns the effect (KEY-05).

    ``closing``: its consumer disconnects. That sends blocked messages by itself, so the dispatcher is not woken.
    ValueError if the hash drains at another consumer.
    """
    entry = draining.of(hashed)
    if entry is not None and entry.consumer != consumer:
        raise ValueError(f"hash {hashed} drains at {entry.consumer}, but a message of it was pending at {consumer}")
    is_last = entry is None or entry.pending == 1
    happens = (
        DrainingInput.REMOVED if not is_last else DrainingInput.LAST_CLOSED if closing else DrainingInput.LAST_REMOVED
    )
    effect = transition(entry, happens).effect
    if effect is DrainingEffect.COUNT_DOWN:
        assert entry is not None
        return draining.with_entry(hashed, replace(entry, pending=entry.pending - 1)), effect
    return draining.with_entry(hashed, None), effect
