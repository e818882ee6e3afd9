"""The statistics of replays, against published examples and against exact enumeration."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cache

import pytest

from conformance.rates import (
    GREAT,
    LOOKS,
    MOST_TRIALS,
    WRONGLY_ALIKE,
    WRONGLY_GONE,
    WRONGLY_HIGHER,
    WRONGLY_THERE,
    Comparison,
    Counts,
    Presence,
    fisher,
    newcombe,
    next_look,
    wilson,
)


def test_wilsons_interval_is_that_of_newcombes_first_table() -> None:
    """81 of 263, 15 of 148, 0 of 20 and 1 of 29: Newcombe, Statistics in Medicine 17 (1998), pages 857 to 872."""
    for times, trials, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        assert wilson(times, trials) == pytest.approx((low, high), abs=5e-5)
    assert wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_newcombes_interval_is_that_of_his_second_paper() -> None:
    """56/70 minus 48/80, 9/10 minus 3/10 and 10/10 minus 0/10, method 10: Statistics in Medicine 17, page 873."""
    for first, second, low, high in (
        (Counts(56, 70), Counts(48, 80), 0.0524, 0.3339),
        (Counts(9, 10), Counts(3, 10), 0.1705, 0.8090),
        (Counts(10, 10), Counts(0, 10), 0.6075, 1.0),
    ):
        assert newcombe(first, second) == pytest.approx((low, high), abs=5e-5)


def test_fishers_probability_is_that_of_the_tea_tasting() -> None:
    """Four cups of four in eight are chosen rightly: 1 of 70; three of four or better: 17 of 70."""
    assert fisher(Counts(4, 4), Counts(0, 4)) == pytest.approx(1 / 70)
    assert fisher(Counts(3, 4), Counts(1, 4)) == pytest.approx(17 / 70)
    assert fisher(Counts(0, 5), Counts(5, 5)) == 1.0


def test_two_rates_are_compared_after_a_few_numbers_of_trials() -> None:
    assert [next_look(trials) for trials in (0, 6, 12, 24, 48)] == [6, 12, 24, 48, None]


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (Counts(6, 6), Counts(0, 6), "higher"),
        (Counts(5, 6), Counts(0, 6), None),
        (Counts(6, 6), Counts(6, 6), None),
        (Counts(12, 12), Counts(12, 12), "alike"),
        (Counts(3, 24), Counts(3, 24), "alike"),
        (Counts(6, 6), Counts(3, 6), None),
        (Counts(0, 48), Counts(0, 48), None),
        (Counts(3, 48), Counts(0, 48), None),
        (Counts(12, 48), Counts(0, 48), "higher"),
        (Counts(0, 6), Counts(6, 6), None),
        (Counts(1, 6), Counts(6, 6), "alike"),
    ],
)
def test_two_rates_are_higher_alike_or_undecided(first: Counts, second: Counts, result: str | None) -> None:
    assert Comparison(first, second).result == result


def results(rate: float, other: float) -> dict[str | None, float]:
    """The exact probability of each result of the whole test, by all ways that the trials may go."""
    ways: dict[tuple[int, int], float] = {(0, 0): 1.0}
    ended: dict[str | None, float] = {"higher": 0.0, "alike": 0.0, None: 0.0}
    before = 0
    for look in LOOKS:
        more = look - before
        going: dict[tuple[int, int], float] = {}
        for (times, others), weight in ways.items():
            for n, chance in binomial(more, rate):
                for m, its in binomial(more, other):
                    key = (times + n, others + m)
                    going[key] = going.get(key, 0.0) + weight * chance * its
        ways = {}
        for (times, others), weight in going.items():
            result = compared(times, others, look)
            if result is None:
                ways[times, others] = weight
            else:
                ended[result] += weight
        before = look
    return {**ended, None: sum(ways.values())}


@cache
def compared(times: int, others: int, trials: int) -> str | None:
    return Comparison(Counts(times, trials), Counts(others, trials)).result


def binomial(trials: int, rate: float) -> Iterator[tuple[int, float]]:
    for times in range(trials + 1):
        chance = math.comb(trials, times) * rate**times * (1 - rate) ** (trials - times)
        if chance > 1e-9:
            yield times, chance


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8, 0.95, 1.0])
def test_a_rate_that_is_not_higher_is_called_so_less_often_than_stated(rate: float) -> None:
    assert results(rate, rate)["higher"] <= WRONGLY_HIGHER


@pytest.mark.parametrize("rate", [GREAT + step / 20 for step in range(11)])
def test_a_great_difference_is_called_alike_less_often_than_stated(rate: float) -> None:
    assert results(rate, rate - GREAT)["alike"] <= WRONGLY_ALIKE


def test_what_never_happens_in_the_second_trials_is_never_alike_and_mostly_higher() -> None:
    for rate, power in ((1.0, 0.999), (0.5, 0.999), (0.25, 0.85)):
        found = results(rate, 0.0)
        assert found["alike"] == 0.0
        assert found["higher"] >= power


def presence(rate: float, actual: float, draws: random.Random) -> str | None:
    test, seen = Presence(rate), Counts()
    while (decision := test.decide(seen)) is None and seen.trials < MOST_TRIALS:
        seen += Counts(int(draws.random() < actual), 1)
    return decision


@pytest.mark.parametrize("rate", [1.0, 0.6, 0.2])
def test_what_is_there_or_gone_is_taken_for_the_other_less_often_than_stated(rate: float) -> None:
    draws = random.Random(1)
    trials = 3000
    still = [presence(rate, rate / 2, draws) for _ in range(trials)]
    gone = [presence(rate, rate / 50, draws) for _ in range(trials)]
    assert still.count("gone") / trials <= 1.5 * WRONGLY_GONE
    assert gone.count("there") / trials <= 1.5 * WRONGLY_THERE
    assert {presence(rate, rate, draws) for _ in range(50)} == {"there"}
    assert {presence(rate, 0.0, draws) for _ in range(50)} == {"gone"}


def test_what_always_happens_is_decided_by_few_trials() -> None:
    test = Presence(1.0)
    assert test.left(Counts()) == 7
    assert test.left(Counts(1, 1)) == 1
    assert test.decide(Counts(0, 7)) == "gone"
    assert test.decide(Counts(0, 6)) is None
    assert test.decide(Counts(2, 2)) == "there"
    assert test.decide(Counts(1, 1)) is None


def test_a_rate_of_nothing_cannot_be_looked_for() -> None:
    with pytest.raises(ValueError, match="above 0"):
        Presence(0.0)
