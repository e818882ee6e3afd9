"""A subscription that is not replicated takes no part, except that updates of its name move it by a deviation."""

from __future__ import annotations

from dataclasses import replace

from model.cluster_events import ClusterCursor
from model.deviations import DEVIATIONS
from model.deviations.replication import UPDATE_OF_UNREPLICATED_SUBSCRIPTION
from model.judgement import Allowed
from tests.model.replication.test_small_logs import CURSORS, TOPIC, TWO, Told, at, broken, judged, verdict


def test_a_subscription_that_is_not_replicated_appears_in_no_other_cluster() -> None:
    rule, because = broken(judged(TWO, topic=replace(TOPIC, own={("sub", "A"): False})))
    assert (rule, because) == ("REPL-18", "B has subscription sub of another cluster, but it is not replicated")


def test_an_update_of_an_unreplicated_subscription_with_the_same_name_is_a_deviation() -> None:
    own = {("sub", "A"): True, ("sub", "B"): False}
    topic = replace(TOPIC, own=own, is_settled=False)
    unloaded = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 1), is_replicated=False)}
    found = judged(TWO, topic=topic, cursors=unloaded)
    assert verdict(found) == ("REPL-18", UPDATE_OF_UNREPLICATED_SUBSCRIPTION)
    stays = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", -1), is_replicated=False)}
    for here, cursors in (
        (replace(topic, acknowledged_at={("sub", "B"): frozenset({"a0"})}), unloaded),
        (topic, stays),
    ):
        allowed = judged(TWO, topic=here, cursors=cursors)
        assert isinstance(allowed, Allowed)
        assert "REPL-18" in allowed.exercised


def test_an_update_moves_an_unreplicated_subscription_only_up_to_its_position() -> None:
    """a1 is after the position of A's update. A's consumer acknowledged it, and none of B did."""
    logs: dict[str, list[Told]] = {"A": [*TWO["A"], ("A", "a1")], "B": [*TWO["B"], ("A", "a1")]}
    topic = replace(
        TOPIC,
        published={"A": ("a0", "a1")},
        acknowledged_at={("sub", "A"): frozenset({"a0", "a1"})},
        own={("sub", "A"): True, ("sub", "B"): False},
        is_settled=False,
    )
    known = frozenset(DEVIATIONS)
    for entry, is_excused in ((1, True), (4, False)):
        moved = ClusterCursor(subscription="sub", mark_delete=at("B", entry), is_replicated=False)
        found = judged(logs, topic=topic, cursors={**CURSORS, "B": moved}, known=known)
        assert verdict(found) == ((UPDATE_OF_UNREPLICATED_SUBSCRIPTION,) if is_excused else ("REPL-18", None))
