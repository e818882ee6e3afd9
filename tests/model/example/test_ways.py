"""Which deviations explain an observation, where several do."""

from __future__ import annotations

from model.ways import adding, minimal, together

A, B = "a", "b"


def test_ways_are_kept_minimal() -> None:
    one, other = (frozenset({frozenset({name})}) for name in (A, B))
    both = together(one, other)
    assert both == {frozenset({A, B})}
    assert minimal(one | both) == one


def test_amounts_of_deviations_are_added() -> None:
    amounts = {A: (1, 2), B: (1, 3), "exact": (-4, -4), "nothing": (1, 0)}
    assert adding(amounts, 2) == [frozenset({A}), frozenset({B}), frozenset({A, B})]
    assert adding(amounts, 5) == [frozenset({A, B})]
    assert adding(amounts, 6) == []
    assert adding(amounts, -4) == [frozenset({"exact"})]
    assert adding(amounts, -1) == [frozenset({"exact", B}), frozenset({"exact", A, B})]
