"""Cutting a history down to one topic."""

from __future__ import annotations

from conformance.engine.slices import of_one_topic
from model.applications import CrashSource, FinishSource, StartSource
from model.operations import (
    AnyOperation,
    ClearFailpoints,
    CloseProducer,
    CreateTopic,
    Kill,
    OpenProducer,
    ReadLog,
    Send,
    Unload,
)
from tests.report.samples import entry

HERE: tuple[AnyOperation, ...] = (
    CreateTopic("t0"),
    OpenProducer("s1", "t0", "p0"),
    Send("s1", (entry(1),)),
    StartSource("a0", "t0", (entry(1),)),
    CrashSource("a0"),
)
ELSEWHERE: tuple[AnyOperation, ...] = (
    CreateTopic("t1"),
    OpenProducer("s2", "t1", "p0"),
    Send("s2", (entry(1),)),
    CloseProducer("s2"),
    StartSource("a1", "t1", (entry(1),)),
    FinishSource("a1"),
    Unload("t1"),
    ReadLog("t1"),
)


def test_what_was_done_on_other_topics_is_left_out() -> None:
    assert of_one_topic((*ELSEWHERE, *HERE, ReadLog("t0"))) == (*HERE, ReadLog("t0"))


def test_the_last_operation_may_name_its_topic_by_who_acts() -> None:
    assert of_one_topic((*HERE, *ELSEWHERE, Send("s1", (entry(2),)))) == (*HERE, Send("s1", (entry(2),)))
    assert of_one_topic((*HERE, *ELSEWHERE, FinishSource("a0"))) == (*HERE, FinishSource("a0"))


def test_what_is_on_no_topic_is_kept() -> None:
    assert of_one_topic((Kill(), *ELSEWHERE, ClearFailpoints(), ReadLog("t0"))) == (
        Kill(),
        ClearFailpoints(),
        ReadLog("t0"),
    )


def test_all_is_kept_where_the_last_operation_is_on_no_topic() -> None:
    assert of_one_topic((*HERE, *ELSEWHERE, Kill())) == (*HERE, *ELSEWHERE, Kill())
    assert of_one_topic(()) == ()
