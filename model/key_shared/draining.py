"""The life of a draining hash, as a table: what it is in, what happens to it, and what comes of that (document 004).

A hash *drains* when it was given to another consumer while messages of it were pending at the one that had it. Until
these are removed (acknowledged, given back, or their consumer is gone) nothing of it is sent to anybody else. It counts
the messages that are pending, and the attempts that it blocked: without any there is nobody to tell when it is over.

``TABLE`` is the whole of it; what is not in it cannot happen. :class:`DrainingHashes` are the hashes of a subscription.

What the document leaves open is settled here: a hash that went back to its consumer, and away again before anything was
sent, is counted anew. The document's listing adds to the count it has, which then never comes down to zero.

Not here: who has which hash (:mod:`model.key_shared.selectors`), and what is sent (:mod:`model.key_shared.dispatcher`).
"""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.structs import replace

from model.rules.catalogue import carries


class State(enum.Enum):
    """What a hash is in."""

    FREE = "not draining"
    DRAINING = "draining"
    BLOCKING = "draining, and something was blocked"


class Input(enum.Enum):
    """What happens to a hash."""

    MOVED = "it goes to another consumer, and messages of it are pending"
    OFFERED_TO_ANOTHER = "a message of it is about to go to a consumer that does not drain it"
    OFFERED_TO_ITS_OWN = "a message of it is about to go to the consumer that drains it"
    REMOVED = "a pending message of it is removed, and more are counted"
    LAST_REMOVED = "a pending message of it is removed, and no more are counted"
    LAST_CLOSED = "its consumer disconnects: a pending message of it is removed, and no more are counted"


class Effect(enum.Enum):
    """What comes of it."""

    NOTHING = "nothing"
    COUNT = "its pending messages are counted"
    COUNT_DOWN = "one less is counted"
    SEND = "the message may be sent"
    BLOCK = "the message is put aside, and the attempt counted"
    RETURN = "the message may be sent, and the hash leaves the set"
    CLEAR = "the hash leaves the set"
    UNBLOCK = "the hash leaves the set, and what it blocked is sent"


class Transition(Struct, frozen=True):
    """What comes of an input, and the state after it."""

    effect: Effect
    after: State


TABLE: dict[tuple[State, Input], Transition] = {
    (State.FREE, Input.MOVED): Transition(Effect.COUNT, State.DRAINING),
    (State.FREE, Input.OFFERED_TO_ANOTHER): Transition(Effect.SEND, State.FREE),
    (State.FREE, Input.LAST_REMOVED): Transition(Effect.NOTHING, State.FREE),
    (State.FREE, Input.LAST_CLOSED): Transition(Effect.NOTHING, State.FREE),
    (State.DRAINING, Input.MOVED): Transition(Effect.COUNT, State.DRAINING),
    (State.DRAINING, Input.OFFERED_TO_ANOTHER): Transition(Effect.BLOCK, State.BLOCKING),
    (State.DRAINING, Input.OFFERED_TO_ITS_OWN): Transition(Effect.RETURN, State.FREE),
    (State.DRAINING, Input.REMOVED): Transition(Effect.COUNT_DOWN, State.DRAINING),
    (State.DRAINING, Input.LAST_REMOVED): Transition(Effect.CLEAR, State.FREE),
    (State.DRAINING, Input.LAST_CLOSED): Transition(Effect.CLEAR, State.FREE),
    (State.BLOCKING, Input.MOVED): Transition(Effect.COUNT, State.BLOCKING),
    (State.BLOCKING, Input.OFFERED_TO_ANOTHER): Transition(Effect.BLOCK, State.BLOCKING),
    (State.BLOCKING, Input.OFFERED_TO_ITS_OWN): Transition(Effect.RETURN, State.FREE),
    (State.BLOCKING, Input.REMOVED): Transition(Effect.COUNT_DOWN, State.BLOCKING),
    (State.BLOCKING, Input.LAST_REMOVED): Transition(Effect.UNBLOCK, State.FREE),
    (State.BLOCKING, Input.LAST_CLOSED): Transition(Effect.CLEAR, State.FREE),
}
"""The life of a draining hash. Where a hash does not drain nothing is counted, and no consumer is its own."""


