"""The reference topic, sentence by sentence of document 000."""

from __future__ import annotations

import pytest

from model.deduplication.producer_state import NONE, UNKNOWN_STATUS
from model.deduplication.reference import (
    BUSY,
    NOT_READY,
    WRITE_FAILED,
    HighestIds,
    Judgement,
    Snapshot,
    Topic,
    complete_next_write,
    crash,
    cut,
    fail_next_write,
    fail_snapshot,
    judge,
    new_topic,
    open_producer,
    recover,
    send,
    snapshot_choices,
    switch_deduplication,
    take_snapshot,
)
from model.events import Duplicate, Opened, Refused, Stored
from model.log import Position
from tests.model.deduplication.entries import answers, entry, store, stored_ids, topic_with


def in_flight(topic: Topic, producer: str, *ids: int) -> Topic:
    for i in ids:
        topic, told = send(topic, producer, entry(i))
        assert not told
    return topic


def test_a_new_id_is_pushed_at_once_and_persisted_and_confirmed_when_its_write_is_done() -> None:
    topic, told = send(topic_with("A"), "A", entry(4))
    assert (told, topic.log) == ((), ())
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (4, NONE)
    topic, told = complete_next_write(topic)
    assert answers(told) == [Stored(Position(0, 0))]
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (4, 4)
    assert stored_ids(topic, "A") == [4]


def test_a_stored_id_is_confirmed_again_and_not_stored_again() -> None:
    topic = store(topic_with("A"), "A", 4, 5)
    for repeated in (4, 5, 0):
        after, told = send(topic, "A", entry(repeated))
        assert (after, answers(told)) == (topic, [Duplicate()])


def test_an_id_in_flight_is_neither_stored_nor_confirmed() -> None:
    topic = in_flight(topic_with("A"), "A", 4)
    after, (told,) = send(topic, "A", entry(4))
    assert after == topic
    assert isinstance(told.answer, Refused)
    assert told.answer.code == UNKNOWN_STATUS


@pytest.mark.parametrize(
    ("ids", "judgement"),
    [
        ((0,), Judgement.DUPLICATE),
        ((3,), Judgement.DUPLICATE),
        ((4,), Judgement.UNKNOWN),
        ((6,), Judgement.UNKNOWN),
        ((7,), Judgement.NEW),
        ((99,), Judgement.NEW),
        ((2, 3), Judgement.DUPLICATE),
        ((3, 4), Judgement.UNKNOWN),
        ((4, 6), Judgement.UNKNOWN),
        ((6, 7), Judgement.UNKNOWN),
        ((1, 7), Judgement.UNKNOWN),
        ((7, 8), Judgement.NEW),
    ],
)
def test_an_entry_is_judged_by_all_of_its_ids(ids: tuple[int, ...], judgement: Judgement) -> None:
    topic = in_flight(store(topic_with("A"), "A", 1, 3), "A", 6)
    assert judge(topic, "A", entry(*ids)) is judgement


def test_a_producer_does_not_matter_to_another() -> None:
    topic = store(topic_with("A", "B"), "A", 7)
    assert judge(topic, "B", entry(1)) is Judgement.NEW


def test_what_a_message_is_about_does_not_matter() -> None:
    topic = store(topic_with("A"), "A", 1)
    again = entry(1).messages[0].business_id
    topic = store(topic, "A", 2)
    assert judge(topic, "A", entry(3)) is Judgement.NEW
    assert again == "business 1"


def test_a_failed_write_is_an_error_and_its_id_can_be_stored_afterwards() -> None:
    topic, told = fail_next_write(in_flight(topic_with("A"), "A", 4))
    assert answers(told) == [Refused(WRITE_FAILED)]
    assert (topic.pushed_of("A"), topic.persisted_of("A"), topic.log) == (NONE, NONE, ())
    topic, _ = open_producer(topic, "A again", "A")
    topic, _ = send(topic, "A again", entry(4))
    topic, told = complete_next_write(topic)
    assert answers(told) == [Stored(Position(0, 0))]


def test_what_is_in_flight_behind_a_failed_write_fails_too_and_then_all_producers_are_disconnected() -> None:
    topic, _ = fail_next_write(in_flight(topic_with("A", "B"), "A", 1, 2))
    with pytest.raises(ValueError, match="those behind it fail too"):
        complete_next_write(topic)
    topic, told = fail_next_write(topic)
    assert answers(told) == [Refused(WRITE_FAILED)]
    assert topic.sessions == ()
    assert topic.pushed == topic.persisted


def test_while_writes_are_failing_nothing_is_taken_from_anybody() -> None:
    topic, _ = fail_next_write(in_flight(topic_with("A"), "A", 1, 2))
    _, (told,) = send(topic, "A", entry(3))
    _, opened = open_producer(topic, "B", "B")
    assert isinstance(told.answer, Refused)
    assert isinstance(opened, Refused)
    assert (told.answer.code, opened.code) == (NOT_READY, NOT_READY)


def test_whoever_was_cut_off_hears_nothing_and_its_writes_go_on() -> None:
    topic = cut(in_flight(topic_with("A"), "A", 1), "A")
    topic, told = complete_next_write(topic)
    assert told == ()
    assert stored_ids(topic, "A") == [1]


