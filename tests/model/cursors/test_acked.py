"""The state of a subscription compared with the simplest one: a set of acknowledged messages."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from model.cursors import acked
from model.cursors.acked import Acked
from model.cursors.cursor import Ack
from model.cursors.info import PositionInfo, info_of, state_of
from model.cursors.log import Place, TopicLog, appended
from model.events import Range
from model.judgement import Broken
from model.log import EARLIEST, Position


def log_of(*ledgers: tuple[int, ...], first: int = 3, gap: int = 2) -> TopicLog:
    """A log of these ledgers, each with entries of so many messages."""
    log = TopicLog()
    for number, sizes in enumerate(ledgers):
        for entry, size in enumerate(sizes):
            ids = tuple(f"{number}.{entry}.{index}" for index in range(size))
            after = appended(log, Position(first + number * gap, entry), ids)
            assert not isinstance(after, Broken)
            log = after
    return log


def messages(log: TopicLog) -> list[Place]:
    return list(Acked().messages_left(log))


@dataclass(frozen=True, slots=True)
class Case:
    log: TopicLog
    acks: tuple[Ack, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = st.sampled_from([1, 1, 1, 2, 3])
    ledgers = draw(st.lists(st.lists(sizes, min_size=1, max_size=5), min_size=1, max_size=4))
    log = log_of(*map(tuple, ledgers))
    places = st.sampled_from(messages(log))
    individual = st.lists(places, min_size=1, max_size=4).map(lambda chosen: Ack(tuple(chosen)))
    cumulative = places.map(lambda chosen: Ack((chosen,), cumulative=True))
    return Case(log, tuple(draw(st.lists(individual | individual | cumulative, max_size=12))))


def oracle(case: Case) -> set[Place]:
    """The acknowledged messages, directly by the rules."""
    everything = messages(case.log)
    gone: set[Place] = set()
    for ack in case.acks:
        if ack.cumulative:
            gone.update(everything[: everything.index(ack.places[0]) + 1])
        else:
            gone.update(ack.places)
    return gone


def after(case: Case) -> Acked:
    state = Acked()
    for ack in case.acks:
        state = ack.on(state, case.log)
    return state


@given(cases())
def test_the_messages_left_are_those_not_acknowledged(case: Case) -> None:
    gone = oracle(case)
    assert list(after(case).messages_left(case.log)) == [place for place in messages(case.log) if place not in gone]


@given(cases())
def test_mark_delete_is_the_last_position_without_a_gap_before_it(case: Case) -> None:
    state = after(case)
    following = case.log.after(state.mark_delete)
    assert following is None or not state.has(following)
    assert all(position > state.mark_delete for position in [*state.beyond(), *state.parts])


@given(cases())
def test_equal_acks_give_equal_states_in_any_order(case: Case) -> None:
    forwards = acked.acknowledge_all(Acked(), case.log, oracle(case))
    backwards = acked.acknowledge_all(Acked(), case.log, sorted(oracle(case), key=str, reverse=True))
    assert forwards == backwards == after(case)
    assert hash(forwards) == hash(backwards)


@given(cases())
def test_acknowledging_everything_again_changes_nothing(case: Case) -> None:
    state = after(case)
    for ack in case.acks:
        state = ack.on(state, case.log)
    assert state == after(case)


@given(cases())
def test_converting_to_position_info_and_back_changes_nothing(case: Case) -> None:
    state = after(case)
    assert state_of(info_of(state), case.log, state.parts) == state


@given(cases(), st.integers(0, 6))
def test_skipping_acknowledges_the_next_entries(case: Case, count: int) -> None:
    before = list(after(case).unacknowledged(case.log))
    assert list(acked.skip(after(case), case.log, count).unacknowledged(case.log)) == before[count:]


def test_a_log_knows_the_positions_of_its_entries() -> None:
    log = log_of((1, 1), (1,))
    assert (log.first, log.last) == (Position(3, 0), Position(5, 0))
    assert log.after(EARLIEST) == Position(3, 0)
    assert log.after(Position(3, 1)) == log.after(Position(4, -1)) == log.after(Position(5, -1)) == Position(5, 0)
    assert log.after(Position(5, 0)) is None
    assert log.at_or_before(Position(5, -1)) == log.at_or_before(Position(4, 7)) == Position(3, 1)
    assert log.at_or_before(Position(3, -1)) == EARLIEST


def test_positions_must_rise_without_a_gap() -> None:
    log = log_of((1, 1), (1,))
    for wrong in (Position(5, 2), Position(5, 0), Position(3, 2), Position(6, 1)):
        assert isinstance(appended(log, wrong, ("x",)), Broken), wrong
    assert isinstance(appended(log, Position(9, 0), ("x",)), TopicLog)


def test_the_worked_example_of_document_003_converts_to_position_info() -> None:
    """The document's first range lies below its mark-delete (L2, 2): see the errata."""
    log = log_of((1,), (1, 1, 1, 1, 1), (1, 1), first=1, gap=1)
    ranges = (
        Range(Position(2, -1), Position(2, 2)),
        Range(Position(2, 3), Position(2, 4)),
        Range(Position(3, 0), Position(3, 1)),
    )
    info = PositionInfo(Position(2, 2), ranges)
    state = state_of(info, log)
    assert [str(position) for position in state.unacknowledged(log)] == ["2:3", "3:0"]
    assert info_of(state) == PositionInfo(Position(2, 2), ranges[1:])
    assert state_of(info_of(state), log) == state
