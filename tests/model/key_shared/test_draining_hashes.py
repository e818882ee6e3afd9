"""The table of a draining hash: every state with every input, and the functions that implement it."""

from __future__ import annotations

from itertools import product

import pytest

from model.key_shared.draining_hashes import (
    NONE_DRAINING,
    TABLE,
    DrainingEffect,
    DrainingHashEntry,
    DrainingHashes,
    DrainingInput,
    DrainingState,
    DrainingTransition,
    moved,
    offered,
    removed,
    transition,
)

H = 7
IMPOSSIBLE = {(DrainingState.FREE, DrainingInput.OFFERED_TO_ITS_OWN), (DrainingState.FREE, DrainingInput.REMOVED)}


def in_state(state: DrainingState, pending: int) -> DrainingHashes:
    """Draining hashes with one hash in this state and ``pending`` messages of it at consumer A."""
    blocked = int(state is DrainingState.BLOCKING)
    return (
        NONE_DRAINING
        if state is DrainingState.FREE
        else DrainingHashes(((H, DrainingHashEntry("A", pending, blocked)),))
    )


def happen(before: DrainingHashes, happens: DrainingInput) -> tuple[DrainingHashes, object]:
    """The result of the function for an input."""
    match happens:
        case DrainingInput.MOVED:
            return moved(before, H, consumer="A", pending=3), None
        case DrainingInput.OFFERED_TO_ANOTHER:
            return offered(before, H, consumer="B")
        case DrainingInput.OFFERED_TO_ITS_OWN:
            return offered(before, H, consumer="A")
        case _:
            return removed(before, H, consumer="A", closing=happens is DrainingInput.LAST_CLOSED)


def state_of(draining: DrainingHashes) -> DrainingState:
    entry = draining.of(H)
    return DrainingState.FREE if entry is None else entry.state


@pytest.mark.parametrize(("state", "happens"), list(product(DrainingState, DrainingInput)), ids=lambda one: one.name)
def test_every_state_and_input_is_either_in_the_table_or_impossible(
    state: DrainingState, happens: DrainingInput
) -> None:
    entry = in_state(state, pending=2).of(H)
    if (state, happens) in IMPOSSIBLE:
        with pytest.raises(ValueError, match=r"it cannot be that a .*: it is not draining"):
            transition(entry, happens)
    else:
        assert transition(entry, happens) == TABLE[state, happens]


@pytest.mark.parametrize(("state", "happens"), sorted(TABLE, key=str), ids=lambda one: one.name)
def test_the_functions_implement_the_table(state: DrainingState, happens: DrainingInput) -> None:
    before = in_state(state, pending=2 if happens is DrainingInput.REMOVED else 1)
    after, answer = happen(before, happens)
    expected = TABLE[state, happens]
    assert state_of(after) is expected.after
    if isinstance(answer, bool):
        assert answer is (expected.effect in (DrainingEffect.SEND, DrainingEffect.RETURN))
    elif answer is not None:
        assert answer is expected.effect
    assert after.cleared == (state is not DrainingState.FREE and expected.after is DrainingState.FREE)


def test_only_a_blocking_hash_unblocks() -> None:
    telling = {key for key, value in TABLE.items() if value.effect is DrainingEffect.UNBLOCK}
    assert telling == {(DrainingState.BLOCKING, DrainingInput.LAST_REMOVED)}


def test_a_hash_is_cleared_only_by_its_own_consumer_or_its_last_message() -> None:
    leaving = {
        happens
        for (state, happens), to in TABLE.items()
        if state is not DrainingState.FREE and to.after is DrainingState.FREE
    }
    assert leaving == {DrainingInput.OFFERED_TO_ITS_OWN, DrainingInput.LAST_REMOVED, DrainingInput.LAST_CLOSED}
    assert TABLE[DrainingState.FREE, DrainingInput.MOVED] == DrainingTransition(
        DrainingEffect.COUNT, DrainingState.DRAINING
    )


def test_attempts_and_pending_messages_are_counted() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=2)
    for _ in range(3):
        draining, may_be_sent = offered(draining, H, consumer="B")
        assert not may_be_sent
    draining, _ = removed(draining, H, consumer="A")
    assert draining.of(H) == DrainingHashEntry("A", pending=1, blocked=3)
    draining, effect = removed(draining, H, consumer="A")
    assert (draining.of(H), draining.cleared, effect) == (None, 1, DrainingEffect.UNBLOCK)


def test_other_hashes_are_not_blocked() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=1)
    assert offered(draining, H + 1, consumer="B") == (draining, True)


def test_a_hash_that_returned_unnoticed_and_moved_again_is_counted_from_zero() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=2)
    draining, _ = removed(draining, H, consumer="A")
    draining = moved(draining, H, consumer="A", pending=1)
    assert draining.of(H) == DrainingHashEntry("A", pending=1)


def test_a_hash_drains_at_one_consumer_only() -> None:
    draining = moved(NONE_DRAINING, H, consumer="A", pending=1)
    with pytest.raises(ValueError, match="hash 7 drains at A, and messages of it are pending at B"):
        moved(draining, H, consumer="B", pending=1)
    with pytest.raises(ValueError, match="hash 7 drains at A, but a message of it was pending at B"):
        removed(draining, H, consumer="B")


def test_draining_hashes_are_sorted() -> None:
    draining = moved(moved(NONE_DRAINING, 9, consumer="A", pending=1), 3, consumer="B", pending=1)
    assert [hashed for hashed, _ in draining.entries] == [3, 9]
