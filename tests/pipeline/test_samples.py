"""Which cases are kept: a noisy run, fault or topic hides no other. All are counted, and few are made."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.pipeline import topic
from conformance.pipeline.explanations import EXPLANATIONS
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.results import NEEDED, NO_FAULT, UNEXPLAINED_AT_MOST, judge_batches
from conformance.pipeline.samples import OF_A_PATH_AT_MOST, Sample
from conformance.pipeline.topic import Breach, VerificationSetting
from tests.pipeline.histories import realistic
from tests.quality.broken_topic import WAYS

Case = tuple[str, str, str]

KNOWN = frozenset(explanation.deviation for explanation in EXPLANATIONS)
EVENTS = realistic.topic_table(1, entries=2_000)


def sampled(cases: list[Case], at_most: int) -> list[Case]:
    """The kept cases, if each case is its own path."""
    sample: Sample[Case] = Sample(at_most)
    for case in cases:
        sample.offer(case, lambda case=case: case)  # type: ignore[misc]
    return list(sample)


def test_a_noisy_topic_keeps_a_few_cases_and_every_other_topic_has_one() -> None:
    noisy = [("r", "kill", "noisy")] * 1000
    others = [("r", "kill", f"t{number}") for number in range(20)]
    kept = sampled([*noisy, *others], 21)
    assert set(kept) == {*others, noisy[0]}
    assert len(kept) == 21


def test_a_run_and_a_fault_with_many_topics_hide_no_other() -> None:
    many = [("loud", "kill", f"t{number}") for number in range(1000)]
    kept = sampled([*many, ("loud", "unload", "t"), ("quiet", "kill", "t")], 10)
    assert len(kept) == 10
    assert {("loud", "unload", "t"), ("quiet", "kill", "t")} < set(kept)


def test_the_first_kept_cases_are_of_different_runs_faults_and_topics() -> None:
    paths = list(itertools.product("ab", "kn", "tu"))
    kept = sampled([path for path in paths for _ in range(2)], 100)
    assert len(kept) == 16
    assert {run for run, _, _ in kept[:2]} == set("ab")
    assert {path[:2] for path in kept[:4]} == set(itertools.product("ab", "kn"))
    assert set(kept[:8]) == set(paths)


@given(st.lists(st.tuples(*[st.sampled_from("abc")] * 3)), st.integers(1, 9))
def test_the_number_of_kept_cases_is_limited_and_the_limit_is_used(cases: list[Case], at_most: int) -> None:
    kept = sampled(cases, at_most)
    could = sum(min(cases.count(path), OF_A_PATH_AT_MOST) for path in set(cases))
    assert len(kept) == min(could, at_most)
    assert all(kept.count(path) <= min(cases.count(path), OF_A_PATH_AT_MOST) for path in set(kept))
    runs = {run for run, _, _ in cases}
    assert len({run for run, _, _ in kept}) == min(len(runs), at_most)


@pytest.mark.parametrize(
    ("known", "of_a_breach"), [(frozenset[str](), OF_A_PATH_AT_MOST), (KNOWN, UNEXPLAINED_AT_MOST)]
)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "sound"])
def test_all_cases_are_counted_and_few_are_made(
    way: str, known: frozenset[str], of_a_breach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Counter[str]()
    case = Breach.case

    def counted(breach: Breach, number: int) -> topic.Case:
        made[breach.because] += 1
        return case(breach, number)

    monkeypatch.setattr(Breach, "case", counted)
    events = WAYS[way](EVENTS).select(NEEDED).to_batches()
    results = judge_batches(events, VerificationSetting(on_its_way_ns=0, known={"r": known}), INVARIANTS).to_pylist()
    broken = [row for row in results if row["rule"] and row["cases"]]
    assert max(row["broken"] for row in broken) > 2 * UNEXPLAINED_AT_MOST
    assert all(row["by_fault"] == [{"fault": NO_FAULT, "times": row["broken"]}] for row in broken)
    assert max(made.values()) <= of_a_breach + OF_A_PATH_AT_MOST
