"""Explorations in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from conformance.report.docs.exploration import in_words
from model.explorations import explorations
from model.explore import Always, EveryStep, NamedExploration, System, explore


@dataclass(frozen=True)
class Tick:
    kind: str = "tick"

    def __str__(self) -> str:
        return "the clock ticks"


def clock(hour: int) -> Iterator[tuple[Tick, int]]:
    if hour < 3:
        yield Tick(), hour + 1


HOURS: Always[int] = Always(("R-1",), "it is an hour", lambda hour: 0 <= hour < 12)
EARLY: Always[int] = Always(("R-2", "R-3"), "it is early", lambda hour: hour < 2)
FORWARDS: EveryStep[int, Tick] = EveryStep(("R-4",), "time goes on", frozenset({"tick"}), lambda a, _, b: a < b)
CLOCK = System(
    initial=(0,), steps=clock, always=(HOURS,), kinds=frozenset({"tick"}), good_ending=lambda hour: hour == 3
)


def lines_of(system: System[int, Tick], *, limit: int = 100) -> list[str]:
    run = partial(explore, system, limit=limit)
    named = NamedExploration(name="clock", what="a clock, for three hours", must_hold=True, run=run)
    return in_words(named, named.run()).splitlines()


def test_statements_that_hold_are_listed_with_their_rules() -> None:
    assert lines_of(replace(CLOCK, every_step=(FORWARDS,))) == [
        "clock: a clock, for three hours",
        "  4 states, 3 transitions, at most 3 steps from the start.",
        "  In every one of them:",
        "    it is an hour (R-1)",
        "    time goes on (R-4)",
        "  From everywhere a good ending is within reach.",
    ]


def test_a_broken_statement_is_reported_step_by_step() -> None:
    assert lines_of(replace(CLOCK, always=(HOURS, EARLY)))[2:6] == [
        "  1 statement holds in every one of them.",
        "  Broken: it is early (R-2, R-3)",
        "     1. the clock ticks",
        "     2. the clock ticks",
    ]


def test_other_broken_statements_are_only_counted_after_a_broken_promise() -> None:
    promise = replace(EARLY, says="it is early, I promise", promise=True)
    lines = lines_of(replace(CLOCK, always=(EARLY, promise)))
    assert "  Broken: it is early, I promise (R-2, R-3)" in lines
    assert lines[-1] == "  Broken after 2 steps: it is early (R-2, R-3)"


def test_a_dead_end_is_reported() -> None:
    lines = lines_of(replace(CLOCK, good_ending=lambda hour: hour == 2))
    assert lines[-4:] == [
        "  Broken: from everywhere a good ending is within reach. It is not after:",
        "     1. the clock ticks",
        "     2. the clock ticks",
        "     3. the clock ticks",
    ]


def test_statements_not_exercised_and_steps_that_never_occurred_are_reported() -> None:
    backwards = replace(FORWARDS, kinds=frozenset({"tock"}))
    lines = lines_of(replace(CLOCK, every_step=(backwards,), kinds=frozenset({"tick", "tock"})))
    assert lines[-2:] == ["  Not exercised: time goes on (R-4)", "  Never happened: tock."]


def test_beyond_the_limit_nothing_is_claimed() -> None:
    lines = lines_of(CLOCK, limit=1)
    assert lines[1].endswith("It stopped there.")
    assert "  From everywhere a good ending is within reach." not in lines


def test_a_variant_is_reported_with_its_shortest_counterexample() -> None:
    (named,) = explorations("overlapping-batch-dropped")
    lines = in_words(named, named.run()).splitlines()
    assert lines[0].startswith("overlapping-batch-dropped: A batch is judged by its lowest id")
    start = lines.index("  Broken: a confirmed message is stored (DEDUP-13, DEDUP-15)")
    assert lines[start + 1 : start + 6] == [
        "     1. A connects: last sequence id -1",
        "     2. A sends 1 (a0): it is new",
        "     3. A crashes and restarts: last sequence id -1",
        "     4. A's 1 (a0) is stored, not confirmed",
        "     5. A sends batch 1,3 (a0, a1): confirmed as a duplicate",
    ]
