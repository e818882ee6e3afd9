"""Topics that a policy of their own replicates, and what administrators do at any cluster (REPL-21)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from model.cluster_events import ClusterCursor, CursorAdministered, LinkCut, LinkHealed
from model.cluster_operations import AdministerAt, AdministratorsRequest, CutLink, HealLink
from model.events import AnyOutcome, Done, Refused
from model.judgement import Allowed
from model.log import Position
from model.operations import AnyOperation, Unload
from model.replication.tracked import ReplicatedTopic, Replication
from model.replication.tracker import judge
from model.subscription_operations import (
    CreateSubscription,
    DeleteSubscription,
    Expire,
    ResetCursor,
    Skip,
    SkipAll,
)
from tests.model.replication.test_small_logs import TOPIC, Told, at, broken, judged

BY_TOPIC = replace(
    TOPIC, is_by_topic=True, published={"A": ("a0", "a1", "a2")}, own={}, acknowledged_at={}, is_settled=True
)
LOG: list[Told] = [("A", "a0"), ("A", "a1"), ("A", "a2")]
TIMES_MS = {0: 50, 1: 150, 2: 250}


def after(topic: ReplicatedTopic, *happened: tuple[AnyOperation, AnyOutcome]) -> ReplicatedTopic:
    state = Replication(topics={"t": topic})
    for operation, outcome in happened:
        judgement = judge(state, operation, outcome)
        assert isinstance(judgement, Allowed)
        state = judgement.state
    return replace(state.topics["t"], is_settled=True)


CUT: tuple[AnyOperation, AnyOutcome] = CutLink("A", "B"), LinkCut(100)
HEALED: tuple[AnyOperation, AnyOutcome] = HealLink("A", "B"), LinkHealed(200)
RELOADED: tuple[AnyOperation, AnyOutcome] = Unload("t", cluster="A"), Done()


def test_what_was_published_while_a_link_was_cut_is_replicated_over_a_reload() -> None:
    topic = after(BY_TOPIC, CUT, RELOADED, HEALED)
    sound = judged({"A": LOG, "B": LOG}, topic=topic, cursors={}, times_ms=TIMES_MS)
    assert isinstance(sound, Allowed)
    assert "REPL-21" in sound.exercised
    rule, because = broken(judged({"A": LOG, "B": LOG[:1]}, topic=topic, cursors={}, times_ms=TIMES_MS))
    assert (rule, because.startswith("B lacks a1")) == ("REPL-21", True)


@pytest.mark.parametrize(
    ("topic", "lacking"),
    [
        (after(BY_TOPIC, CUT, RELOADED, HEALED), LOG[1:]),
        (after(BY_TOPIC, RELOADED, CUT, HEALED), LOG[:1]),
        (after(BY_TOPIC, CUT, HEALED, RELOADED), LOG[:1]),
        (after(BY_TOPIC, CUT, (Unload("t", cluster="B"), Done()), HEALED), LOG[:1]),
        (after(replace(BY_TOPIC, is_by_topic=False), CUT, RELOADED, HEALED), LOG[:1]),
    ],
    ids=["before the cut", "reloaded before", "reloaded afterwards", "reloaded at the target", "by the namespace"],
)
def test_what_is_lost_otherwise_breaks_the_rule_on_replication(topic: ReplicatedTopic, lacking: list[Told]) -> None:
    verdict = judged({"A": LOG, "B": lacking}, topic=topic, cursors={}, times_ms=TIMES_MS)
    assert broken(verdict)[0] == "REPL-01"


def test_messages_from_around_a_change_of_the_policy_may_be_missing() -> None:
    topic = after(BY_TOPIC, CUT, RELOADED, HEALED).with_link(("A", "B"), on=False).with_link(("A", "B"), on=True)
    topic = replace(topic, is_settled=True)
    assert isinstance(judged({"A": LOG, "B": LOG[:1]}, topic=topic, cursors={}, times_ms=TIMES_MS), Allowed)


def cursor(last: int, *, cluster: str = "B") -> ClusterCursor:
    return ClusterCursor(subscription="sub", mark_delete=at(cluster, last))


def administering(
    asked: AdministratorsRequest, before: ClusterCursor | None, now: ClusterCursor | None, to: Position | None = None
) -> ReplicatedTopic:
    happened = AdministerAt("B", asked), CursorAdministered(before, now, to)
    topic = replace(BY_TOPIC, is_by_topic=False, own={("sub", "A"): True, ("sub", "B"): True})
    return replace(after(topic, happened), is_settled=False)


def seen(topic: ReplicatedTopic, cursors: Mapping[str, ClusterCursor]) -> tuple[str, ...]:
    """The rule that is broken, with the reason; empty if the rule is exercised and kept."""
    found = judged({"A": LOG, "B": LOG}, topic=topic, cursors=cursors)
    if not isinstance(found, Allowed):
        return broken(found)
    assert "REPL-21" in found.exercised
    return ()


@pytest.mark.parametrize(
    ("asked", "to", "last", "is_allowed"),
    [
        (Skip("t", "sub", 2), None, 1, True),
        (Skip("t", "sub", 1), None, 1, False),
        (SkipAll("t", "sub"), None, 2, True),
        (Expire("t", "sub", "a1"), at("B", 1), 1, True),
        (Expire("t", "sub", "a1"), at("B", 1), 2, False),
        (ResetCursor("t", "sub", "a1"), at("B", 1), 0, True),
        (ResetCursor("t", "sub", "a1"), at("B", 1), 1, False),
        (ResetCursor("t", "sub", "a1", after=True), at("B", 1), 1, True),
        (ResetCursor("t", "sub", None), None, 0, False),
    ],
)
def test_a_request_passes_what_it_names(
    asked: AdministratorsRequest, to: Position | None, last: int, is_allowed: bool
) -> None:
    now = cursor(last)
    found = seen(administering(asked, cursor(-1), now, to), {"A": cursor(-1, cluster="A"), "B": now})
    assert found[:1] == (() if is_allowed else ("REPL-21",))


@pytest.mark.parametrize(("start", "is_allowed"), [("latest", True), ("earliest", False)])
def test_a_subscription_is_created_where_it_is_asked_to_begin(start: str, is_allowed: bool) -> None:
    asked = CreateSubscription("t", "sub", "latest" if start == "latest" else "earliest", is_replicated=True)
    found = seen(administering(asked, None, cursor(2)), {"B": cursor(2)})
    assert found[:1] == (() if is_allowed else ("REPL-21",))


def test_what_an_administrator_passed_may_be_passed_elsewhere_and_nothing_else() -> None:
    topic = administering(Skip("t", "sub", 1), cursor(-1), cursor(0))
    assert seen(topic, {"A": cursor(0, cluster="A"), "B": cursor(0)}) == ()
    assert seen(topic, {"A": cursor(1, cluster="A"), "B": cursor(0)})[0] == "REPL-14"
    assert seen(topic, {"A": cursor(0, cluster="A"), "B": cursor(1)})[0] == "REPL-14"


def test_what_consumers_acknowledged_is_not_counted_as_skipped() -> None:
    topic = administering(Skip("t", "sub", 1), cursor(-1), cursor(1))
    assert seen(topic, {"B": cursor(1)})[0] == "REPL-21"
    assert seen(topic.with_acknowledged("sub", "A", frozenset({"a1"})), {"B": cursor(1)}) == ()


def test_an_expiry_may_go_on_after_it_was_looked_at() -> None:
    topic = administering(Expire("t", "sub", "a1"), cursor(-1), cursor(-1), at("B", 1))
    assert seen(topic, {"B": cursor(1)}) == ()
    assert seen(topic, {"B": cursor(2)})[0] == "REPL-14"


def test_what_an_administrator_passed_at_a_cluster_that_lost_its_data_is_unknown() -> None:
    topic = administering(Skip("t", "sub", 1), cursor(-1), cursor(0)).without_data_of("B")
    assert isinstance(judged({"A": LOG, "B": []}, topic=topic, cursors={"A": cursor(2, cluster="A")}), Allowed)
    lost = replace(administering(Skip("t", "sub", 1), cursor(-1), cursor(0)), lost={"B": "kill"})
    assert seen(lost, {"A": cursor(0, cluster="A"), "B": cursor(0)}) == ()
    assert seen(lost, {"A": cursor(1, cluster="A"), "B": cursor(0)})[0] == "REPL-14"


def test_an_unreplicated_subscription_that_an_administrator_moved_is_not_judged_by_its_acks() -> None:
    others = BY_TOPIC.with_acknowledged("sub", "A", frozenset({"a0"}))
    plain = replace(others, is_settled=False, own={("sub", "A"): True, ("sub", "B"): False})
    at_b = ClusterCursor(subscription="sub", mark_delete=at("B", 0), is_replicated=False)
    assert broken(judged({"A": LOG, "B": LOG}, topic=plain, cursors={"B": at_b}))[0] == "REPL-18"
    skipped = replace(plain, administered=administering(Skip("t", "sub", 1), cursor(-1), at_b).administered)
    assert isinstance(judged({"A": LOG, "B": LOG}, topic=skipped, cursors={"B": at_b}), Allowed)


def test_a_deleted_subscription_passes_nothing_and_a_refused_request_does_nothing() -> None:
    topic = administering(DeleteSubscription("t", "sub"), cursor(1), None)
    assert seen(topic, {"A": cursor(0, cluster="A")})[0] == "REPL-14"
    refused = after(BY_TOPIC, (AdministerAt("B", SkipAll("t", "sub")), Refused("409", "")))
    assert refused.administered == ()
