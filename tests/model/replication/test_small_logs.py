"""What the logs of all clusters must show together: small correct logs, and each rule broken in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from model import explain
from model.cluster_events import (
    CaughtUp,
    ClusterCursor,
    ClusterEntry,
    ClusterRead,
    ClustersRead,
    Marker,
    ReplicationSettings,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)
from model.cluster_operations import CatchUp, ReadClusters
from model.judgement import Allowed, Broken
from model.log import Position
from model.replication.tracked import ClusterConsumer, ReadAhead, ReplicatedTopic, Replication
from model.replication.tracker import judge
from tests.model.replication.before import Before, after, reloading

Told = tuple[str, str | Marker]
"""An entry: the cluster that wrote it first, and its message or marker."""

LEDGERS = {"A": 1, "B": 2, "C": 3}
PERIOD_MS, TIMEOUT_MS = 100, 2000


def at(cluster: str, entry: int) -> Position:
    return Position(LEDGERS[cluster], entry)


def log(cluster: str, entries: Sequence[Told], *, times_ms: Mapping[int, int]) -> tuple[ClusterEntry, ...]:
    """A log whose entries are 300 ms apart, except those with a given time."""
    return tuple(
        ClusterEntry(
            position=at(cluster, index),
            origin=origin,
            published_ms=times_ms.get(index, 300 * index),
            message=entry if isinstance(entry, str) else None,
            marker=None if isinstance(entry, str) else entry,
        )
        for index, (origin, entry) in enumerate(entries)
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
    "A": ClusterCursor(subscription="sub", mark_delete=at("A", 4)),
    "B": ClusterCursor(subscription="sub", mark_delete=at("B", 1)),
}
TOPIC = ReplicatedTopic(
    made=ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, 1),
    is_replicated=True,
    deduplication=False,
    published={"A": ("a0",)},
    acknowledged_at={("sub", "A"): frozenset({"a0"})},
    own={("sub", "A"): True},
    is_settled=True,
)


def judged(
    logs: Mapping[str, Sequence[Told]],
    *,
    topic: ReplicatedTopic = TOPIC,
    cursors: Mapping[str, ClusterCursor] = CURSORS,
    times_ms: Mapping[int, int] | None = None,
    all_times_ms: Mapping[str, Mapping[int, int]] | None = None,
    known: frozenset[str] = frozenset(),
    reconnected: tuple[tuple[str, str], ...] = (),
    is_quiet: bool = False,
    closed: tuple[tuple[str, str], ...] = (),
    at_ms: int = 0,
    before: Sequence[Before] = (),
) -> Allowed[Replication] | Broken:
    """The verdict on these logs; times are those of the entries of A, or of each cluster."""
    dated = all_times_ms or {"A": times_ms or {}}
    if len(logs) == 3:
        topic = replace(topic, made=replace_clusters(topic, tuple(logs)))
    read = ClustersRead(
        {
            label: ClusterRead(
                entries=log(label, entries, times_ms=dated.get(label, {})),
                cursors=(cursors[label],) if label in cursors else (),
            )
            for label, entries in logs.items()
        },
        reconnected=reconnected,
        closed=closed,
        consumed=(("sub", "A"),),
        is_quiet=is_quiet,
        at_ms=at_ms,
    )
    state = replace(after(*before, known=known), replication=Replication(topics={"t": topic}))
    found = explain.judge(state, ReadClusters("t"), read)
    return found if isinstance(found, Broken) else found.of(found.state.replication)


def replace_clusters(topic: ReplicatedTopic, clusters: tuple[str, ...]) -> ReplicationSettings:
    return ReplicationSettings(clusters, topic.made.period_ms, topic.made.timeout_ms, topic.made.cached)


def broken(found: Allowed[Replication] | Broken) -> tuple[str, str]:
    assert isinstance(found, Broken)
    return found.rule, found.because


def verdict(found: Allowed[Replication] | Broken) -> tuple[str | None, ...]:
    """The deviations that were met, or else the broken rule and its deviation."""
    return (found.rule, found.deviation) if isinstance(found, Broken) else tuple(sorted({*found.deviations}))


def deviates(
    rule: str,
    deviation: str,
    logs: Mapping[str, Sequence[Told]],
    *,
    topic: ReplicatedTopic,
    cursors: Mapping[str, ClusterCursor] = CURSORS,
    reconnected: tuple[tuple[str, str], ...] = (),
    before: Sequence[Before] = (),
) -> str:
    """Assert that these logs break the rule by the deviation, and none if that is known; return the reason."""
    found = judged(logs, topic=topic, cursors=cursors, reconnected=reconnected, before=before)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == (rule, deviation)
    known = frozenset({deviation})
    allowed = judged(logs, topic=topic, cursors=cursors, reconnected=reconnected, before=before, known=known)
    assert isinstance(allowed, Allowed)
    assert verdict(allowed) == (deviation,)
    return found.because


def with_entry(logs: Mapping[str, list[Told]], cluster: str, index: int, entry: Told | None) -> dict[str, list[Told]]:
    """The same logs with another entry at one place; None: it is left out, and the later ones move up."""
    changed = {label: list(entries) for label, entries in logs.items()}
    changed[cluster][index : index + 1] = [] if entry is None else [entry]
    return changed


def and_then(logs: Mapping[str, list[Told]], cluster: str, *more: Told) -> dict[str, list[Told]]:
    return {label: [*entries, *(more if label == cluster else ())] for label, entries in logs.items()}


def test_correct_logs_exercise_their_rules() -> None:
    found = judged(TWO, is_quiet=True)
    assert isinstance(found, Allowed)
    assert set(found.exercised) >= {
        "REPL-01", "REPL-04", "REPL-05", "REPL-09", "REPL-10", "REPL-12", "REPL-13", "REPL-14"
    }  # fmt: skip
    three = judged(THREE, cursors={}, topic=replace(TOPIC, own={}))
    assert isinstance(three, Allowed)
    assert set(three.exercised) >= {"REPL-06", "REPL-07", "REPL-09"}


def test_a_message_that_was_not_replicated_is_missing_once_all_links_are_drained() -> None:
    rule, because = broken(judged({**TWO, "B": TWO["B"][1:]}, cursors={}))
    assert (rule, because) == ("REPL-01", "B lacks a0 of A, although replication has caught up")


def test_messages_in_another_order_break_the_rule() -> None:
    topic = replace(TOPIC, published={"A": ("a0", "a1")}, own={})
    logs: dict[str, list[Told]] = {"A": [("A", "a0"), ("A", "a1")], "B": [("A", "a1"), ("A", "a0")]}
    assert broken(judged(logs, topic=topic, cursors={}))[0] == "REPL-01"


def test_a_message_may_be_replicated_twice_only_after_a_reconnect() -> None:
    twice = and_then(TWO, "B", ("A", "a0"))
    assert broken(judged(twice)) == ("REPL-01", "B has a0 of A twice")
    assert isinstance(judged(twice, reconnected=(("A", "B"),)), Allowed)


def test_a_topic_without_replication_has_no_markers() -> None:
    rule, _ = broken(judged({"A": TWO["A"], "B": []}, topic=replace(TOPIC, is_replicated=False), cursors={}))
    assert rule == "REPL-18"


LONG_BEFORE = {0: -20_000, 1: -10_000, 2: -9_800, 3: -9_700}
"""The message and the snapshot were stored so long before the next one began that the cluster surely knew."""


def test_a_snapshot_begins_only_after_a_new_message_since_the_last_one() -> None:
    again = and_then(TWO, "A", ("A", SnapshotRequest("s2", "A")))
    rule, _ = broken(judged(again, times_ms=LONG_BEFORE))
    assert rule == "REPL-02"
    new_message = {"A": [*TWO["A"], ("A", "a1"), ("A", SnapshotRequest("s2", "A"))], "B": [*TWO["B"], ("A", "a1")]}
    topic = replace(TOPIC, published={"A": ("a0", "a1")}, acknowledged_at={("sub", "A"): frozenset({"a0", "a1"})})
    found = judged(new_message, topic=topic, times_ms={0: -10_000})
    assert isinstance(found, Allowed)
    assert "REPL-02" in found.exercised


def test_a_new_unreplicated_subscription_may_cause_a_snapshot_without_new_messages() -> None:
    again = and_then(TWO, "A", ("A", SnapshotRequest("s2", "A")))
    joined = replace(TOPIC, unreplicated={"A": 1})
    assert isinstance(judged(again, topic=joined, times_ms=LONG_BEFORE), Allowed)
    once_more = and_then(again, "A", ("A", SnapshotRequest("s3", "A")))
    assert broken(judged(once_more, topic=joined, times_ms=LONG_BEFORE))[0] == "REPL-02"
    elsewhere = replace(TOPIC, unreplicated={"B": 1})
    assert broken(judged(again, topic=elsewhere, times_ms=LONG_BEFORE))[0] == "REPL-02"


def test_no_snapshot_begins_while_a_replicator_is_disconnected() -> None:
    cut = replace(TOPIC, cut={("A", "B"): ((100, 5000),)})
    assert broken(judged(TWO, topic=cut))[0] == "REPL-03"
    unloaded = judged(TWO, topic=cut, before=[reloading("B", "a0")])
    assert verdict(unloaded) == ("REPL-03", None)
    deviates("REPL-03", "request-before-replicator-exists", TWO, topic=cut, before=[reloading("A", "a0")])
    # What was published less than two periods before it was connected again might not have had a snapshot anyway.
    for until_ms, is_exercised in ((5000, True), (700, False)):
        cut = replace(TOPIC, cut={("A", "B"): ((500, until_ms),)})
        before = judged(TWO, topic=cut, times_ms={0: 600, 1: 400, 2: 450, 3: 460, 4: 470})
        assert isinstance(before, Allowed)
        assert ("REPL-03" in before.exercised) == is_exercised


def test_a_link_that_is_not_healed_was_cut_until_the_read_back() -> None:
    cut = replace(TOPIC, cut={("A", "B"): ((100, None),)})
    assert broken(judged(TWO, topic=cut, at_ms=5000))[0] == "REPL-03"
    untold = judged(TWO, topic=cut)
    assert isinstance(untold, Allowed)
    assert "REPL-03" not in untold.exercised


def test_the_end_of_a_cut_that_catching_up_healed_is_unknown() -> None:
    cut = replace(TOPIC, cut={("A", "B"): ((0, 50), (100, None))})
    consumer = ClusterConsumer(cluster="A", topic="t", subscription="sub", passed=None)
    state = Replication(topics={"t": cut}, consumers={"k": consumer})
    caught_up = judge(state, CatchUp("k", prefix="c"), CaughtUp(1.0, ()))
    assert isinstance(caught_up, Allowed)
    assert caught_up.state.topics["t"].cut == {("A", "B"): ((0, 50),)}


@pytest.mark.parametrize("entry", [at("B", 0), at("B", 2), at("B", 7)], ids=["before the request", "its own", "ahead"])
def test_a_response_has_a_position_between_the_request_and_itself(entry: Position) -> None:
    wrong: Told = ("B", SnapshotResponse("s", "B", entry))
    logs = with_entry(with_entry(TWO, "B", 2, wrong), "A", 2, wrong)
    assert broken(judged(logs, cursors={}))[0] == "REPL-04"


def test_a_response_without_a_request_breaks_the_rule() -> None:
    assert broken(judged(with_entry(TWO, "B", 1, None), cursors={}))[0] == "REPL-04"


def test_a_request_gets_one_response() -> None:
    twice = and_then(TWO, "B", ("B", SnapshotResponse("s", "B", at("B", 3))))
    assert broken(judged(twice))[0] == "REPL-05"


def test_the_first_response_of_a_cluster_counts() -> None:
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
    ids=["not-at-a-response", "another-position", "without-a-response"],
)
def test_a_snapshot_consists_of_its_responses(taken: SnapshotTaken) -> None:
    assert broken(judged(with_entry(TWO, "A", 3, ("A", taken)), cursors={}))[0] == "REPL-09"


def test_a_snapshot_among_three_clusters_has_a_second_round() -> None:
    one_round = {
        **THREE,
        "A": [*THREE["A"][:4], ("A", SnapshotTaken("s", at("A", 3), {"B": at("B", 1), "C": at("C", 1)}))],
    }
    assert broken(judged(one_round, cursors={}, topic=replace(TOPIC, own={})))[0] == "REPL-07"


def test_a_snapshot_that_took_longer_than_the_timeout_is_not_completed() -> None:
    assert broken(judged(TWO, times_ms={3: 60_000, 4: 61_000}))[0] == "REPL-08"
    late = with_entry(with_entry(TWO, "A", 3, None), "A", 3, None)
    late["A"].insert(2, ("A", "a1"))
    late["B"] = [*late["B"][:3], ("A", "a1")]
    topic = replace(TOPIC, published={"A": ("a0", "a1")})
    found = judged(late, topic=topic, cursors={}, times_ms={1: 1000, 2: 9000})
    assert isinstance(found, Allowed)
    assert "REPL-08" in found.exercised


def test_an_update_refers_to_a_snapshot_before_mark_delete() -> None:
    behind = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 1))}
    assert broken(judged(TWO, cursors=behind))[0] == "REPL-12"
    assert broken(judged(TWO, cursors=behind, times_ms={4: 800}, at_ms=801))[0] == "REPL-12"
    read_since = judged(TWO, cursors=behind, times_ms={4: 800}, at_ms=800)
    assert isinstance(read_since, Allowed), read_since
    forgot = judged(TWO, cursors=behind, topic=replace(TOPIC, killed=frozenset({"A"})))
    assert isinstance(forgot, Allowed), forgot
    nothing = SubscriptionUpdated("sub", {"B": at("B", 0)})
    assert broken(judged(with_entry(TWO, "A", 4, ("A", nothing))))[0] == "REPL-12"
    early = with_entry(TWO, "A", 4, None)
    early["A"].insert(3, ("A", SubscriptionUpdated("sub", {"B": at("B", 1)})))
    assert broken(judged(early))[0] == "REPL-12"


def test_of_two_snapshots_with_equal_positions_the_update_refers_to_the_complete_one() -> None:
    asked: list[Told] = [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("A", SnapshotRequest("s2", "A"))]
    answers: list[Told] = [("B", SnapshotResponse(name, "B", at("B", 2))) for name in ("s", "s2")]
    update: Told = ("A", SubscriptionUpdated("sub", {"B": at("B", 2)}))
    taken: list[Told] = [
        ("A", SnapshotTaken("s", at("A", 3), {"B": at("B", 2)})),
        ("A", SnapshotTaken("s2", at("A", 6), {"B": at("B", 2)})),
    ]
    logs = {"A": [*asked, answers[0], taken[0], update, answers[1], taken[1]], "B": [*asked, *answers, update]}
    cursors = {
        "A": ClusterCursor(subscription="sub", mark_delete=at("A", 5)),
        "B": ClusterCursor(subscription="sub", mark_delete=at("B", 2)),
    }
    right = judged(logs, cursors=cursors)
    assert isinstance(right, Allowed)
    assert "REPL-12" in right.exercised


def two_snapshots() -> tuple[dict[str, list[Told]], ReplicatedTopic]:
    """The dispatcher had read two snapshots when a message was acknowledged, and the cache keeps one of them."""
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
        acknowledged_at={("sub", "A"): frozenset({"a0", "a1", "a2"})},
        reads={("sub", "A"): (ahead,)},
        is_settled=False,
    )
    return {"A": a, "B": b}, topic


def test_an_update_refers_to_a_snapshot_in_the_cache() -> None:
    logs, topic = two_snapshots()
    because = deviates("REPL-11", "snapshot-cache-keeps-older", logs, topic=topic)
    assert "has a snapshot that 1 later ones had evicted" in because
    right = judged({**logs, "A": logs["A"][:-1]}, topic=topic)
    assert isinstance(right, Allowed)
    assert "REPL-11" in right.exercised


def test_updates_have_no_more_snapshots_than_the_cache_holds() -> None:
    """Both snapshots were read before the first update, and another one follows with the second snapshot."""
    logs, topic = two_snapshots()
    both = {**logs, "A": [*logs["A"], ("A", SubscriptionUpdated("sub", {"B": at("B", 5)}))]}
    known = frozenset({"snapshot-cache-keeps-older"})
    passed = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 8))}
    rule, because = broken(judged(both, topic=topic, cursors=passed, known=known))
    assert rule == "REPL-11"
    assert "have 2 different snapshots that were read before, more than its cache of 1" in because
    room_for_both = replace(topic, made=ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, 2))
    assert isinstance(judged(both, topic=room_for_both, cursors=passed, known=known), Allowed)


def test_the_last_snapshot_before_mark_delete_is_published() -> None:
    logs, topic = two_snapshots()
    both_kept = replace(topic, made=ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, 2))
    passed = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 8))}
    wrong = broken(judged(logs, topic=both_kept, cursors=passed, is_quiet=True))
    assert wrong == (
        "REPL-12",
        "A has sub at 1:8 and had cached the earlier snapshot at 1:6, but its last update is at 1:2",
    )
    known = frozenset({"snapshot-cache-keeps-older"})
    assert isinstance(judged(logs, topic=both_kept, cursors=passed, is_quiet=True, known=known), Broken)
    nothing = {**logs, "A": logs["A"][:-1]}
    assert broken(judged(nothing, topic=both_kept, cursors=passed, is_quiet=True))[1].endswith(
        "its last update is missing"
    )
    last = {**logs, "A": [*logs["A"][:-1], ("A", SubscriptionUpdated("sub", {"B": at("B", 5)}))]}
    right = judged(last, topic=both_kept, cursors=passed, is_quiet=True)
    assert isinstance(right, Allowed)
    assert "REPL-12" in right.exercised


def test_a_full_cache_may_have_evicted_the_last_snapshot_before_mark_delete() -> None:
    logs, topic = two_snapshots()
    passed = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 8))}
    third: list[Told] = [
        ("A", SnapshotRequest("s3", "A")),
        ("B", SnapshotResponse("s3", "B", at("B", 7))),
        ("A", SnapshotTaken("s3", at("A", 10), {"B": at("B", 7)})),
    ]
    a, b = logs["A"], [*logs["B"], ("A", SnapshotRequest("s3", "A")), ("B", SnapshotResponse("s3", "B", at("B", 7)))]
    more: dict[str, list[Told]] = {"A": [*a[:9], *third, a[9]], "B": b}
    of_two, of_three = (
        replace(topic, made=ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, cached)) for cached in (2, 3)
    )
    unknown = judged(more, topic=of_two, cursors=passed, is_quiet=True)
    assert isinstance(unknown, Broken)
    assert (unknown.rule, unknown.deviation) == ("REPL-12", "snapshot-cache-keeps-older")
    known = frozenset({"snapshot-cache-keeps-older"})
    assert isinstance(judged(more, topic=of_two, cursors=passed, is_quiet=True, known=known), Allowed)
    assert broken(judged(more, topic=of_three, cursors=passed, is_quiet=True, known=known))[0] == "REPL-12"
    # The last update is of the second snapshot, and the third one was cached before it: seen on 4.2.4.
    of_second = {**more, "A": [*a[:9], *third, ("A", SubscriptionUpdated("sub", {"B": at("B", 5)}))]}
    later = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 11))}
    ahead = ReadAhead(begun_ms=2600, first=at("A", 0), last=at("A", 12))
    for settings, is_known in ((of_two, True), (of_three, False)):
        settings = replace(settings, reads={("sub", "A"): (ahead,)})
        found = judged(of_second, topic=settings, cursors=later, is_quiet=True)
        assert verdict(found) == ("REPL-12", "snapshot-cache-keeps-older" if is_known else None)


@pytest.mark.parametrize(
    ("is_quiet", "first", "mark_delete"),
    [(False, 0, 8), (True, 8, 8), (True, 0, 5)],
    ids=["more is to come", "it may have been passed before it was cached", "it is not passed"],
)
def test_a_snapshot_that_need_not_be_published_is_not_judged(is_quiet: bool, first: int, mark_delete: int) -> None:
    logs, topic = two_snapshots()
    ahead = ReadAhead(begun_ms=2600, first=at("A", first), last=at("A", 8))
    both_kept = replace(
        topic, made=ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, 2), reads={("sub", "A"): (ahead,)}
    )
    passed = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", mark_delete))}
    assert isinstance(judged(logs, topic=both_kept, cursors=passed, is_quiet=is_quiet), Allowed)


def test_an_update_takes_effect_in_the_other_cluster() -> None:
    left = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", -1))}
    assert broken(judged(TWO, cursors=left))[0] == "REPL-13"
    assert broken(judged(TWO, cursors={"A": CURSORS["A"]}))[0] == "REPL-13"
    unreplicated = {**CURSORS, "B": ClusterCursor(subscription="sub", mark_delete=at("B", 1), is_replicated=False)}
    assert broken(judged(TWO, cursors=unreplicated))[0] == "REPL-13"


def test_a_cluster_with_acks_that_no_consumer_sent_is_ahead() -> None:
    rule, because = broken(judged(TWO, topic=replace(TOPIC, acknowledged_at={})))
    assert rule == "REPL-14"
    assert "has a0 as acknowledged" in because


def test_a_backlog_of_markers_breaks_the_rule() -> None:
    counted = {**CURSORS, "A": ClusterCursor(subscription="sub", mark_delete=at("A", 4), backlog=2)}
    assert broken(judged(TWO, cursors=counted, is_quiet=True))[0] == "REPL-10"
    assert isinstance(judged(TWO, cursors=counted), Allowed), "more markers may have been written meanwhile"