class DrainingHash(Struct, frozen=True, gc=False):
    """A hash that drains: where, how many of its messages are pending there, and how many attempts it blocked."""

    consumer: str
    pending: int
    blocked: int = 0

    @property
    def state(self) -> State:
        """Its state in the table."""
        return State.BLOCKING if self.blocked else State.DRAINING


class DrainingHashes(Struct, frozen=True, cache_hash=True, gc=False):
    """The hashes of a subscription that drain, in their order, and how many left the set so far (KEY-11)."""

    entries: tuple[tuple[int, DrainingHash], ...] = ()
    cleared: int = 0

    def of(self, hashed: int) -> DrainingHash | None:
        """How this hash drains; None when it does not."""
        return next((entry for one, entry in self.entries if one == hashed), None)

    def with_entry(self, hashed: int, entry: DrainingHash | None) -> DrainingHashes:
        """The set with this hash draining so, or not at all."""
        others = tuple(pair for pair in self.entries if pair[0] != hashed)
        if entry is None:
            return replace(self, entries=others, cleared=self.cleared + (len(others) < len(self.entries)))
        return replace(self, entries=tuple(sorted((*others, (hashed, entry)), key=lambda pair: pair[0])))


NONE_DRAINING = DrainingHashes()


def transition(entry: DrainingHash | None, happens: Input) -> Transition:
    """What the table has for a hash that drains so (None: not); ValueError for what cannot happen."""
    state = State.FREE if entry is None else entry.state
    found = TABLE.get((state, happens))
    if found is None:
        raise ValueError(f"it cannot be that {happens.value}: it is {state.value}")
    return found


@carries("KEY-03", "KEY-05", "KEY-11")
def moved(draining: DrainingHashes, hashed: int, *, consumer: str, pending: int) -> DrainingHashes:
    """The hash goes from ``consumer`` to another one, and ``pending`` messages of it, at least one, are pending there.

    ValueError when it drains elsewhere: while a hash drains, nobody else may have messages of it pending (KEY-10).
    """
    entry = draining.of(hashed)
    if entry is not None and entry.consumer != consumer:
        raise ValueError(f"hash {hashed} drains at {entry.consumer}, and messages of it are pending at {consumer}")
    transition(entry, Input.MOVED)
    return draining.with_entry(hashed, DrainingHash(consumer, pending, entry.blocked if entry else 0))


@carries("KEY-03", "KEY-04", "KEY-07")
def offered(draining: DrainingHashes, hashed: int, *, consumer: str) -> tuple[DrainingHashes, bool]:
    """A message of the hash is about to go to this consumer; the answer has whether it may (KEY-03, KEY-04).

    A hash that went back to the consumer that drains it leaves the set only now, when it is noticed (KEY-07).
    """
    entry = draining.of(hashed)
    is_its_own = entry is not None and entry.consumer == consumer
    effect = transition(entry, Input.OFFERED_TO_ITS_OWN if is_its_own else Input.OFFERED_TO_ANOTHER).effect
    if effect is Effect.BLOCK:
        assert entry is not None
        return draining.with_entry(hashed, replace(entry, blocked=entry.blocked + 1)), False
    return draining.with_entry(hashed, None), True


@carries("KEY-05", "KEY-06", "KEY-11")
def removed(
    draining: DrainingHashes, hashed: int, *, consumer: str, closing: bool = False
) -> tuple[DrainingHashes, Effect]:
    """A pending message of the hash is removed, where it drains or not; the answer has what comes of it (KEY-05).

    ``closing``: because its consumer disconnects. What was blocked is then sent because of that, and nobody is told.
    ValueError when the hash drains at another consumer.
    """
    entry = draining.of(hashed)
    if entry is not None and entry.consumer != consumer:
        raise ValueError(f"hash {hashed} drains at {entry.consumer}, but a message of it was pending at {consumer}")
    is_last = entry is None or entry.pending == 1
    happens = Input.REMOVED if not is_last else Input.LAST_CLOSED if closing else Input.LAST_REMOVED
    effect = transition(entry, happens).effect
    if effect is Effect.COUNT_DOWN:
        assert entry is not None
        return draining.with_entry(hashed, replace(entry, pending=entry.pending - 1)), effect
    return draining.with_entry(hashed, None), effect