def test_a_producer_that_connects_learns_the_highest_id_stored_not_the_highest_in_flight() -> None:
    topic = in_flight(store(topic_with("A"), "A", 1, 3), "A", 6)
    _, opened = open_producer(cut(topic, "A"), "A again", "A")
    assert opened == Opened(3)
    _, opened = open_producer(topic, "B", "B")
    assert opened == Opened(NONE)


def test_a_second_producer_of_one_name_is_refused() -> None:
    topic, opened = open_producer(topic_with("A"), "another", "A")
    assert isinstance(opened, Refused)
    assert opened.code == BUSY
    assert topic == topic_with("A")


def test_a_full_ledger_is_followed_by_the_next() -> None:
    topic = store(topic_with("A", entries_per_ledger=2), "A", 1, 2, 3)
    assert [logged.position for logged in topic.log] == [Position(0, 0), Position(0, 1), Position(1, 0)]


def test_a_topic_that_was_loaded_again_writes_into_a_ledger_of_its_own() -> None:
    topic = recover(crash(store(topic_with("A"), "A", 1), reached=0))
    topic, _ = open_producer(topic, "A", "A")
    assert [logged.position for logged in store(topic, "A", 2).log] == [Position(0, 0), Position(1, 0)]


@pytest.mark.parametrize("reached", [0, 1, 2])
def test_after_a_crash_the_highest_ids_are_those_of_what_reached_the_log(reached: int) -> None:
    topic = in_flight(store(topic_with("A"), "A", 1), "A", 4, 6)
    topic = recover(crash(topic, reached=reached))
    assert topic.pushed_of("A") == topic.persisted_of("A") == [1, 4, 6][reached]
    assert topic.in_flight == ()
    assert topic.sessions == ()


def test_nothing_behind_a_failed_write_reaches_the_log_in_a_crash() -> None:
    topic, _ = fail_next_write(in_flight(topic_with("A"), "A", 1, 2))
    assert recover(crash(topic, reached=0)).log == ()
    with pytest.raises(ValueError, match="0 writes can reach the log, not 1"):
        crash(topic, reached=1)


def test_a_snapshot_is_of_what_is_persisted_at_the_position_of_the_newest_entry() -> None:
    topic = take_snapshot(in_flight(store(topic_with("A", "B"), "A", 1, 3), "B", 2))
    assert topic.snapshot == Snapshot(Position(0, 1), HighestIds((("A", 3),)))


def test_recovery_is_the_snapshot_and_the_entries_behind_it() -> None:
    topic = take_snapshot(store(topic_with("A", "B"), "A", 1, 3))
    topic = recover(crash(store(topic, "B", 2), reached=0))
    assert topic.persisted == HighestIds((("A", 3), ("B", 2)))


def test_a_snapshot_is_cut_to_the_configured_number_of_producers() -> None:
    topic = store(store(topic_with("A", "B", max_producers=1), "A", 1), "B", 2)
    assert set(snapshot_choices(topic)) == {frozenset("A"), frozenset("B")}
    recovered = recover(crash(take_snapshot(topic, {"B"}), reached=0))
    assert recovered.persisted == HighestIds((("B", 2),))
    with pytest.raises(ValueError, match="a snapshot holds 1 producers now, not 2"):
        take_snapshot(topic, {"A", "B"})


def test_a_snapshot_that_fails_changes_nothing() -> None:
    topic = store(take_snapshot(store(topic_with("A"), "A", 1)), "A", 2)
    assert fail_snapshot(topic) == topic


def test_with_deduplication_off_a_repeated_id_is_stored_again_and_there_is_no_snapshot() -> None:
    topic, _ = open_producer(new_topic(deduplication=False), "A", "A")
    assert stored_ids(store(topic, "A", 1, 1), "A") == [1, 1]
    with pytest.raises(ValueError, match="deduplication is off"):
        take_snapshot(topic)


def test_once_switched_on_it_judges_by_what_was_stored_since() -> None:
    topic, _ = open_producer(new_topic(deduplication=False), "A", "A")
    topic = switch_deduplication(store(topic, "A", 5), on=True)
    assert judge(topic, "A", entry(3)) is Judgement.NEW
    topic = recover(crash(store(topic, "A", 3), reached=0))
    assert topic.persisted_of("A") == 3


def test_what_was_in_flight_when_it_was_switched_on_counts_once_it_is_stored() -> None:
    topic, _ = open_producer(new_topic(deduplication=False), "A", "A")
    topic = switch_deduplication(in_flight(topic, "A", 5), on=True)
    topic, _ = complete_next_write(topic)
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (5, 5)


def test_switched_off_and_on_again_nothing_is_known() -> None:
    topic = store(topic_with("A"), "A", 1)
    assert switch_deduplication(topic, on=True) == topic
    topic = switch_deduplication(switch_deduplication(topic, on=False), on=True)
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (NONE, NONE)


def test_an_unknown_session_is_an_error() -> None:
    with pytest.raises(ValueError, match="session nobody is not open"):
        send(topic_with("A"), "nobody", entry(1))
    with pytest.raises(ValueError, match="session nobody is not open"):
        cut(topic_with("A"), "nobody")


def test_topics_are_values() -> None:
    one, other = store(topic_with("A"), "A", 1), store(topic_with("A"), "A", 1)
    assert one == other
    assert len({one, other, topic_with("A")}) == 2
