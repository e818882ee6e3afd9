"""The table of a draining hash: every state with every input, and the functions that implement it."""

from __future__ import annotations

from itertools import product

import pytest

from model.key_shared.draining_hashes import (
    NONE_DRAINING,
    TABLE,
    DrainingHash,
    DrainingHashes,
    Effect,
    Input,
    State,
    Transition,
    moved,
    offered,
    removed,
    transition,
)

H = 7
IMPOSSIBLE = {(State.FREE, Input.OFFERED_TO_ITS_OWN), (State.FREE, Input.REMOVED)}


def in_state(state: State, pending: int) -> DrainingHashes:
    """Draining hashes with one hash in this state and ``pending`` messages of it at consumer A."""
    blocked = int(state is State.BLOCKING)
    return NONE_DRAINING if state is State.FREE else DrainingHashes(((H, DrainingHash("A", pending, blocked)),))


def happen(before: DrainingHashes, happens: Input) -> tuple[DrainingHashes, object]:
    """The result of the function for an input."""
    match happens:
        case Input.MOVED:
            return moved(before, H, consumer="A", pending=3), None
        case Input.OFFERED_TO_ANOTHER:
            return offered(before, H, consumer="B")
        case Input.OFFERED_TO_ITS_OWN:
            return offered(before, H, consumer="A")
        case _:
            return removed(before, H, consumer="A", closing=happens is Input.LAST_CLOSED)


def state_of(draining: DrainingHashes) -> State:
    entry = draining.of(H)
    return State.FREE if entry is None else entry.state


@pytest.mark.parametrize(("state", "happens"), list(product(State, Input)), ids=lambda one: one.name)
def test_every_state_and_input_is_either_in_the_table_or_impossible(state: State, happens: Input) -> None:
    entry = in_state(state, pending=2).of(H)
    if (state, happens) in IMPOSSIBLE:
        with pytest.raises(ValueError, match=r"it cannot be that a .*: it is not draining"):
            transition(entry, happens)
    else:
        assert transition(entry, happens) == TABLE[state, happens]


@pytest.mark.parametrize(("state", "happens"), sorted(TABLE, key=str), ids=lambda one: one.name)
def test_the_functions_implement_the_table(state: State, happens: Input) -> None:
    before = in_state(state, pending=2 if happens is Input.REMOVED else 1)
    after, answer = happen(before, happens)
    expected = TABLE[state, happens]
    assert state_of(after) is expected.after
    if isinstance(answer, bool):
        assert answer is (expected.effect in (Effect.SEND, Effect.RETURN))
    elif answer is not None:
        assert answer is expected.effect
    assert after.cleared == (state is not State.FREE and expected.after is State.FREE)


def test_only_a_blocking_hash_unblocks() -> None:
    telling = {key for key, value in TABLE.items() if value.effect is Effect.UNBLOCK}
    assert telling == {(State.BLOCKING, Input.LAST_REMOVED)}


def test_a_hash_is_cleared_only_by_its_own_consumer_or_its_last_message() -> None:
    leaving = {happens for (state, happens), to in TABLE.items() if state is not State.FREE and to.after is State.FREE}
    assert leaving == {Input.OFFERED_TO_ITS_OWN, Input.LAST_REMOVED, Input.LAST_CLOSED}
    assert TABLE[State.FREE, Input.MOVED] == Transition(Effect.COUNT, State.DRAINING)


def test_attempts_and_pending_messages_are_counted() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=2)
    for _ in range(3):
        draining, may_be_sent = offered(draining, H, consumer="B")
        assert not may_be_sent
    draining, _ = removed(draining, H, consumer="A")
    assert draining.of(H) == DrainingHash("A", pending=1, blocked=3)
    draining, effect = removed(draining, H, consumer="A")
    assert (draining.of(H), draining.cleared, effect) == (None, 1, Effect.UNBLOCK)


def test_other_hashes_are_not_blocked() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=1)
    assert offered(draining, H + 1, consumer="B") == (draining, True)


def test_a_hash_that_returned_unnoticed_and_moved_again_is_counted_from_zero() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=2)
    draining, _ = removed(draining, H, consumer="A")
    draining = moved(draining, H, consumer="A", pending=1)
    assert draining.of(H) == DrainingHash("A", pending=1)


def test_a_hash_drains_at_one_consumer_only() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=1)
    with pytest.raises(ValueError, match="hash 7 drains at A, and messages of it are pending at B"):
        moved(draining, H, consumer="B", pending=1)
    with pytest.raises(ValueError, match="hash 7 drains at A, but a message of it was pending at B"):
        removed(draining, H, consumer="B")


def test_draining_hashes_are_sorted() -> None:
    draining = moved(moved(NONE_DRAINING, 9, consumer="A", pending=1), 3, consumer="B", pending=1)
    assert [hashed for hashed, _ in draining.entries] == [3, 9]
