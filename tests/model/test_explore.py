"""The exploration itself, on systems that are small enough to check by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from model.explore import Always, EveryStep, System, explore


@dataclass(frozen=True)
class Move:
    kind: str

    def __str__(self) -> str:
        return f"it goes {self.kind}"


def ladder(rung: int) -> Iterator[tuple[Move, int]]:
    """Rungs 0 to 4: up one, up two, down one; from 4 there is no way."""
    if rung < 4:
        yield Move("up"), rung + 1
    if rung < 3:
        yield Move("far up"), rung + 2
    if 0 < rung < 4:
        yield Move("down"), rung - 1


LADDER = System(initial=(0,), steps=ladder, kinds=frozenset({"up", "far up", "down", "sideways"}))


def words(labels: tuple[Move, ...]) -> list[str]:
    return [label.kind for label in labels]


def test_exploring_finds_every_state_and_counts_every_transition() -> None:
    found = explore(LADDER)
    assert (found.states, found.transitions, found.depth, found.complete) == (5, 10, 2, True)
    assert list(found.graph) == [0, 1, 2, 3, 4]
    assert found.graph.edges[1, 3]["words"] == "it goes far up"


def test_two_transitions_between_the_same_states_share_one_edge() -> None:
    twice = System(initial=(0,), steps=lambda n: [(Move("up"), 1), (Move("far up"), 1)] if n == 0 else [])
    found = explore(twice)
    assert found.transitions == 2
    assert found.graph.edges[0, 1]["words"] == "it goes up\nit goes far up"


def test_kinds_of_steps_that_never_occur_are_listed() -> None:
    assert explore(LADDER).untaken == {"sideways"}


def test_a_counterexample_is_a_shortest_path() -> None:
    below_three: Always[int] = Always(("R-1",), "it stays below 3", lambda rung: rung < 3)
    (counterexample,) = explore(replace(LADDER, always=(below_three,))).counterexamples
    assert counterexample.broken is below_three
    assert words(counterexample.path.labels) == ["up", "far up"]
    assert counterexample.path.states == (0, 1, 3)


def test_a_statement_about_steps_is_checked_only_on_its_kinds_of_steps() -> None:
    not_from_two: EveryStep[int, Move] = EveryStep(
        ("R-2",), "no step starts at 2", frozenset({"down"}), lambda before, _, __: before != 2
    )
    found = explore(replace(LADDER, every_step=(not_from_two,)))
    (counterexample,) = found.counterexamples
    assert words(counterexample.path.labels) == ["far up", "down"]
    assert counterexample.path.states == (0, 2, 1)
    assert found.exercised == {"no step starts at 2": 3}


def test_exploring_stops_at_a_state_that_breaks_a_promise() -> None:
    below_two: Always[int] = Always(("R-1",), "it stays below 2", lambda rung: rung < 2, promise=True)
    found = explore(replace(LADDER, always=(below_two,)))
    assert set(found.graph) == {0, 1, 2, 3}
    assert {len(c.path.labels) for c in found.counterexamples} == {1}


def test_exploring_stops_at_a_step_that_breaks_a_promise() -> None:
    no_leap: EveryStep[int, Move] = EveryStep(
        ("R-1",), "it takes rung by rung", frozenset({"far up"}), lambda *_: False, promise=True
    )
    found = explore(replace(LADDER, every_step=(no_leap,)))
    assert set(found.graph) == {0, 1, 2, 3}


def test_a_statement_that_was_never_exercised_has_not_held() -> None:
    of_nothing: EveryStep[int, Move] = EveryStep(("R-1",), "sideways is fine", frozenset({"sideways"}), lambda *_: True)
    found = explore(replace(LADDER, every_step=(of_nothing,)))
    assert found.held == ()
    assert found.unexercised == (of_nothing,)
    assert not found.holds


def test_a_dead_end_is_a_state_without_a_reachable_good_ending() -> None:
    found = explore(replace(LADDER, good_ending=lambda rung: rung == 0))
    assert found.dead_end is not None
    assert words(found.dead_end.labels) == ["far up", "far up"]
    assert not found.holds


def test_everything_holds_without_dead_ends() -> None:
    found = explore(replace(LADDER, good_ending=lambda rung: rung == 4))
    assert found.dead_end is None
    assert found.knows_endings
    assert found.holds


def test_an_exploration_beyond_its_limit_claims_nothing() -> None:
    endless = System(initial=(0,), steps=lambda n: [(Move("up"), n + 1)], good_ending=lambda n: n < 0)
    found = explore(endless, limit=10)
    assert not found.complete
    assert not found.holds
    assert not found.knows_endings
    assert found.dead_end is None


def test_merged_states_are_counted_once() -> None:
    clock = System(initial=(0,), steps=lambda n: [(Move("up"), n + 1)], merge=lambda n: n % 12)
    found = explore(clock)
    assert (found.states, found.transitions) == (12, 12)
