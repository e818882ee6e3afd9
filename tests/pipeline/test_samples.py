"""Which cases are kept: a noisy run, fault or topic hides no other."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from conformance.pipeline.samples import OF_A_PATH_AT_MOST, Sample

Case = tuple[str, str, str]


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
