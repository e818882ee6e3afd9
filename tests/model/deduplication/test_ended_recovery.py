"""A recovery that nobody awaits excuses a missing sequence id for a while, and not from then on."""

from __future__ import annotations

import pytest

from model.cursors.ledger import Interval
from model.deviations import DEVIATIONS
from model.deviations.loads import RECOVERY_MS
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from tests.notation import steps
from tests.verdicts import judged

LOADED_MS = 100.0
HISTORY = "t topic-on; p opens -1; q opens -1; p sends 1@0; q sends 1@1; t unloads; p opens 1; q opens -1"
"""After an unload one producer is let in, and then another one, whose sequence id is missing."""


def opened_after(wait_ms: float) -> Allowed[Example] | Broken:
    """What is judged if the second producer is let in so long after the first one."""
    *before, first, second = steps(HISTORY)
    verdict = judged(*before, known=DEVIATIONS)
    for happened, now_ms in ((first, LOADED_MS), (second, LOADED_MS + wait_ms)):
        assert isinstance(verdict, Allowed), verdict
        verdict = judge(verdict.state, happened[0], happened[1], at=Interval(now_ms, now_ms))
    return verdict


def test_soon_after_a_topic_is_loaded_a_missing_sequence_id_is_a_deviation() -> None:
    allowed = opened_after(RECOVERY_MS)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == ("second-recovery-not-awaited",)
    assert "DEDUP-12" in allowed.excused


@pytest.mark.parametrize(
    ("between", "is_allowed"),
    [
        ("t unloads; t enables-itself; p opens 1", True),
        ("t unloads; p opens 2; t enables-itself; p opens 1", False),
        ("t enables-itself; p opens 1", False),
        ("t unloads; t enables; p opens 1", False),
    ],
    ids=["while it loads", "when it is loaded", "without a reload", "of the namespace"],
)
def test_a_policy_that_a_topic_gets_while_it_loads_may_start_a_second_recovery(between: str, is_allowed: bool) -> None:
    """Seen on 4.0.8: the topic was loaded by the request for its status, which then changed."""
    verdict = judged(known=DEVIATIONS)
    for happened in steps(f"t on; p opens -1; p sends 1@0 2@1; {between}"):
        assert isinstance(verdict, Allowed), verdict
        verdict = judge(verdict.state, happened[0], happened[1], at=Interval(LOADED_MS, LOADED_MS))
    is_excused = isinstance(verdict, Allowed) and verdict.deviations == ("second-recovery-not-awaited",)
    assert is_excused is is_allowed


def stored_again_after(wait_ms: float, again: str) -> Allowed[Example] | Broken:
    """What is judged if a producer stores an entry after the reload, and so long after that sends ``again``."""
    history = f"t topic-on; p opens -1; p sends 1@0 2@1; t unloads; p opens 2; p sends 3@2; p sends {again}"
    verdict = judged(known=DEVIATIONS)
    for number, happened in enumerate(steps(history)):
        assert isinstance(verdict, Allowed), verdict
        now_ms = LOADED_MS + (wait_ms if number == 6 else 0.0)
        verdict = judge(verdict.state, happened[0], happened[1], at=Interval(now_ms, now_ms))
    return verdict


def test_soon_after_a_topic_is_loaded_a_second_replay_may_set_the_sequence_id_back() -> None:
    allowed = stored_again_after(RECOVERY_MS, "3@3")
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == ("second-recovery-not-awaited",)


def test_a_second_replay_may_set_the_sequence_id_back_between_two_entries_of_one_send() -> None:
    """Seen on 4.0.8 (``docs/histories/DEDUP-12-on-4.0.8.json``): the write of the first one may not have ended."""
    history = "t topic-on; p opens -1; p sends 1@0 2@1; t unloads; p opens 2; p sends"
    known, once = ["second-recovery-not-awaited"], judged(*steps(f"{history} 3@2 3=dup"), known=DEVIATIONS)
    assert isinstance(once, Allowed)
    assert not once.deviations
    allowed = judged(*steps(f"{history} 3@2 3@3"), known=known)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == ("second-recovery-not-awaited",)
    assert isinstance(judged(*steps(f"{history} 3@2 2@3"), known=known), Broken), "the log ends with 2"
    of_namespace = history.replace("topic-on", "on")
    assert isinstance(judged(*steps(f"{of_namespace} 3@2 3@3"), known=known), Broken), "there is one recovery"


@pytest.mark.parametrize(("wait_ms", "again"), [(RECOVERY_MS + 1, "3@3"), (0.0, "2@3")])
def test_no_replay_sets_it_back_later_or_before_the_last_entry_of_the_log(wait_ms: float, again: str) -> None:
    broken = stored_again_after(wait_ms, again)
    assert isinstance(broken, Broken)
    assert broken.deviation is None


@pytest.mark.parametrize("wait_ms", [RECOVERY_MS + 1, 60_000.0])
def test_a_recovery_that_is_over_excuses_no_missing_sequence_id(wait_ms: float) -> None:
    broken = opened_after(wait_ms)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("DEDUP-12", None)
