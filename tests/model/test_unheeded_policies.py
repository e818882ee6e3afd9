"""A policy that switches deduplication, and a topic that does not follow it."""

from __future__ import annotations

import pytest

from model.example import Example, judge
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, Created, CreateTopic, SwitchDeduplication, Switched, Unheeded


def with_topic() -> Example:
    judged = judge(Example(), CreateTopic("t0"), Created(deduplication=True, snapshot_room=6))
    assert isinstance(judged, Allowed)
    return judged.state


@pytest.mark.parametrize(
    "operation", [CreateTopic("t1", "topic-off"), SwitchDeduplication("t0", "topic", on=False)], ids=["new", "loaded"]
)
def test_a_topic_that_does_not_follow_its_policy_breaks_the_rule_of_switching(operation: AnyOperation) -> None:
    judged = judge(with_topic(), operation, Unheeded("Enabled"))
    assert isinstance(judged, Broken)
    assert judged.rule == "DEDUP-01"
    assert "Enabled still" in judged.because


def test_a_topic_that_follows_its_policy_breaks_nothing() -> None:
    judged = judge(with_topic(), SwitchDeduplication("t0", "topic", on=False), Switched(deduplication=False))
    assert isinstance(judged, Allowed)
    assert not judged.state.topics["t0"].enabled
