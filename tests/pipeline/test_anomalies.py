"""Sound histories hold; each invariant is broken by each anomaly that is planted for it, and plainly so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.pipeline.invariants import BY_NAME
from conformance.pipeline.topic import Setting
from tests.pipeline import realistic, soup
from tests.pipeline.anomalies import PLANTS

SETTING = Setting()
ENTRIES = 100


def test_each_invariant_is_broken_in_three_ways_at_least() -> None:
    assert set(PLANTS) == set(BY_NAME)
    assert all(len(plants) >= 3 for plants in PLANTS.values())


@given(seed=st.integers(0, 10**6), entries=st.sampled_from((100, 300)))
@settings(max_examples=20)
def test_sound_histories_hold_and_put_nearly_everything_to_the_test(seed: int, entries: int) -> None:
    history = realistic.events(seed % 7, entries=entries, seed=seed)
    found = soup.judged(history, setting=SETTING, rows_of_a_batch=1000)
    assert soup.broken_in(found) == set()
    assert {name for name, (judged, _) in found.items() if not judged} == {"falsely confirmed"}


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, plants in PLANTS.items() for number in range(len(plants))]
)
@given(seed=st.integers(0, 10**6), place=st.integers(0, 10**6))
@settings(max_examples=8)
def test_an_anomaly_is_found_wherever_it_is_planted(name: str, number: int, seed: int, place: int) -> None:
    history = PLANTS[name][number](realistic.events(1, entries=ENTRIES, seed=seed), place)
    broken = soup.broken_in(soup.judged(history, setting=SETTING))
    assert name in broken
    assert broken == soup.plainly_broken(history, SETTING)
