"""A consumer that lags is followed (REPL-19), and restricted messages stay where they may be (REPL-20)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter

import pytest

from model import explain
from model.cluster_events import (
    CaughtUp,
    ClusterRead,
    ClustersRead,
    Lagging,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
)
from model.cluster_operations import CatchUp
from model.deduplication.topic_observer import TopicView
from model.events import Sent, Stored
from model.example import Example
from model.judgement import Allowed, Broken
from model.operations import Send
from model.replication.tracked import ClusterConsumer, ClusterProducer, Replication
from model.replication.tracker import judge
from model.vocabulary import Entry, Message
from tests.model.replication.test_small_logs import (
    PERIOD_MS,
    TIMEOUT_MS,
    TOPIC,
    TWO,
    Told,
    at,
    broken,
    judged,
    log,
)

CACHED = TOPIC.made.cached
LAGGED = CaughtUp(3.0, ("c0",), Lagging("B", at("B", 0), 150.0))


def caught_up(outcome: CaughtUp, *, lag: int, known: str = "") -> Allowed[Replication] | Broken:
    consumer = ClusterConsumer(cluster="A", topic="t", subscription="sub")
    state = Replication(topics={"t": TOPIC}, consumers={"k": consumer})
    example = Example(known=frozenset(known.split()), replication=state)
    found = explain.judge(example, CatchUp("k", prefix="c", lag=lag), outcome)
    return found if isinstance(found, Broken) else found.of(found.state.replication)


def test_a_cluster_that_follows_a_lagging_consumer_keeps_the_rule() -> None:
    for lag, is_exercised in ((0, False), (1, True)):
        verdict = caught_up(CaughtUp(3.0, ("c0",)), lag=lag)
        assert isinstance(verdict, Allowed)
        assert ("REPL-19" in verdict.exercised) == is_exercised


@pytest.mark.parametrize("known", ["", "snapshot-cache-outrun"])
def test_a_consumer_that_lags_by_fewer_snapshots_than_are_cached_is_followed(known: str) -> None:
    verdict = caught_up(LAGGED, lag=CACHED - 1, known=known)
    assert isinstance(verdict, Broken)
    assert (verdict.rule, verdict.deviation) == ("REPL-19", None)


def test_a_consumer_that_lags_by_more_snapshots_has_a_name() -> None:
    unknown = caught_up(LAGGED, lag=CACHED)
    assert isinstance(unknown, Broken)
    assert (unknown.rule, unknown.deviation) == ("REPL-19", "snapshot-cache-outrun")
    known = caught_up(LAGGED, lag=CACHED, known="snapshot-cache-outrun")
    assert isinstance(known, Allowed)
    assert known.deviations == ("snapshot-cache-outrun",)
    assert "REPL-19" not in known.exercised


def restricted(clusters: Mapping[str, frozenset[str]]) -> Allowed[Replication] | Broken:
    return judged(TWO, topic=replace(TOPIC, restricted=clusters, is_settled=True))


def test_a_message_stays_where_it_may_be() -> None:
    assert isinstance(restricted({"a0": frozenset("AB")}), Allowed)
    assert broken(restricted({"a0": frozenset("A")}))[0] == "REPL-20"


def test_a_message_is_at_every_cluster_where_it_may_be() -> None:
    logs = {"A": [*TWO["A"], ("A", "r0")], "B": TWO["B"]}
    published = {"A": ("a0", "r0")}
    for clusters, is_broken in (("A", False), ("AB", True)):
        topic = replace(TOPIC, published=published, restricted={"r0": frozenset(clusters)}, is_settled=True)
        verdict = judged(logs, topic=topic, cursors={})
        assert isinstance(verdict, Broken) == is_broken, verdict
        added = replace(topic, changed={("A", "B"): frozenset({"r0"})})
        assert isinstance(judged(logs, topic=added, cursors={}), Allowed), "A did not replicate to B yet"


def test_a_send_says_where_its_messages_may_be() -> None:
    views = {("t", "A"): TopicView(enabled=False, snapshot_room=6)}
    state = Replication(topics={"t": TOPIC}, producers={"p": ClusterProducer("t", "A", "p")}, views=views)
    messages = (Message(1, "m1"), Message(2, "m2", only_to=("B",)), Message(3, "m3", only_to=()))
    sent = Sent(tuple(Stored(at("A", 5 + number)) for number in range(len(messages))))
    after = judge(state, Send("p", tuple(Entry((message,)) for message in messages)), sent)
    assert isinstance(after, Allowed)
    assert after.state.topics["t"].restricted == {"m2": frozenset("AB"), "m3": frozenset("A")}


def left_behind(
    *took_ms: int, is_answered: bool = True, recovers: bool = False, second_took_ms: int | None = None
) -> Allowed[Replication] | Broken:
    """A catch-up in which no cluster followed. Each snapshot of A was answered after so long, and none completed.

    ``recovers``: the last one was complete. ``second_took_ms``: there are three clusters, and the second round took so
    long.
    """
    others = "B" if second_took_ms is None else "BC"
    rounds = [0] if second_took_ms is None else [0, second_took_ms]
    told: list[tuple[int, Told]] = []
    for number, took in enumerate(took_ms):
        asked_ms, name = number * PERIOD_MS, f"s{number}"
        for round_number, more_ms in enumerate(rounds):
            answered_ms = asked_ms + (more_ms or took)
            told.append((asked_ms, ("A", SnapshotRequest(name, "A"))))
            if is_answered:
                told.append((answered_ms, ("A", f"c{number}-{round_number}")))  # an entry of A, which is as late
                told += [(answered_ms + 1, (one, SnapshotResponse(name, one, at(one, 0)))) for one in others]
            asked_ms = answered_ms + 2
    if recovers:
        at_last = itertools.count(1 + max(when for when, _ in told))
        told.append((next(at_last), ("A", SnapshotRequest("last", "A"))))
        told.append((next(at_last), ("B", SnapshotResponse("last", "B", at("B", 0)))))
        told.append((next(at_last), ("A", SnapshotTaken("last", at("A", len(told) - 1), {"B": at("B", 0)}))))
    told.sort(key=itemgetter(0))
    times = {number: time_ms for number, (time_ms, _) in enumerate(told)}
    here = ClusterRead(entries=log("A", [one for _, one in told], times_ms=times), cursors=())
    read = ClustersRead({"A": here, **dict.fromkeys(others, ClusterRead(entries=(), cursors=()))})
    state = Replication(
        topics={"t": TOPIC}, consumers={"k": ClusterConsumer(cluster="A", topic="t", subscription="sub")}
    )
    return judge(state, CatchUp("k", prefix="c"), Lagging("B", at("B", 0), 150.0, read))


def test_nothing_can_follow_while_replication_is_too_slow_for_a_snapshot() -> None:
    slow, fast = TIMEOUT_MS + 1, TIMEOUT_MS // 2
    excused = left_behind(fast, *[slow] * 5)
    assert isinstance(excused, Allowed)
    assert excused.excused == ("REPL-13", "REPL-19")
    assert {"c0-0", "c5-0"} <= excused.state.topics["t"].all_published, "they are in the log, so they were published"
    assert isinstance(left_behind(*[slow] * 15, fast), Allowed), "replication recovers at the end"
    assert isinstance(left_behind(*[slow] * 5, recovers=True), Allowed)
    assert isinstance(left_behind(*[fast // 2] * 5, second_took_ms=slow), Allowed), "the second round is slow"
    for judged_after in (
        left_behind(*[slow] * 5, fast),
        left_behind(slow, slow),
        left_behind(*[fast // 2] * 5, second_took_ms=fast // 2),
        left_behind(*[TIMEOUT_MS - 500] * 5, second_took_ms=100),
        left_behind(*[slow] * 6, is_answered=False),
    ):
        assert broken(judged_after)[0] == "REPL-13"
