"""Deduplication policies and the broker's setting, and which topics follow them."""

from __future__ import annotations

import pytest

from model.events import Created, DeduplicationSet, Done, PolicyIgnored
from model.example import Example, judge
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, CreateTopic, Restart, SetDeduplication, Switch


def with_topic(switch: Switch = "namespace-on") -> Example:
    judged = judge(Example(), CreateTopic("t0", switch), Created(deduplication=True, snapshot_room=6))
    assert isinstance(judged, Allowed)
    return judged.state


@pytest.mark.parametrize(
    "operation", [CreateTopic("t1", "topic-off"), SetDeduplication("t0", "topic", on=False)], ids=["new", "loaded"]
)
def test_a_topic_that_ignores_its_policy_breaks_dedup_01(operation: AnyOperation) -> None:
    judged = judge(with_topic(), operation, PolicyIgnored("Enabled"))
    assert isinstance(judged, Broken)
    assert judged.rule == "DEDUP-01"
    assert "is still Enabled" in judged.because


def test_a_topic_without_a_policy_that_ignores_the_broker_setting_breaks_dedup_01() -> None:
    judged = judge(with_topic("broker"), Restart(deduplication=False), PolicyIgnored("Enabled"))
    assert isinstance(judged, Broken)
    assert judged.rule == "DEDUP-01"


@pytest.mark.parametrize(
    ("switch", "follows"), [("broker", True), ("namespace-on", False), ("own-namespace-on", False), ("topic-on", False)]
)
def test_only_a_topic_without_a_policy_follows_the_broker_setting(switch: Switch, follows: bool) -> None:
    judged = judge(with_topic(switch), Restart(deduplication=False), DeduplicationSet(deduplication=False))
    assert isinstance(judged, Allowed)
    assert judged.state.topics["t0"].enabled is not follows


def test_a_plain_restart_changes_no_deduplication_status() -> None:
    judged = judge(with_topic("broker"), Restart(), Done())
    assert isinstance(judged, Allowed)
    assert judged.state.topics["t0"].enabled


def test_a_topic_that_follows_its_policy_breaks_nothing() -> None:
    judged = judge(with_topic(), SetDeduplication("t0", "topic", on=False), DeduplicationSet(deduplication=False))
    assert isinstance(judged, Allowed)
    assert not judged.state.topics["t0"].enabled
