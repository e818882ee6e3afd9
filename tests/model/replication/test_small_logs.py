"""What the clusters' logs must show together: small logs that are right, and each rule broken in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from model.deviations import REPLAY_FORGETS_REPLICATORS
from model.judgement import Allowed, Broken
from model.log import Position
from model.replication.followed import GeoTopic, ReadAhead, Replication
from model.replication.following import judge
from model.replication.words import (
    ClusterRead,
    ClustersRead,
    GeoCreated,
    GeoCursor,
    GeoEntry,
    Marker,
    ReadClusters,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)

Told = tuple[str, str | Marker]
"""An entry: where it was written first, and its message or marker."""

LEDGERS = {"A": 1, "B": 2, "C": 3}
PERIOD_MS, TIMEOUT_MS = 100, 2000


def at(cluster: str, entry: int) -> Position:
    return Position(LEDGERS[cluster], entry)


def log(cluster: str, entries: Sequence[Told], *, times_ms: Mapping[int, int]) -> tuple[GeoEntry, ...]:
    """A log whose entries are 300 ms apart, but for those whose times are given."""
    return tuple(
        GeoEntry(
            position=at(cluster, index),
            origin=origin,
            published_ms=times_ms.get(index, 300 * index),
            message=told if isinstance(told, str) else None,
            marker=None if isinstance(told, str) else told,
        )
        for index, (origin, told) in enumerate(entries)
    )


TWO: dict[str, list[Told]] = {
    "A": [
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 1))),
        ("A", SnapshotTaken("s", at("A", 2), {"B": at("B", 1)})),
        ("A", SubscriptionUpdated("sub", {"B": at("B", 1)})),
    ],
    "B": [
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 1))),
        ("A", SubscriptionUpdated("sub", {"B": at("B", 1)})),
    ],
}
"""Two clusters: a message at A, a snapshot of A, and an update once A's mark-delete has passed it."""

THREE: dict[str, list[Told]] = {
    "A": [
        ("A", "a0"),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 1))),
        ("C", SnapshotResponse("s", "C", at("C", 1))),
        ("A", SnapshotRequest("s", "A")),
        ("B", SnapshotResponse("s", "B", at("B", 3))),
        ("C", SnapshotResponse("s", "C", at("C", 3))),
        ("A", SnapshotTaken("s", at("A", 6), {"B": at("B", 1), "C": at("C", 1)})),
    ],
    **{
        label: [
            ("A", "a0"),
            ("A", SnapshotRequest("s", "A")),
            (label, SnapshotResponse("s", label, at(label, 1))),
            ("A", SnapshotRequest("s", "A")),
            (label, SnapshotResponse("s", label, at(label, 3))),
        ]
        for label in "BC"
    },
}
"""Three clusters: a message at A, and a snapshot of A in two rounds."""

CURSORS = {
    "A": GeoCursor(subscription="sub", mark_delete=at("A", 4)),
    "B": GeoCursor(subscription="sub", mark_delete=at("B", 1)),
}
TOPIC = GeoTopic(
    made=GeoCreated(("A", "B"), PERIOD_MS, TIMEOUT_MS, 1),
    is_replicated=True,
    deduplication=False,
    published={"A": ("a0",)},
    acknowledged={"sub": frozenset({"a0"})},
    own={("sub", "A"): True},
    is_settled=True,
)


def judged(
    logs: Mapping[str, Sequence[Told]],
    *,
    topic: GeoTopic = TOPIC,
    cursors: Mapping[str, GeoCursor] = CURSORS,
    times_ms: Mapping[int, int] | None = None,
    known: frozenset[str] = frozenset(),
    reconnected: tuple[tuple[str, str], ...] = (),
) -> Allowed[Replication] | Broken:
    """What the model says of these logs; times are those of the entries of A."""
    if len(logs) == 3:
        topic = replace(topic, made=replace_clusters(topic, tuple(logs)))
    read = ClustersRead(
        {
            label: ClusterRead(
                entries=log(label, entries, times_ms=(times_ms or {}) if label == "A" else {}),
                cursors=(cursors[label],) if label in cursors else (),
            )
            for label, entries in logs.items()
        },
        reconnected=reconnected,
        consumed=(("sub", "A"),),
    )
    return judge(Replication(topics={"t": topic}), ReadClusters("t"), read, known)


