"""The pipeline and the plain functions say the same of any history."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history.recorded import Recorded
from conformance.pipeline.invariants.catalogue import BY_NAME, INVARIANTS
from model.rules.catalogue import RULES
from tests.pipeline.made import soup
from tests.pipeline.plain import PLAIN
from tests.pipeline.plain.clusters import OF_CLUSTERS


def test_each_invariant_is_said_plainly_once_more_and_decides_a_rule() -> None:
    assert {*PLAIN, *OF_CLUSTERS} == set(BY_NAME) == set(soup.RELEVANT)
    assert {invariant.rule for invariant in INVARIANTS} <= set(RULES)


@given(history=st.lists(soup.events(), min_size=1, max_size=40), rows_of_a_batch=st.integers(1, 50))
@settings(max_examples=200)
def test_they_agree_on_any_history(history: list[Recorded], rows_of_a_batch: int) -> None:
    accounts = soup.judged(history, rows_of_a_batch=rows_of_a_batch)
    assert soup.broken_in(accounts) == soup.plainly_broken(history)


@given(history=soup.replicated(), rows_of_a_batch=st.integers(1, 50))
@settings(max_examples=200)
def test_they_agree_on_any_history_of_two_clusters(history: list[Recorded], rows_of_a_batch: int) -> None:
    accounts = soup.judged(history, rows_of_a_batch=rows_of_a_batch)
    assert soup.broken_in(accounts) == soup.plainly_broken(history)


@pytest.mark.parametrize("name", soup.RELEVANT)
@given(data=st.data())
@settings(max_examples=100)
def test_they_agree_on_any_history_of_what_an_invariant_looks_at(name: str, data: st.DataObject) -> None:
    history = data.draw(soup.framed(name))
    assert soup.broken_in(soup.judged(history)) == soup.plainly_broken(history)
