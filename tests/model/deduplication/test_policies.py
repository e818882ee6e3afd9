"""Deduplication policies and the broker's setting, and which topics follow them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.events import (
    AnyOutcome,
    Created,
    DeduplicationSet,
    Done,
    Duplicate,
    Opened,
    PolicyIgnored,
    Sent,
    Stored,
    Subscribed,
)
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import (
    AnyOperation,
    CreateTopic,
    Kill,
    OpenProducer,
    Restart,
    Send,
    SetDeduplication,
    Switch,
    Unload,
)
from model.subscription_operations import CreateSubscription, Subscribe
from tests.model.deduplication.entries import entry


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


def in_turn(state: Example, *happened: tuple[AnyOperation, AnyOutcome]) -> Example:
    for operation, outcome in happened:
        judged = judge(state, operation, outcome)
        assert isinstance(judged, Allowed), judged
        state = judged.state
    return state


def knowing(*names: str, state: Example) -> Example:
    return replace(state, known=frozenset(names))


OFF = SetDeduplication("t0", "topic", on=False), PolicyIgnored("Enabled")

TWICE = (
    (OpenProducer("s1", "t0", "p"), Opened(-1)),
    (Send("s1", (entry(1),)), Sent((Stored(Position(1, 0)),))),
)
"""A message is stored, and sent again: it is :data:`STORED` again or :data:`DROPPED`."""
STORED = Send("s1", (entry(1),)), Sent((Stored(Position(1, 1)),))
DROPPED = Send("s1", (entry(1),)), Sent((Duplicate(),))


def test_a_policy_that_awaits_a_reload_excuses_no_other_policy_and_no_status_after_the_reload() -> None:
    unknown = judge(with_topic(), *OFF)
    assert isinstance(unknown, Broken)
    assert unknown.deviation == "topic-policy-awaits-reload"
    known = knowing("topic-policy-awaits-reload", state=with_topic())
    still_on = in_turn(known, OFF)
    assert still_on.topics["t0"].enabled
    reloaded = in_turn(still_on, (Unload("t0"), Done()))
    assert not reloaded.topics["t0"].enabled
    for state, operation, outcome in (
        (known, SetDeduplication("t0", "namespace", on=False), PolicyIgnored("Enabled")),
        (known, SetDeduplication("t0", "topic", on=True), PolicyIgnored("Enabled")),
        (known, SetDeduplication("t0", "topic", on=False), PolicyIgnored("Disabled")),
    ):
        judged = judge(state, operation, outcome)
        assert isinstance(judged, Broken)
        assert judged.deviation is None


def test_a_new_topic_that_ignores_its_own_policy_is_followed_until_its_reload() -> None:
    create, created = CreateTopic("t0", "topic-on"), Created(deduplication=False, snapshot_room=6)
    judged = judge(Example(), create, created)
    assert isinstance(judged, Broken)
    assert (judged.rule, judged.deviation) == ("DEDUP-01", "topic-policy-awaits-reload")
    assert isinstance(judge(Example(), CreateTopic("t0", "topic-on", persistence="every-ack"), created), Allowed)
    known = in_turn(replace(Example(), known=frozenset({"topic-policy-awaits-reload"})), (create, created))
    assert not known.topics["t0"].enabled
    assert in_turn(known, (Unload("t0"), Done())).topics["t0"].enabled


def test_policies_that_are_not_read_excuse_no_policy_that_the_broker_shows() -> None:
    unread = OFF[0], PolicyIgnored("Enabled", is_shown=False)
    every = with_topic()
    unknown = judge(every, *unread)
    assert isinstance(unknown, Broken)
    assert unknown.deviation == "topic-policies-not-read"
    known = knowing("topic-policies-not-read", state=every)
    shown = judge(known, *OFF)
    assert isinstance(shown, Broken)
    still_on = in_turn(known, unread)
    in_turn(still_on, (Unload("t0"), Done()), *TWICE, DROPPED)
    in_turn(still_on, (Kill(), Done()), *TWICE, STORED)
    dropped = judge(in_turn(still_on, (Kill(), Done()), *TWICE), *DROPPED)
    assert isinstance(dropped, Broken)
    assert dropped.rule == "DEDUP-01"
    for operation in (SetDeduplication("t0", "namespace", on=False), SetDeduplication("t0", "topic", on=True)):
        judged = judge(known, operation, unread[1])
        assert isinstance(judged, Broken)
        assert judged.deviation is None


def test_a_new_topic_whose_policy_is_not_read_keeps_its_status_through_unloads() -> None:
    created = Created(deduplication=False, snapshot_room=6, is_policy_shown=False)
    judged = judge(Example(), CreateTopic("t0", "topic-on"), created)
    assert isinstance(judged, Broken)
    assert (judged.rule, judged.deviation) == ("DEDUP-01", "topic-policies-not-read")
    known = replace(Example(), known=frozenset({"topic-policies-not-read"}))
    in_turn(known, (CreateTopic("t0", "topic-on"), created), (Unload("t0"), Done()), *TWICE, STORED)


def test_an_unused_subscription_hides_only_the_topic_s_own_policy() -> None:
    name = "unused-subscription-hides-topic-policy"
    created = CreateTopic("t0", persistence="every-ack"), Created(deduplication=True, snapshot_room=6)
    subscription = CreateSubscription("t0", "s0", "earliest"), Done()
    consumer = Subscribe("c1", "t0", "s0", "Shared"), Subscribed()
    state = in_turn(replace(Example(), known=frozenset({name})), created)
    without, unused, used = state, in_turn(state, subscription), in_turn(state, subscription, consumer)
    in_turn(unused, OFF, (Unload("t0"), Done()), *TWICE, STORED)
    unknown = judge(knowing(state=unused), *OFF)
    assert isinstance(unknown, Broken)
    assert unknown.deviation == name
    for other, operation in (
        (without, OFF[0]),
        (used, OFF[0]),
        (unused, SetDeduplication("t0", "namespace", on=False)),
    ):
        judged = judge(other, operation, OFF[1])
        assert isinstance(judged, Broken)
        assert judged.rule == "DEDUP-01"


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