def replace_clusters(topic: GeoTopic, clusters: tuple[str, ...]) -> GeoCreated:
    return GeoCreated(clusters, topic.made.period_ms, topic.made.timeout_ms, topic.made.cached)


def broken(found: Allowed[Replication] | Broken) -> tuple[str, str]:
    assert isinstance(found, Broken)
    return found.rule, found.because


def with_entry(logs: Mapping[str, list[Told]], cluster: str, index: int, told: Told | None) -> dict[str, list[Told]]:
    """The same logs with another entry at one place; None: it is left out, and those behind it move up."""
    changed = {label: list(entries) for label, entries in logs.items()}
    changed[cluster][index : index + 1] = [] if told is None else [told]
    return changed


def and_then(logs: Mapping[str, list[Told]], cluster: str, *more: Told) -> dict[str, list[Told]]:
    return {label: [*entries, *(more if label == cluster else ())] for label, entries in logs.items()}


def test_logs_that_are_right_put_their_rules_to_the_test() -> None:
    found = judged(TWO)
    assert isinstance(found, Allowed)
    assert set(found.exercised) >= {
        "REPL-01", "REPL-04", "REPL-05", "REPL-09", "REPL-10", "REPL-12", "REPL-13", "REPL-14"
    }  # fmt: skip
    three = judged(THREE, cursors={}, topic=replace(TOPIC, own={}))
    assert isinstance(three, Allowed)
    assert set(three.exercised) >= {"REPL-06", "REPL-07", "REPL-09"}


def test_a_message_that_does_not_come_through_is_lacking_once_all_has() -> None:
    rule, because = broken(judged({**TWO, "B": TWO["B"][1:]}, cursors={}))
    assert (rule, because) == ("REPL-01", "B lacks a0 of A, though all has come through since")


def test_messages_in_another_order_are_told() -> None:
    topic = replace(TOPIC, published={"A": ("a0", "a1")}, own={})
    logs: dict[str, list[Told]] = {"A": [("A", "a0"), ("A", "a1")], "B": [("A", "a1"), ("A", "a0")]}
    assert broken(judged(logs, topic=topic, cursors={}))[0] == "REPL-01"


def test_a_message_may_come_twice_only_where_the_link_came_back() -> None:
    twice = and_then(TWO, "B", ("A", "a0"))
    assert broken(judged(twice)) == ("REPL-01", "B has a0 from A twice")
    assert isinstance(judged(twice, reconnected=(("A", "B"),)), Allowed)


def test_with_deduplication_it_may_not_but_where_a_release_forgets_what_replicators_sent() -> None:
    twice, link = and_then(TWO, "B", ("A", "a0")), (("A", "B"),)
    topic = replace(TOPIC, deduplication=True)
    assert broken(judged(twice, topic=topic, reconnected=link))[0] == "REPL-01"
    moved = replace(topic, moved=frozenset({"B"}))
    found = judged(twice, topic=moved, reconnected=link)
    assert isinstance(found, Broken)
    assert found.deviation == REPLAY_FORGETS_REPLICATORS
    known = judged(twice, topic=moved, reconnected=link, known=frozenset({REPLAY_FORGETS_REPLICATORS}))
    assert isinstance(known, Allowed)
    assert known.deviations == (REPLAY_FORGETS_REPLICATORS,)


def test_a_topic_that_is_not_replicated_has_no_markers() -> None:
    rule, _ = broken(judged({"A": TWO["A"], "B": []}, topic=replace(TOPIC, is_replicated=False), cursors={}))
    assert rule == "REPL-18"


