"""What a reload of the topic may lose by a deviation, and what it does not excuse."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from model.cluster_events import ClusterCursor, ReplicationSettings, SnapshotTaken, SubscriptionUpdated
from model.deviations import DEVIATIONS
from model.log import Position
from tests.model.replication.before import Before, reloading
from tests.model.replication.test_small_logs import (
    CURSORS,
    PERIOD_MS,
    THREE,
    TIMEOUT_MS,
    TOPIC,
    TWO,
    Told,
    and_then,
    at,
    broken,
    deviates,
    judged,
    two_snapshots,
    verdict,
)

KNOWN = frozenset(DEVIATIONS)
LINK = (("A", "B"),)


def test_with_deduplication_a_message_replicated_twice_is_at_most_a_deviation() -> None:
    twice = and_then(TWO, "B", ("A", "a0"))
    topic = replace(TOPIC, deduplication=True)
    assert broken(judged(twice, topic=topic, reconnected=LINK))[0] == "REPL-01"
    before = [reloading("B", "a0")]
    deviates("REPL-01", "recovery-ignores-replicator-positions", twice, topic=topic, reconnected=LINK, before=before)


@pytest.mark.parametrize(
    ("at_b", "reconnected", "is_excused"),
    [
        ("b0 a0 a0 a1", LINK, True),
        ("b0 a0 a0 a0 a1", LINK, False),
        ("b0 a0 a1 a1", LINK, False),
        ("b0 b0 a0 a1", LINK, False),
        ("a0 a0 b0 a1", LINK, False),
        ("b0 a0 a0 a1", (), False),
    ],
    ids=["one more copy", "two more", "published since", "its own", "before the reload", "not sent again"],
)
def test_a_reload_excuses_one_more_copy_of_what_a_replicator_had_sent(
    at_b: str, reconnected: tuple[tuple[str, str], ...], is_excused: bool
) -> None:
    """B was reloaded after a0 and b0 were published, and before a1 was."""
    published = {"A": ("a0", "a1"), "B": ("b0",)}
    topic = replace(TOPIC, deduplication=True, published=published, acknowledged_at={}, own={}, is_settled=False)
    logs: dict[str, list[Told]] = {
        "A": [("A", "a0"), ("A", "a1"), ("B", "b0")],
        "B": [(message[0].upper(), message) for message in at_b.split()],
    }
    before = [reloading("B", "a0", "b0")]
    found = judged(logs, topic=topic, cursors={}, known=KNOWN, reconnected=reconnected, before=before)
    assert verdict(found) == (("recovery-ignores-replicator-positions",) if is_excused else ("REPL-01", None))


ONE_OMITTED = {**THREE, "A": [*THREE["A"][:3], ("A", SnapshotTaken("s", at("A", 2), {"B": at("B", 1)}))]}
"""A asked B alone."""


def test_a_snapshot_without_a_remote_cluster_is_a_deviation_after_a_reload() -> None:
    alone = judged(ONE_OMITTED, cursors={})
    assert verdict(alone) == ("REPL-09", None)
    before = [reloading("A", "a0")]
    deviates("REPL-09", "request-before-replicator-exists", ONE_OMITTED, topic=TOPIC, cursors={}, before=before)


def test_a_cluster_is_ahead_by_a_snapshot_that_omits_another_only_if_it_begins_during_the_load() -> None:
    """Seen on 2.11.0: B has C's message, which A does not have yet, and A asked B alone."""
    update: Told = ("A", SubscriptionUpdated("sub", {"B": at("B", 1)}))
    logs: dict[str, list[Told]] = {label: [*entries, update] for label, entries in ONE_OMITTED.items()}
    ahead: dict[str, list[Told]] = {
        label: entries if label == "A" else [("C", "c0"), *entries[1:]] for label, entries in logs.items()
    }
    topic = replace(TOPIC, acknowledged_at={}, is_settled=False, published={"A": ("a0",), "C": ("c0",)})
    at_load = partial(
        judged,
        topic=topic,
        before=[reloading("A", "a0")],
        cursors={"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))},
        known=frozenset({"request-before-replicator-exists"}),
    )
    assert verdict(at_load(ahead)) == ("request-before-replicator-exists",)
    assert verdict(at_load(logs)) == ("REPL-14", None), "A has the message before its snapshot"


@pytest.mark.parametrize(
    ("reload", "taken"),
    [
        (reloading("A"), {"B": at("B", 1)}),
        (reloading("A", "a0", "a1"), {"B": at("B", 1)}),
        (reloading("B", "a0"), {"B": at("B", 1)}),
        (reloading("A", "a0"), {"B": at("B", 0)}),
    ],
    ids=["it begins later", "it begins before", "another cluster loads", "it has a position of no response"],
)
def test_a_snapshot_omits_a_cluster_only_if_it_begins_during_the_load(
    reload: Before, taken: dict[str, Position]
) -> None:
    """A reload is after the messages that were published by then, and before the others."""
    logs = {**ONE_OMITTED, "A": [*ONE_OMITTED["A"][:3], ("A", SnapshotTaken("s", at("A", 2), taken)), ("A", "a1")]}
    published = replace(TOPIC, published={"A": ("a0", "a1")}, is_settled=False)
    found = judged(logs, topic=published, cursors={}, known=KNOWN, before=[reload])
    assert verdict(found) == ("REPL-09", None)
    at_load = judged(ONE_OMITTED, cursors={}, known=KNOWN, before=[reloading("A", "a0")])
    assert verdict(at_load) == ("request-before-replicator-exists",)


def test_a_snapshot_begins_despite_a_cut_link_only_during_the_load() -> None:
    cut = replace(TOPIC, cut={("A", "B"): ((100, 5000),)})
    at_load = judged(TWO, topic=cut, known=KNOWN, before=[reloading("A", "a0")])
    assert verdict(at_load) == ("request-before-replicator-exists",)
    later = judged(TWO, topic=cut, known=KNOWN, before=[reloading("A")])
    assert verdict(later) == ("REPL-03", None)


def test_a_snapshot_begins_before_a_policy_of_the_topic_only_during_the_load() -> None:
    known, by_topic = frozenset({"request-before-topic-policy"}), replace(TOPIC, is_by_topic=True)
    cut = {("A", "B"): ((100, 5000),)}
    at_load = [reloading("A", "a0")]
    found = judged(TWO, topic=replace(by_topic, cut=cut), known=known, before=at_load)
    assert verdict(found) == ("request-before-topic-policy",)
    by_namespace = judged(TWO, topic=replace(TOPIC, cut=cut), known=known, before=at_load)
    later = judged(TWO, topic=replace(by_topic, cut=cut), known=known, before=[reloading("A")])
    assert verdict(by_namespace) == ("REPL-03", "request-before-replicator-exists")
    assert verdict(later) == ("REPL-03", None)


@pytest.mark.parametrize(
    ("cluster", "published", "is_excused"),
    [("A", ("a0", "a1"), True), ("A", ("a0",), False), ("B", ("a0", "a1"), False)],
    ids=["before the reload", "after it", "another cluster"],
)
def test_a_reload_loses_only_the_snapshots_that_were_cached_before_it(
    cluster: str, published: tuple[str, ...], is_excused: bool
) -> None:
    """A has no update with its second snapshot, which is after a1."""
    logs, topic = two_snapshots()
    topic = replace(topic, made=ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, 2))
    passed = {"A": ClusterCursor(subscription="sub", mark_delete=at("A", 8))}
    found = judged(
        {**logs, "A": logs["A"][:-1]},
        topic=topic,
        before=[reloading(cluster, *published)],
        cursors=passed,
        is_quiet=True,
        known=KNOWN,
    )
    assert verdict(found) == (("snapshot-cache-not-recovered",) if is_excused else ("REPL-12", None))


@pytest.mark.parametrize(
    ("before", "mark_delete", "is_excused"),
    [
        ([reloading("B", "a0")], -1, True),
        ([reloading("B", "a0")], 0, False),
        ([reloading("B")], -1, False),
        ([reloading("A", "a0")], -1, False),
        ([], -1, False),
    ],
    ids=["at the update", "it was moved", "before the update", "another cluster", "never"],
)
def test_an_update_is_lost_only_where_it_creates_a_subscription_during_a_reload(
    before: list[Before], mark_delete: int, *, is_excused: bool
) -> None:
    """A published an update, which B stored after its copy of a0."""
    left = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", mark_delete))}
    found = judged(TWO, cursors=left, known=KNOWN, before=before)
    assert verdict(found) == (("update-lost-by-unload",) if is_excused else ("REPL-13", None))
