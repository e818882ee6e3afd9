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
        topic, heard = send(topic, producer, entry(i))
        assert not heard
    return topic


def test_a_new_id_is_pushed_at_once_and_persisted_once_its_write_completes() -> None:
    topic, heard = send(topic_with("A"), "A", entry(4))
    assert (heard, topic.log) == ((), ())
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (4, NONE)
    topic, heard = complete_next_write(topic)
    assert answers(heard) == [Stored(Position(0, 0))]
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (4, 4)
    assert stored_ids(topic, "A") == [4]


def test_a_stored_id_is_confirmed_again_and_not_stored_again() -> None:
    topic = store(topic_with("A"), "A", 4, 5)
    for repeated in (4, 5, 0):
        after, heard = send(topic, "A", entry(repeated))
        assert (after, answers(heard)) == (topic, [Duplicate()])


def test_an_id_in_flight_is_neither_stored_nor_confirmed() -> None:
    topic = in_flight(topic_with("A"), "A", 4)
    after, (heard,) = send(topic, "A", entry(4))
    assert after == topic
    assert isinstance(heard.answer, Refused)
    assert heard.answer.code == UNKNOWN_STATUS


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


def test_producers_are_independent() -> None:
    topic = store(topic_with("A", "B"), "A", 7)
    assert judge(topic, "B", entry(1)) is Judgement.NEW


def test_the_business_id_does_not_matter() -> None:
    topic = store(topic_with("A"), "A", 1)
    again = entry(1).messages[0].business_id
    topic = store(topic, "A", 2)
    assert judge(topic, "A", entry(3)) is Judgement.NEW
    assert again == "business 1"


def test_a_failed_write_is_an_error_and_its_id_can_be_stored_later() -> None:
    topic, heard = fail_next_write(in_flight(topic_with("A"), "A", 4))
    assert answers(heard) == [Refused(WRITE_FAILED)]
    assert (topic.pushed_of("A"), topic.persisted_of("A"), topic.log) == (NONE, NONE, ())
    topic, _ = open_producer(topic, "A again", "A")
    topic, _ = send(topic, "A again", entry(4))
    topic, heard = complete_next_write(topic)
    assert answers(heard) == [Stored(Position(0, 0))]


def test_writes_after_a_failed_one_fail_too_and_all_producers_are_disconnected() -> None:
    topic, _ = fail_next_write(in_flight(topic_with("A", "B"), "A", 1, 2))
    with pytest.raises(ValueError, match="later ones fail too"):
        complete_next_write(topic)
    topic, heard = fail_next_write(topic)
    assert answers(heard) == [Refused(WRITE_FAILED)]
    assert topic.sessions == ()
    assert topic.pushed == topic.persisted


def test_while_writes_fail_no_entry_is_accepted() -> None:
    topic, _ = fail_next_write(in_flight(topic_with("A"), "A", 1, 2))
    _, (heard,) = send(topic, "A", entry(3))
    _, opened = open_producer(topic, "B", "B")
    assert isinstance(heard.answer, Refused)
    assert isinstance(opened, Refused)
    assert (heard.answer.code, opened.code) == (NOT_READY, NOT_READY)


def test_a_disconnected_producer_gets_no_answer_and_its_writes_continue() -> None:
    topic = cut(in_flight(topic_with("A"), "A", 1), "A")
    topic, heard = complete_next_write(topic)
    assert heard == ()
    assert stored_ids(topic, "A") == [1]


def test_a_new_producer_learns_the_highest_stored_id_not_the_highest_in_flight() -> None:
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


def test_a_reloaded_topic_writes_to_a_new_ledger() -> None:
    topic = recover(crash(store(topic_with("A"), "A", 1), reached=0))
    topic, _ = open_producer(topic, "A", "A")
    assert [logged.position for logged in store(topic, "A", 2).log] == [Position(0, 0), Position(1, 0)]


@pytest.mark.parametrize("reached", [0, 1, 2])
def test_after_a_crash_the_highest_ids_are_those_in_the_log(reached: int) -> None:
    topic = in_flight(store(topic_with("A"), "A", 1), "A", 4, 6)
    topic = recover(crash(topic, reached=reached))
    assert topic.pushed_of("A") == topic.persisted_of("A") == [1, 4, 6][reached]
    assert topic.in_flight == ()
    assert topic.sessions == ()


def test_no_write_after_a_failed_one_reaches_the_log_in_a_crash() -> None:
    topic, _ = fail_next_write(in_flight(topic_with("A"), "A", 1, 2))
    assert recover(crash(topic, reached=0)).log == ()
    with pytest.raises(ValueError, match="0 writes can reach the log, not 1"):
        crash(topic, reached=1)


def test_a_snapshot_has_the_persisted_ids_and_the_position_of_the_newest_entry() -> None:
    topic = take_snapshot(in_flight(store(topic_with("A", "B"), "A", 1, 3), "B", 2))
    assert topic.snapshot == Snapshot(Position(0, 1), HighestIds((("A", 3),)))


def test_recovery_uses_the_snapshot_and_the_entries_after_it() -> None:
    topic = take_snapshot(store(topic_with("A", "B"), "A", 1, 3))
    topic = recover(crash(store(topic, "B", 2), reached=0))
    assert topic.persisted == HighestIds((("A", 3), ("B", 2)))


def test_a_snapshot_is_cut_to_the_configured_number_of_producers() -> None:
    topic = store(store(topic_with("A", "B", max_producers=1), "A", 1), "B", 2)
    assert set(snapshot_choices(topic)) == {frozenset("A"), frozenset("B")}
    recovered = recover(crash(take_snapshot(topic, {"B"}), reached=0))
    assert recovered.persisted == HighestIds((("B", 2),))
    with pytest.raises(ValueError, match="a snapshot has 1 producers now, not 2"):
        take_snapshot(topic, {"A", "B"})


def test_a_failed_snapshot_changes_nothing() -> None:
    topic = store(take_snapshot(store(topic_with("A"), "A", 1)), "A", 2)
    assert fail_snapshot(topic) == topic


def test_without_deduplication_a_repeated_id_is_stored_again_and_no_snapshot_is_taken() -> None:
    topic, _ = open_producer(new_topic(deduplication=False), "A", "A")
    assert stored_ids(store(topic, "A", 1, 1), "A") == [1, 1]
    with pytest.raises(ValueError, match="deduplication is off"):
        take_snapshot(topic)


def test_once_enabled_deduplication_knows_only_the_ids_stored_since() -> None:
    topic, _ = open_producer(new_topic(deduplication=False), "A", "A")
    topic = switch_deduplication(store(topic, "A", 5), on=True)
    assert judge(topic, "A", entry(3)) is Judgement.NEW
    topic = recover(crash(store(topic, "A", 3), reached=0))
    assert topic.persisted_of("A") == 3


def test_an_entry_in_flight_when_deduplication_is_enabled_counts_once_stored() -> None:
    topic, _ = open_producer(new_topic(deduplication=False), "A", "A")
    topic = switch_deduplication(in_flight(topic, "A", 5), on=True)
    topic, _ = complete_next_write(topic)
    assert (topic.pushed_of("A"), topic.persisted_of("A")) == (5, 5)


def test_disabling_and_enabling_deduplication_forgets_all_ids() -> None:
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