def test_a_subscription_that_is_not_replicated_appears_nowhere_else() -> None:
    rule, because = broken(judged(TWO, topic=replace(TOPIC, own={("sub", "A"): False})))
    assert (rule, because) == ("REPL-18", "B has the subscription sub, which is not replicated, from elsewhere")


def test_a_snapshot_begins_only_when_something_was_published_since_the_last_one_began() -> None:
    again = and_then(TWO, "A", ("A", SnapshotRequest("s2", "A")))
    rule, _ = broken(judged(again, times_ms={0: -10_000}))
    assert rule == "REPL-02"
    news = {"A": [*TWO["A"], ("A", "a1"), ("A", SnapshotRequest("s2", "A"))], "B": [*TWO["B"], ("A", "a1")]}
    topic = replace(TOPIC, published={"A": ("a0", "a1")}, acknowledged={"sub": frozenset({"a0", "a1"})})
    found = judged(news, topic=topic, times_ms={0: -10_000})
    assert isinstance(found, Allowed)
    assert "REPL-02" in found.exercised


def test_none_begins_while_a_replicator_is_not_connected() -> None:
    cut = replace(TOPIC, cut={("A", "B"): ((100, 5000),)})
    assert broken(judged(TWO, topic=cut))[0] == "REPL-03"
    cut = replace(TOPIC, cut={("A", "B"): ((500, 5000),)})
    before = judged(TWO, topic=cut, times_ms={0: 600, 1: 400, 2: 450, 3: 460, 4: 470})
    assert isinstance(before, Allowed)
    assert "REPL-03" in before.exercised


@pytest.mark.parametrize("told", [at("B", 0), at("B", 2), at("B", 7)], ids=["before the request", "its own", "ahead"])
def test_an_answer_tells_a_position_between_the_request_and_itself(told: Position) -> None:
    wrong: Told = ("B", SnapshotResponse("s", "B", told))
    logs = with_entry(with_entry(TWO, "B", 2, wrong), "A", 2, wrong)
    assert broken(judged(logs, cursors={}))[0] == "REPL-04"


def test_an_answer_that_nobody_asked_for_is_told() -> None:
    assert broken(judged(with_entry(TWO, "B", 1, None), cursors={}))[0] == "REPL-04"


def test_a_request_is_answered_once() -> None:
    twice = and_then(TWO, "B", ("B", SnapshotResponse("s", "B", at("B", 3))))
    assert broken(judged(twice))[0] == "REPL-05"


def test_the_first_answer_of_a_cluster_counts() -> None:
    latest = SnapshotTaken("s", at("A", 6), {"B": at("B", 3), "C": at("C", 1)})
    found = judged(with_entry(THREE, "A", 7, ("A", latest)), cursors={}, topic=replace(TOPIC, own={}))
    assert broken(found)[0] == "REPL-06"


@pytest.mark.parametrize(
    "taken",
    [
        SnapshotTaken("s", at("A", 1), {"B": at("B", 1)}),
        SnapshotTaken("s", at("A", 2), {"B": at("B", 0)}),
        SnapshotTaken("s", at("A", 2), {}),
    ],
    ids=["for where no answer is", "with what nobody told", "without an answer"],
)
def test_a_snapshot_is_made_of_answers(taken: SnapshotTaken) -> None:
    assert broken(judged(with_entry(TWO, "A", 3, ("A", taken)), cursors={}))[0] == "REPL-09"


def test_among_three_clusters_there_is_a_second_round() -> None:
    one_round = {
        **THREE,
        "A": [*THREE["A"][:4], ("A", SnapshotTaken("s", at("A", 3), {"B": at("B", 1), "C": at("C", 1)}))],
    }
    assert broken(judged(one_round, cursors={}, topic=replace(TOPIC, own={})))[0] == "REPL-07"


