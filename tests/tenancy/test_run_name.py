"""The names of runs: what is parsed as one, and when a run with that name is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.tenancy.run_name import GRACE, RunName

NAME = RunName(began=datetime(2026, 11, 22, 19, 26, 3, tzinfo=UTC), minutes=15, token="4f2a9c01")

names = st.builds(
    RunName,
    began=st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)).map(
        lambda at: at.replace(microsecond=0)
    ),
    minutes=st.integers(0, 999_999),
    token=st.text("0123456789abcdef", min_size=8, max_size=8),
)


def test_a_name_has_the_start_of_the_run_and_its_longest_duration() -> None:
    assert str(NAME) == "pulsar-conformance-20261122T192603Z-15m-4f2a9c01"
    assert NAME.over_at == NAME.began + timedelta(minutes=15) + GRACE


@given(name=names)
def test_a_formatted_name_parses_to_the_same(name: RunName) -> None:
    assert RunName.parse(str(name)) == name
    assert RunName.of_namespace(f"{name}-every-ack") == name


@pytest.mark.parametrize(
    "text",
    [
        "public",
        "pulsar-conformance",
        "pulsar-conformance-of-ours",
        f"{NAME}-copy",
        f"{NAME} ",
        f"a{NAME}",
        str(NAME).upper(),
        "pulsar-conformance-20261322T192603Z-15m-4f2a9c01",
        "pulsar-conformance-20261122T192603Z-15m-4f2a9c0",
        "pulsar-conformance-20261122T192603Z--4f2a9c01",
    ],
)
def test_a_similar_text_is_no_name_of_a_run(text: str) -> None:
    assert RunName.parse(text) is None


@pytest.mark.parametrize("text", [str(NAME), f"{NAME}x", "orders", f"orders-{NAME}-on"])
def test_a_namespace_belongs_to_a_run_only_if_it_starts_with_its_name(text: str) -> None:
    assert RunName.of_namespace(text) is None


def test_no_two_runs_have_one_name() -> None:
    assert len({RunName.new(at_most_s=90) for _ in range(100)}) == 100


def test_the_longest_duration_is_rounded_up_to_minutes() -> None:
    assert [RunName.new(at_most_s=seconds).minutes for seconds in (1, 60, 61, 86_400)] == [1, 1, 2, 1440]
