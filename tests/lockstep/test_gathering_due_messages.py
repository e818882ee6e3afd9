"""What gathering the due messages of a Key_Shared subscription still waits for after a deadline."""

from __future__ import annotations

from conformance.lockstep.cursors.key_shared import GivenUp, Missing
from model.log import Position

_ENTRY, _LATER = Position(1, 0), Position(1, 1)


def test_a_due_entry_is_waited_for_though_its_hash_was_miscounted() -> None:
    given_up = GivenUp()
    given_up.add(Missing(hashes=frozenset({7})))
    missing = Missing(frozenset({_ENTRY}), frozenset({7}))
    assert given_up.without(missing, is_quiet=True) == Missing(frozenset({_ENTRY}))


def test_an_entry_that_was_not_dispatched_is_waited_for_only_until_the_broker_is_quiet() -> None:
    given_up, missing = GivenUp(), Missing(frozenset({_ENTRY}))
    given_up.add(missing)
    assert given_up.without(missing, is_quiet=False) == Missing()
    assert given_up.without(missing, is_quiet=True) is None


def test_another_entry_is_waited_for() -> None:
    given_up = GivenUp()
    given_up.add(Missing(frozenset({_ENTRY})))
    both = Missing(frozenset({_ENTRY, _LATER}))
    assert given_up.without(both, is_quiet=True) == Missing(frozenset({_LATER}))


def test_an_entry_that_was_dispatched_late_is_waited_for_again() -> None:
    given_up, missing = GivenUp(), Missing(frozenset({_ENTRY}))
    given_up.add(missing)
    assert given_up.without(Missing(), is_quiet=True) is None
    assert given_up.without(missing, is_quiet=True) == missing
