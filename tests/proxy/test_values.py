"""Faults and events are values: a history is read as it was written."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.proxy.armed import ArmedFault
from conformance.proxy.events import ChunkFields, Command, Event
from conformance.proxy.faults import Change, Corrupt, Cut, Fault, Lose, Which
from model.log import Position


def finite(kind: object) -> st.SearchStrategy[Any]:
    """Any values of a kind, with finite numbers."""

    def is_finite(value: object) -> bool:
        try:
            json.dumps(msgspec.to_builtins(value), allow_nan=False)
        except ValueError:
            return False
        return True

    return st.from_type(kind).filter(is_finite)  # type: ignore[arg-type]


@given(fault=finite(Fault))
def test_a_fault_is_decoded_as_it_was_encoded(fault: Fault) -> None:
    assert msgspec.json.decode(msgspec.json.encode(fault), type=Fault) == fault


@given(change=finite(Change))
def test_a_change_is_decoded_as_it_was_encoded(change: Change) -> None:
    fault = Corrupt(which=Which(kind="SEND"), change=change)
    assert msgspec.json.decode(msgspec.json.encode(fault), type=Fault) == fault


@given(event=finite(Event))
def test_an_event_is_decoded_as_it_was_encoded(event: Event) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def command(**facts: object) -> Command:
    """A command with these known facts."""
    usual: dict[str, object] = {
        "number": 1,
        "connection": 1,
        "direction": "to-broker",
        "kind": "SEND",
        "size_bytes": 9,
        "came_at_s": 0.0,
        "topic": "t",
        "producer": "p",
        "consumer": "c",
        "chunk": ChunkFields("u", 2, 3, 30),
        "positions": (Position(1, 2),),
    }
    return Command(**{**usual, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("which", "unlike"),
    [
        (Which(kind="SEND"), {"kind": "SEND_RECEIPT"}),
        (Which(direction="to-broker"), {"direction": "to-client"}),
        (Which(topic="t"), {"topic": "u"}),
        (Which(producer="p"), {"producer": "q"}),
        (Which(consumer="c"), {"consumer": None}),
        (Which(chunk_id=2), {"chunk": ChunkFields("u", 1, 3, 30)}),
        (Which(chunk_id=2), {"chunk": None}),
    ],
)
def test_a_command_matches_if_it_has_all_selected_fields(which: Which, unlike: dict[str, object]) -> None:
    assert which.fits(command())
    assert not which.fits(command(**unlike))
    assert Which().fits(command(**unlike))


@given(nth=st.integers(1, 5), count=st.none() | st.integers(1, 5))
def test_a_fault_takes_effect_from_the_nth_command_on_and_at_most_count_times(nth: int, count: int | None) -> None:
    armed = ArmedFault(1, Lose(which=Which(kind="SEND", nth=nth, count=count)), lambda _armed: None)
    turns = []
    for _ in range(12):
        assert not armed.is_turn_of(command(kind="PING"))
        is_turn = armed.is_turn_of(command())
        turns.append((is_turn, armed.is_spent))
    last = 12 if count is None else nth + count - 1
    assert turns == [(nth <= i <= last, count is not None and i >= last) for i in range(1, 13)]


def test_a_fault_that_took_effect_reports_when_and_where() -> None:
    armed = ArmedFault(1, Cut(which=Which(), where="after"), lambda _armed: None)
    armed.fire(3, 7)
    ((at_s, connection, number),) = (msgspec.structs.astuple(fired) for fired in armed.await_fired(timeout_s=1))
    assert at_s >= armed.set_at_s
    assert (connection, number) == (3, 7)
