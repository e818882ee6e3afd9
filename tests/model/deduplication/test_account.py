"""A producer's own account of its last sequence id, in small histories (DEDUP-19)."""

from __future__ import annotations

import pytest

from model.deviations.deduplication import CONSECUTIVE_BATCH_ASSUMED, LAST_SEQUENCE_ID_FALLS
from model.events import Answer, Duplicate, Sent, Unknown
from model.example import Example
from model.judgement import Allowed, Broken
from model.operations import Send
from model.vocabulary import Client, Entry, Message
from tests.judging import Happened, judged
from tests.model.deduplication.constructors import at, created, in_flight, opened, with_late
from tests.model.deduplication.entries import entry

BOTH = (LAST_SEQUENCE_ID_FALLS, CONSECUTIVE_BATCH_ASSUMED)


def batch(*sequence_ids: int) -> Entry:
    return Entry(tuple(Message(one, f"b{one}") for one in sequence_ids))


def reported(last_sequence_id: int, *answered: tuple[Entry, Answer]) -> Happened:
    answers = tuple(answer for _, answer in answered)
    return Send("s1", tuple(one for one, _ in answered)), Sent(answers, last_sequence_id=last_sequence_id), ()


def verdict(*history: Happened, client: Client = "wire", known: tuple[str, ...] = ()) -> Allowed[Example] | Broken:
    return judged(created(), opened(-1, client=client), *history, known=known)


def is_broken(*history: Happened, client: Client = "wire", known: tuple[str, ...] = ()) -> bool:
    """Whether the last step breaks the rule without a name, and nothing before it does."""
    assert isinstance(verdict(*history[:-1], client=client, known=known), Allowed)
    judged_ = verdict(*history, client=client, known=known)
    return isinstance(judged_, Broken) and judged_.rule == "DEDUP-19" and judged_.deviation is None


SENT = reported(3, (batch(1, 3), at(0)))


def test_the_account_is_the_highest_confirmed_id() -> None:
    for history in ((SENT,), (SENT, reported(3, (entry(1), Duplicate()))), (SENT, reported(5, (entry(5), at(1))))):
        judged_ = verdict(*history)
        assert isinstance(judged_, Allowed)
        assert judged_.exercised.count("DEDUP-19") == len(history)


@pytest.mark.parametrize("last_sequence_id", [-1, 1, 2, 4])
def test_any_other_account_breaks_the_rule(last_sequence_id: int) -> None:
    assert is_broken(reported(last_sequence_id, (batch(1, 3), at(0))))


def test_an_account_below_an_earlier_one_breaks_the_rule() -> None:
    assert is_broken(SENT, reported(1, (entry(1), Duplicate())))


def test_an_entry_whose_answer_was_lost_may_be_in_the_account() -> None:
    assert isinstance(verdict(reported(2, (entry(1), at(0)), (entry(2), Unknown("cut")))), Allowed)
    assert is_broken(reported(3, (entry(1), at(0)), (entry(2), Unknown("cut"))))


def test_answers_that_came_late_are_in_the_account() -> None:
    assert is_broken(in_flight(entry(4)), with_late(reported(3, (entry(3), Duplicate())), at(0)))


def test_nothing_is_judged_where_receipts_may_be_for_either_of_two_entries() -> None:
    both = reported(1, (entry(1), at(0)), (batch(1, 2), at(1)))
    assert not is_broken(both, client="wire")


@pytest.mark.parametrize(
    ("history", "deviations"),
    [
        ((reported(2, (batch(1, 3), at(0))),), (CONSECUTIVE_BATCH_ASSUMED,)),
        ((SENT, reported(1, (entry(1), Duplicate()))), (LAST_SEQUENCE_ID_FALLS,)),
    ],
)
def test_a_mistake_of_pulsar_client_has_a_name(history: tuple[Happened, ...], deviations: tuple[str, ...]) -> None:
    unknown = verdict(*history, client="official")
    assert isinstance(unknown, Broken)
    assert unknown.deviation in deviations
    known = verdict(*history, client="official", known=BOTH)
    assert isinstance(known, Allowed)
    assert known.deviations == deviations


def test_an_account_below_the_latest_id_is_found_while_the_deviations_are_known() -> None:
    """The shadow of ``last-sequence-id-falls``."""
    history = (SENT, reported(5, (entry(5), at(1))), reported(2, (entry(3), Duplicate())))
    assert is_broken(*history, client="official", known=BOTH)


def test_the_first_id_of_a_batch_is_found_while_the_deviations_are_known() -> None:
    """The shadow of ``consecutive-batch-assumed``."""
    assert is_broken(reported(1, (batch(1, 3), at(0))), client="official", known=BOTH)
