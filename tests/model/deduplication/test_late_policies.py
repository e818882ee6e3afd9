"""A topic's own policy that a restarted broker has not read yet, in small histories (DEDUP-01)."""

from __future__ import annotations

import pytest

from model.cursors.cursor import Interval
from model.deduplication.topic_observer import RECOVERY_MS
from model.deviations.deduplication import TOPIC_POLICY_APPLIED_LATE
from model.events import Created, DeduplicationSet, Done, Opened
from model.example import Example, judge
from model.judgement import Allowed, Broken
from model.operations import CreateTopic, OpenProducer, Restart, Unload
from tests.notation import steps
from tests.verdicts import Happened, judged

LOADED_MS = 100.0
RESTART: Happened = (Restart(deduplication=False), DeduplicationSet(deduplication=False))
AS_DUPLICATE = "p sends 2=dup"


def sent_again(
    text: str, *, on: bool = False, reload: Happened = RESTART, wait_ms: float = 0.0, known: str = ""
) -> Allowed[Example] | Broken:
    """What is judged if a producer stores 1 and 2, the topic is reloaded, and so long after that it sends ``text``."""
    created = CreateTopic("t", "topic-on" if on else "topic-off"), Created(deduplication=on, snapshot_room=6)
    opened = OpenProducer("p2", "t", "p"), Opened(2 if on else -1)
    (_, first, stored, _, again) = steps(f"t off; p opens -1; p sends 1@0 2@1; p opens 2; {text}")
    verdict = judged(created, first, stored, reload, known=known)
    for happened, now_ms in ((opened, LOADED_MS), (again, LOADED_MS + wait_ms)):
        assert isinstance(verdict, Allowed), verdict
        verdict = judge(verdict.state, happened[0], happened[1], at=Interval(now_ms, now_ms))
    return verdict


@pytest.mark.parametrize(
    ("text", "on"), [(AS_DUPLICATE, False), ("p sends 2=UnknownStatus", False), ("p sends 2@2", True)]
)
def test_a_restarted_broker_may_judge_by_the_policy_of_the_namespace(text: str, on: bool) -> None:
    broken = sent_again(text, on=on)
    assert isinstance(broken, Broken)
    assert broken.deviation == TOPIC_POLICY_APPLIED_LATE
    allowed = sent_again(text, on=on, known=TOPIC_POLICY_APPLIED_LATE)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (TOPIC_POLICY_APPLIED_LATE,)


@pytest.mark.parametrize(
    ("text", "reload", "wait_ms"),
    [
        (AS_DUPLICATE, (Unload("t"), Done()), 0.0),
        (AS_DUPLICATE, RESTART, RECOVERY_MS + 1),
        ("p sends 3=dup", RESTART, 0.0),
        ("p sends 2=PersistenceError", RESTART, 0.0),
    ],
)
def test_a_policy_that_is_applied_late_excuses_only_the_first_two_seconds_after_a_restart(
    text: str, reload: Happened, wait_ms: float
) -> None:
    broken = sent_again(text, reload=reload, wait_ms=wait_ms, known=TOPIC_POLICY_APPLIED_LATE)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("DEDUP-01", None)
