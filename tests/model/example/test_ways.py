"""Which deviations explain an observation, where several do."""

from __future__ import annotations

from model.excuses import DEVIATIONS
from model.excuses.ways import adding, explained, minimal, required, together
from model.judgement import Allowed, Broken

A, B = sorted(DEVIATIONS)[:2]
STARVED = Broken("ACK-04", "it is skipped")


def test_ways_are_kept_minimal() -> None:
    one, other = (frozenset({frozenset({name})}) for name in (A, B))
    both = together(one, other)
    assert both == {frozenset({A, B})}
    assert minimal(one | both) == one


def test_a_known_way_counts_before_a_shorter_unknown_one() -> None:
    known = frozenset({A, B})
    assert required([frozenset({"unknown"}), frozenset(known)], None, known) == Allowed(None, (), (A, B))


def test_a_known_cause_counts_before_an_unknown_one_in_any_order() -> None:
    for causes in ((A, B), (B, A)):
        assert explained(STARVED, causes, None, frozenset({B})) == Allowed(None, (), (B,))
    unknown = explained(STARVED, (A, B), None, frozenset())
    assert isinstance(unknown, Broken)
    assert unknown.deviation == A
    assert explained(unknown, (B,), None, frozenset({B})) == Allowed(None, (), (B,))
    assert explained(unknown, (B,), None, frozenset()) is unknown
    assert explained(STARVED, (), None, frozenset({B})) is STARVED


def test_amounts_of_deviations_are_added() -> None:
    amounts = {A: (1, 2), B: (1, 3), "exact": (-4, -4), "nothing": (1, 0)}
    assert adding(amounts, 2) == [frozenset({A}), frozenset({B}), frozenset({A, B})]
    assert adding(amounts, 5) == [frozenset({A, B})]
    assert adding(amounts, 6) == []
    assert adding(amounts, -4) == [frozenset({"exact"})]
    assert adding(amounts, -1) == [frozenset({"exact", B}), frozenset({"exact", A, B})]
