"""A producer's own account of its last sequence id, in small histories (DEDUP-19)."""

from __future__ import annotations

import pytest

from model.events import Opened
from model.operations import OpenProducer
from tests.notation import steps
from tests.verdicts import Happened, allowed_by, broken_by, deviates, exercised

BOTH = ("last-sequence-id-falls", "consecutive-batch-assumed")
BY_WIRE, BY_PULSAR_CLIENT = "t on; p opens -1", "t on; p opens -1 official"
SENT = "p sends 1+3@0 -> 3"
LOWEST, NOT_ADOPTED = "last-sequence-id-of-batch-is-lowest", "last-sequence-id-not-adopted"
GO, JAVA = "go:0.19.0", "java:4.0.8"


def is_broken(text: str, *known: str) -> bool:
    """Whether the last step breaks the rule without a name, and nothing before it does."""
    broken = broken_by(*steps(text), known=known)
    return (broken.rule, broken.deviation) == ("DEDUP-19", None)


@pytest.mark.parametrize("sent", [SENT, f"{SENT}; p sends 1=dup -> 3", f"{SENT}; p sends 5@1 -> 5"])
def test_the_account_is_the_highest_confirmed_id(sent: str) -> None:
    assert exercised(*steps(f"{BY_WIRE}; {sent}")).count("DEDUP-19") == sent.count("->")


@pytest.mark.parametrize("last_sequence_id", [-1, 1, 2, 4])
def test_any_other_account_breaks_the_rule(last_sequence_id: int) -> None:
    assert is_broken(f"{BY_WIRE}; p sends 1+3@0 -> {last_sequence_id}")


def test_an_account_below_an_earlier_one_breaks_the_rule() -> None:
    assert is_broken(f"{BY_WIRE}; {SENT}; p sends 1=dup -> 1")


def test_an_entry_whose_answer_was_lost_may_be_in_the_account() -> None:
    allowed_by(*steps(f"{BY_WIRE}; p sends 1@0 2=? -> 2"))
    assert is_broken(f"{BY_WIRE}; p sends 1@0 2=? -> 3")


def test_answers_that_came_late_are_in_the_account() -> None:
    assert is_broken(f"{BY_WIRE}; p sends 4; p sends 3=dup -> 3 ~ p @0")


def test_nothing_is_judged_where_receipts_may_be_for_either_of_two_entries() -> None:
    assert "DEDUP-19" not in exercised(*steps("t off; p opens -1; p sends 1@0 1-2@1 -> 0"))
    assert is_broken("t off; p opens -1; p sends 1@0 2-3@1 -> 0")


@pytest.mark.parametrize(
    ("sent", "deviation"),
    [
        ("p sends 1+3@0 -> 2", "consecutive-batch-assumed"),
        (f"{SENT}; p sends 1=dup -> 1", "last-sequence-id-falls"),
    ],
)
def test_a_mistake_of_pulsar_client_has_a_name(sent: str, deviation: str) -> None:
    assert deviates(deviation, *steps(f"{BY_PULSAR_CLIENT}; {sent}"))


def test_an_account_below_the_latest_id_is_found_while_the_deviations_are_known() -> None:
    """The shadow of ``last-sequence-id-falls``."""
    assert is_broken(f"{BY_PULSAR_CLIENT}; {SENT}; p sends 5@1 -> 5; p sends 3=dup -> 2", *BOTH)


def test_the_first_id_of_a_batch_is_found_while_the_deviations_are_known() -> None:
    """The shadow of ``consecutive-batch-assumed``."""
    assert is_broken(f"{BY_PULSAR_CLIENT}; p sends 1+3@0 -> 1", *BOTH)


def opened(session: str, library: str, last_sequence_id: int) -> Happened:
    operation = OpenProducer(session, "t", "p", "official", library=library)
    return operation, Opened(last_sequence_id)


def sent_first(text: str) -> list[Happened]:
    """What the first session of ``p`` sends."""
    return list(steps(f"t on; p opens -1; {text}"))


def test_only_the_lowest_id_of_a_batch_of_the_go_client_is_known() -> None:
    create, _, batch = sent_first("p sends 1+3@0 -> 1")
    *_, inside = sent_first("p sends 1+3@0 -> 2")
    allowed_by(create, opened("p1", GO, -1), batch, known=(LOWEST,))
    for library, send in ((GO, inside), (JAVA, batch)):
        assert broken_by(create, opened("p1", library, -1), send, known=(LOWEST,)).rule == "DEDUP-19"


@pytest.mark.parametrize(("library", "last_sequence_id"), [(GO, 0), (JAVA, -1)])
def test_only_the_go_client_may_say_nothing_of_the_last_sequence_id(library: str, last_sequence_id: int) -> None:
    before = sent_first("p sends 1@0 -> 1; p closes")
    allowed_by(*before, opened("q1", GO, -1), known=(NOT_ADOPTED,))
    assert broken_by(*before, opened("q1", library, last_sequence_id), known=(NOT_ADOPTED,)).rule == "DEDUP-09"
