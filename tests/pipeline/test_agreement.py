"""The pipeline and the plain functions say the same of any history."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.history.recorded import Kind, Recorded
from conformance.pipeline.invariants import BY_NAME, INVARIANTS
from model.catalogue import RULES
from tests.pipeline import soup
from tests.pipeline.plain import PLAIN

RELEVANT: dict[str, tuple[Kind, ...]] = {
    "stored twice": (Kind.TOPIC, Kind.LOG),
    "falsely confirmed": (Kind.SEND, Kind.LOG, Kind.LOG_END),
    "out of order": (Kind.TOPIC, Kind.LOG),
    "lost": (Kind.SEND, Kind.LOG, Kind.LOG_END),
    "missed": (Kind.BEGIN, Kind.DRAINED, Kind.LOG, Kind.DISPATCH, Kind.SEEK),
    "chunks agree": (Kind.LOG,),
    "delivered whole": (Kind.LOG, Kind.SEND, Kind.DISPATCH, Kind.LOG_END),
    "stored once in order": (Kind.TOPIC, Kind.LOG),
    "mark delete over a hole": (Kind.BEGIN, Kind.LOG, Kind.CURSOR, Kind.ACK, Kind.ACK_CUMULATIVE, Kind.SEEK, Kind.SKIP),
    "mark delete back": (Kind.CURSOR, Kind.SEEK, Kind.FAULT),
    "positions rise": (Kind.SEND,),
    "delivered again": (Kind.DISPATCH, Kind.ACK, Kind.ACK_CUMULATIVE, Kind.SEEK, Kind.FAULT),
    "one consumer at a time": (
        Kind.DISPATCH,
        Kind.ACK,
        Kind.NACK,
        Kind.UNSUBSCRIBE,
        Kind.REDELIVER,
        Kind.FAULT,
        Kind.SEEK,
    ),
}
"""The kinds of events that an invariant looks at: histories of these alone come to its corners."""


def test_each_invariant_is_said_plainly_once_more_and_decides_a_rule() -> None:
    assert set(PLAIN) == set(BY_NAME) == set(RELEVANT)
    assert {invariant.rule for invariant in INVARIANTS} <= set(RULES)


@given(history=st.lists(soup.events(), min_size=1, max_size=40), rows_of_a_batch=st.integers(1, 50))
@settings(max_examples=200)
def test_they_agree_on_any_history(history: list[Recorded], rows_of_a_batch: int) -> None:
    accounts = soup.judged(history, rows_of_a_batch=rows_of_a_batch)
    assert soup.broken_in(accounts) == soup.plainly_broken(history)


@pytest.mark.parametrize("name", RELEVANT)
@given(data=st.data())
@settings(max_examples=100)
def test_they_agree_on_any_history_of_what_an_invariant_looks_at(name: str, data: st.DataObject) -> None:
    history = data.draw(st.lists(soup.events(RELEVANT[name]), min_size=1, max_size=12))
    assert soup.broken_in(soup.judged(history)) == soup.plainly_broken(history)
