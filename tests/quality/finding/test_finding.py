"""How well bugs are found: comparisons notice what got worse, not noise."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.brokers.size import SMALLEST
from conformance.faults.defect import Defect
from model.rules.catalogue import RULES
from tests.quality.finding import data
from tests.quality.finding.__main__ import FAILED, REFERENCE, lines, main
from tests.quality.finding.comparison import ALL, Compared, compare
from tests.quality.finding.data import MEASURED, Measurement, Way
from tests.quality.finding.hunt import machines_for
from tests.quality.finding.page import PAGE, PLOT, page, plot
from tests.quality.finding.sample import sample

ROOT = Path(__file__).parents[3]


def test_every_defect_of_the_sample_has_machines() -> None:
    assert all(machines_for(defect) for defect in sample())


def test_the_sample_has_defects_of_each_family_that_one_broker_can_show() -> None:
    families = Counter(RULES[defect.breaks].family for defect in sample())
    assert families == {"DEDUP": 4, "ACK": 5, "KEY": 5, "CHUNK": 3, "SERVE": 3}
    assert all(defect.size == SMALLEST for defect in sample())


# ----------------------------------------------------------------------------------------------------------------- data


def hunt(defect: str, cost: float, *, seed: int = 1, way: Way = "lanes", limit: int = 10_000) -> Measurement:
    """A hunt that takes so many operations, and a hundredth of that in seconds."""
    return Measurement(
        date="2026-11-26",
        release="4.0.8",
        way=way,
        defect=defect,
        seed=seed,
        seconds=min(cost, limit) / 100,
        operations=round(min(cost, limit)),
        found=cost < limit,
        rule=RULES["ACK-01"].id if cost < limit else None,
    )


def test_measurements_are_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "measured.jsonl"
    assert data.read(path) == []
    data.append(path, [hunt("ack-dropped", 10), hunt("ack-dropped", math.inf, seed=2)])
    data.append(path, [hunt("ack-dropped", 20, way="uniform")])
    measured = data.read(path)
    assert [(one.operations, one.found, one.is_of) for one in measured] == [
        (10, True, ("lanes", "ack-dropped", 1)),
        (10_000, False, ("lanes", "ack-dropped", 2)),
        (20, True, ("uniform", "ack-dropped", 1)),
    ]


def test_no_hunt_is_stored_twice() -> None:
    stored = Counter((one.release, *one.is_of) for one in data.read(MEASURED))
    assert stored
    assert set(stored.values()) == {1}


# ----------------------------------------------------------------------------------------------------------- comparison

DEFECTS = [f"d{number}" for number in range(6)]
NEVER = 1e12
Harder = Callable[[str], float]


def compared_by_chance(chance: random.Random, harder: Harder) -> list[Compared]:
    """Hunts as they are: exponential, as if each example had the same probability to find a defect."""

    def hunts(seeds: int, factor: Harder) -> list[Measurement]:
        means = {defect: 100.0 * (number + 1) * factor(defect) for number, defect in enumerate(DEFECTS)}
        return [hunt(one, chance.expovariate(1 / means[one]), seed=seed) for one in DEFECTS for seed in range(seeds)]

    return compare(hunts(5, lambda _: 1.0), hunts(8, harder))


def how_often_worse(what: str, harder: Harder, *, times: int) -> float:
    chance = random.Random(what)
    found = [compared_by_chance(chance, harder) for _ in range(times)]
    return sum(any(one.is_worse and what in (one.what, "anything") for one in compared) for compared in found) / times


def test_noise_is_not_taken_for_a_worsening() -> None:
    assert how_often_worse("anything", lambda _: 1.0, times=150) <= 0.04


def test_what_got_better_is_not_worse() -> None:
    assert how_often_worse("anything", lambda _: 0.2, times=20) == 0


def test_a_defect_that_is_not_found_any_more_is_noticed() -> None:
    assert how_often_worse("d2", lambda defect: NEVER if defect == "d2" else 1.0, times=20) == 1


def test_a_defect_that_is_much_harder_to_find_is_noticed_mostly() -> None:
    assert how_often_worse("d0", lambda defect: 100.0 if defect == "d0" else 1.0, times=40) > 0.5


def test_a_small_worsening_of_all_defects_is_noticed() -> None:
    assert how_often_worse(ALL, lambda _: 4.0, times=20) > 0.8


def test_the_probability_is_that_of_every_way_to_choose_the_new_hunts() -> None:
    before, now = [3.0, 5.0, 5.0, 20_000.0], [5.0, 9.0, 20_000.0]
    (compared,) = compare([hunt("d", cost) for cost in before], [hunt("d", cost) for cost in now])
    ranks = {3.0: 1.0, 5.0: 3.0, 9.0: 5.0, 20_000.0: 6.5}
    sums = [sum(chosen) for chosen in combinations([ranks[cost] for cost in (*before, *now)], len(now))]
    expected = sum(total >= sum(ranks[cost] for cost in now) for total in sums) / len(sums)
    assert compared.by_chance == pytest.approx(expected)
    assert (compared.before, compared.now) == (5.0, 9.0)


def test_defects_that_were_measured_only_once_are_left_out() -> None:
    assert compare([hunt("d0", 5)], [hunt("d1", 5)]) == []
    assert lines([]) == ["Nothing was measured both before and now."]


def test_a_machine_that_is_too_slow_to_find_anything_is_no_worsening() -> None:
    before = [hunt("d0", 100 + seed, seed=seed) for seed in range(5)]
    slow = [hunt("d0", math.inf, seed=seed, limit=50) for seed in range(8)]
    assert compare(before, slow) == []
    assert compare(before, [*slow, hunt("d0", 100)])[0].by_chance > 0.5


def test_the_outcome_in_words() -> None:
    before = [hunt(defect, 10 + seed, seed=seed) for defect in ("d0", "d1") for seed in range(5)]
    now = [hunt("d0", math.inf, seed=seed) for seed in range(8)] + [hunt("d1", 12, seed=seed) for seed in range(8)]
    assert lines(compare(before, now)) == [
        "Operations until a defect is found, before and now (medians), and the probability that chance explains it:",
        "  d0: 12, mostly not found; 0.002",
        "  all of them: 12, mostly not found; 0.015",
        "  d1: 12, 12; 0.618",
        "Found later than before: d0. (A probability below 0.01 counts, after a correction for the number of tests.)",
    ]


class Scripted:
    """A deployment on which every hunt takes the same number of operations."""

    cost = 0.0

    def __init__(self, broker: str) -> None:
        assert broker == "4.0.8"

    def hunt(self, defect: Defect, way: Way, seed: int, *, limit_s: float) -> Measurement:
        assert limit_s > 0
        return hunt(defect.name, self.cost, seed=seed, way=way)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("cost", "status"), [(12.0, 0), (math.inf, 1)])
def test_quality_measures_one_defect_of_each_family_again(
    cost: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.quality.finding.__main__.Deployment", Scripted)
    monkeypatch.setattr(Scripted, "cost", cost)
    path = tmp_path / "measured.jsonl"
    data.append(path, [hunt(one.name, 10 + seed, seed=seed) for one in sample() for seed in range(1, 6)])
    ran = CliRunner().invoke(main, ["again", "--data", str(path)])
    assert ran.exit_code == status, ran.output
    first = {RULES[defect.breaks].family: defect.name for defect in reversed(sample())}
    assert all(ran.output.count(f"{name}, lanes, seed") == 8 for name in first.values())


def test_quality_fails_if_there_is_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.quality.finding.__main__.Deployment", Scripted)
    assert CliRunner().invoke(main, ["again", "--data", str(tmp_path / "none.jsonl")]).exit_code == FAILED


# ----------------------------------------------------------------------------------------------------------------- page


def test_the_page_and_the_plot_follow_from_the_measurements() -> None:
    measured = data.read(MEASURED)
    assert (ROOT / REFERENCE / PAGE).read_text("utf-8") == page(measured)
    assert (ROOT / REFERENCE / PLOT).read_text("utf-8") == plot(measured)