def test_what_took_longer_than_the_timeout_is_not_completed() -> None:
    assert broken(judged(TWO, times_ms={3: 60_000, 4: 61_000}))[0] == "REPL-08"
    late = with_entry(with_entry(TWO, "A", 3, None), "A", 3, None)
    late["A"].insert(2, ("A", "a1"))
    late["B"] = [*late["B"][:3], ("A", "a1")]
    topic = replace(TOPIC, published={"A": ("a0", "a1")})
    found = judged(late, topic=topic, cursors={}, times_ms={1: 1000, 2: 9000})
    assert isinstance(found, Allowed)
    assert "REPL-08" in found.exercised


def test_an_update_is_to_a_snapshot_that_mark_delete_has_passed() -> None:
    behind = {**CURSORS, "A": GeoCursor(subscription="sub", mark_delete=at("A", 1))}
    assert broken(judged(TWO, cursors=behind))[0] == "REPL-12"
    nothing = SubscriptionUpdated("sub", {"B": at("B", 0)})
    assert broken(judged(with_entry(TWO, "A", 4, ("A", nothing))))[0] == "REPL-12"
    early = with_entry(TWO, "A", 4, None)
    early["A"].insert(3, ("A", SubscriptionUpdated("sub", {"B": at("B", 1)})))
    assert broken(judged(early))[0] == "REPL-12"


def test_an_update_is_to_a_snapshot_that_is_still_kept() -> None:
    """The dispatcher had read two snapshots when something was acknowledged, and one of them is kept."""
    second: list[Told] = [
        ("A", "a1"),
        ("A", SnapshotRequest("s2", "A")),
        ("B", SnapshotResponse("s2", "B", at("B", 5))),
        ("A", SnapshotTaken("s2", at("A", 6), {"B": at("B", 5)})),
        ("A", "a2"),
    ]
    a = [*TWO["A"][:4], *second, ("A", TWO["A"][4][1])]
    b: list[Told] = [*TWO["B"][:3], ("A", "a1"), ("A", "a2"), ("A", SnapshotRequest("s2", "A"))]
    b += [("B", SnapshotResponse("s2", "B", at("B", 5)))]
    ahead = ReadAhead(begun_ms=2600, first=at("A", 0), last=at("A", 8))
    topic = replace(
        TOPIC,
        published={"A": ("a0", "a1", "a2")},
        acknowledged={"sub": frozenset({"a0", "a1", "a2"})},
        reads={("sub", "A"): (ahead,)},
        is_settled=False,
    )
    assert broken(judged({"A": a, "B": b}, topic=topic))[0] == "REPL-11"
    right = judged({"A": a[:-1], "B": b}, topic=topic)
    assert isinstance(right, Allowed)
    assert "REPL-11" in right.exercised


def test_an_update_takes_effect_at_the_other_cluster() -> None:
    left = {**CURSORS, "B": GeoCursor(subscription="sub", mark_delete=at("B", -1))}
    assert broken(judged(TWO, cursors=left))[0] == "REPL-13"
    assert broken(judged(TWO, cursors={"A": CURSORS["A"]}))[0] == "REPL-13"
    plain = {**CURSORS, "B": GeoCursor(subscription="sub", mark_delete=at("B", 1), is_replicated=False)}
    assert broken(judged(TWO, cursors=plain))[0] == "REPL-13"


def test_a_cluster_that_holds_for_acknowledged_what_nobody_acknowledged_is_ahead() -> None:
    rule, because = broken(judged(TWO, topic=replace(TOPIC, acknowledged={})))
    assert rule == "REPL-14"
    assert "holds a0 for acknowledged" in because


def test_a_backlog_of_markers_is_none() -> None:
    counted = {**CURSORS, "A": GeoCursor(subscription="sub", mark_delete=at("A", 4), backlog=2)}
    assert broken(judged(TWO, cursors=counted))[0] == "REPL-10"
