"""The pipeline and the oracle agree on any history."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history.recorded import Recorded
from conformance.pipeline.invariants.catalogue import BY_NAME, INVARIANTS
from model.rules.catalogue import RULES
from tests.pipeline.histories import random_histories
from tests.pipeline.oracle import ORACLE
from tests.pipeline.oracle.clusters import ORACLE_OF_CLUSTERS


def test_each_invariant_has_an_oracle_and_decides_a_rule() -> None:
    assert {*ORACLE, *ORACLE_OF_CLUSTERS} == set(BY_NAME) == set(random_histories.RELEVANT)
    assert {invariant.rule for invariant in INVARIANTS} <= set(RULES)


@given(history=st.lists(random_histories.events(), min_size=1, max_size=40), rows_of_a_batch=st.integers(1, 50))
@settings(max_examples=200)
def test_pipeline_and_oracle_agree_on_random_histories(history: list[Recorded], rows_of_a_batch: int) -> None:
    results = random_histories.judged(history, rows_of_a_batch=rows_of_a_batch)
    assert random_histories.broken_in(results) == random_histories.broken_by_oracle(history)


@given(history=random_histories.replicated(), rows_of_a_batch=st.integers(1, 50))
@settings(max_examples=200)
def test_pipeline_and_oracle_agree_on_random_histories_of_two_clusters(
    history: list[Recorded], rows_of_a_batch: int
) -> None:
    results = random_histories.judged(history, rows_of_a_batch=rows_of_a_batch)
    assert random_histories.broken_in(results) == random_histories.broken_by_oracle(history)


@pytest.mark.parametrize("name", random_histories.RELEVANT)
@given(data=st.data())
@settings(max_examples=100)
def test_pipeline_and_oracle_agree_on_random_histories_of_one_invariants_events(name: str, data: st.DataObject) -> None:
    history = data.draw(random_histories.framed(name))
    assert random_histories.broken_in(random_histories.judged(history)) == random_histories.broken_by_oracle(history)
