"""Topics with deduplication follow the rules of subscriptions as far as the answers show what is stored."""

from __future__ import annotations

import pytest

from model.judgement import Broken
from tests.judging import judged
from tests.notation import steps

OTHERS = "q opens -1; q sends 1-2@1"
"""Another producer's entry, which is stored behind all that was written before it."""
CRASHED = "p sends 1; p crashes ~ p ?"


def rule_broken(history: str) -> str | None:
    """The rule that is broken by what happened to a topic that has a producer."""
    answer = judged(*steps(f"t on; p opens -1; {history}"))
    return answer.rule if isinstance(answer, Broken) else None


def test_a_duplicate_is_not_stored_so_the_next_entry_has_the_next_position() -> None:
    assert rule_broken("p sends 1@0 1=dup; p sends 2@1; c subscribes; c gets p1@0") is None
    assert rule_broken("p sends 1@0 1=dup; p sends 2@2; c subscribes; c gets p1@0") == "ACK-06"


def test_an_entry_refused_while_no_write_fails_is_not_stored() -> None:
    assert rule_broken("p sends 1@0 1=UnknownStatus; c subscribes; c gets p2@1") == "ACK-06"


def test_a_message_that_was_never_stored_is_not_delivered() -> None:
    assert rule_broken("p sends 1@0; c subscribes; c gets p2@0") == "ACK-06"


def test_a_log_is_unknown_if_different_entries_in_flight_share_a_sequence_id() -> None:
    assert rule_broken("p sends 1@0 1-2=UnknownStatus; c subscribes; c gets p2@0") is None


def test_nothing_is_said_of_subscriptions_while_a_write_may_be_in_flight() -> None:
    assert rule_broken(f"c subscribes; {CRASHED}; c gets p1@3") is None


def test_a_log_that_was_read_back_is_known_again() -> None:
    settled = f"c subscribes; {CRASHED}; p opens 1; {OTHERS}; log p:1 q:1-2"
    assert rule_broken(f"{settled}; c gets p1@0") is None
    assert rule_broken(f"{settled}; c gets p1@3") == "ACK-06"


@pytest.mark.parametrize("happened", [CRASHED, f"{CRASHED}; p opens 1", f"{CRASHED}; {OTHERS}"])
def test_but_not_while_more_may_be_written(happened: str) -> None:
    assert rule_broken(f"c subscribes; {happened}; log p:1; c gets p1@3") is None


def test_what_happened_to_a_subscription_meanwhile_is_not_known_so_it_is_not_tracked_any_more() -> None:
    history = f"c subscribes; {CRASHED}; t skips; p opens 1; {OTHERS}; log p:1 q:1-2"
    assert rule_broken(f"{history}; c gets p1@3") is None
    assert rule_broken(f"{history}; c subscribes; c gets p1@3") is None
