"""A topic's own policy that a restarted broker has not read yet, in small histories (DEDUP-01)."""

from __future__ import annotations

import pytest

from model.cursors.ledger import Interval
from model.deviations.loads import RECOVERY_MS
from model.events import Created, DeduplicationSet, Done, Opened
from model.example import Example
from model.explain import judge
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
    opened = OpenProducer("p2", "t", "p"), Opened(-1)
    (_, first, stored, _, *again) = steps(f"t off; p opens -1; p sends 1@0 2@1; p opens -1; {text}")
    verdict = judged(created, first, stored, reload, known=known)
    for happened, now_ms in ((opened, LOADED_MS), *((one, LOADED_MS + wait_ms) for one in again)):
        if isinstance(verdict, Broken):
            break
        verdict = judge(verdict.state, happened[0], happened[1], at=Interval(now_ms, now_ms))
    return verdict


def opened_again(last_sequence_id: int, *, reload: Happened = RESTART, known: str = "") -> Allowed[Example] | Broken:
    """What is judged if a topic with its own policy has 1 and 2, is reloaded, and p is opened with this last id."""
    created = CreateTopic("t", "topic-on"), Created(deduplication=True, snapshot_room=6)
    (_, first, stored, opened) = steps(f"t off; p opens -1; p sends 1@0 2@1; p opens {last_sequence_id}")
    return judged(created, first, stored, reload, opened, known=known)


@pytest.mark.parametrize("text", [AS_DUPLICATE, "p sends 2=UnknownStatus"])
def test_a_restarted_broker_may_judge_by_the_policy_of_the_namespace(text: str) -> None:
    broken = sent_again(text)
    assert isinstance(broken, Broken)
    assert broken.deviation == "topic-policy-applied-late"
    allowed = sent_again(text, known="topic-policy-applied-late")
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == ("topic-policy-applied-late",)


def test_a_topic_that_is_loaded_before_its_policy_is_read_forgets_its_ids() -> None:
    allowed = opened_again(-1, known="topic-policy-applied-late")
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == ("topic-policy-applied-late",)
    for last_sequence_id, reload in ((1, RESTART), (-1, (Unload("t"), Done()))):
        broken = opened_again(last_sequence_id, reload=reload, known="topic-policy-applied-late")
        assert isinstance(broken, Broken)
        assert broken.deviation != "topic-policy-applied-late"


def test_what_is_stored_before_the_policy_is_read_may_not_count() -> None:
    known = "topic-policy-applied-late"
    for last_sequence_id in (-1, 2):
        text = f"p sends 2@2; p closes; p opens {last_sequence_id}"
        assert isinstance(sent_again(text, on=True, known=known), Allowed)
    broken = sent_again("p sends 2@2; p closes; p opens 1", on=True, known=known)
    assert isinstance(broken, Broken)
    assert broken.rule == "DEDUP-09"


def test_once_the_policy_is_read_what_is_stored_counts() -> None:
    known = "topic-policy-applied-late"
    text = "p sends 3@2; p closes; p opens 3; p sends 3"
    assert isinstance(sent_again(f"{text}=dup", on=True, known=known), Allowed)
    broken = sent_again(f"{text}@3", on=True, known=known)
    assert isinstance(broken, Broken)
    assert broken.rule == "DEDUP-12"


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
    broken = sent_again(text, reload=reload, wait_ms=wait_ms, known="topic-policy-applied-late")
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("DEDUP-01", None)
