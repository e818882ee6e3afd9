"""A message close to the size limit must be replicated like any other; that one is not is a deviation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import (
    ClusterCursor,
    ReplicationSettings,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)
from model.deduplication.topic_observer import TopicView
from model.deviations import DEVIATIONS, counted
from model.deviations.replication import TOO_LARGE_TO_REPLICATE
from model.events import Sent, Stored, Unknown
from model.judgement import Allowed, Broken
from model.operations import Send
from model.replication.tracked import REPLICATORS_ADD_BYTES, ClusterProducer, Replication
from model.replication.tracker import judge
from model.vocabulary import Entry, Message, Outcome
from tests.model.replication.test_small_logs import (
    PERIOD_MS,
    TIMEOUT_MS,
    TOPIC,
    Told,
    and_then,
    at,
    deviates,
    judged,
    verdict,
    with_entry,
)

LARGEST_BYTES = 10_240
LARGE = replace(TOPIC, published={"A": ("big", "a1")}, own={}, is_settled=False, nearly_full=frozenset({"big"}))
PASSED_OVER: dict[str, list[Told]] = {"A": [("A", "big"), ("A", "a1")], "B": [("A", "a1")]}

UPDATED: dict[str, list[Told]] = {
    "A": [
        ("A", "big"),
        ("B", "b0"),
        ("B", SnapshotRequest("s", "B")),
        ("A", SnapshotResponse("s", "A", at("A", 2))),
        ("B", SubscriptionUpdated("sub", {"A": at("A", 2)})),
    ],
    "B": [
        ("B", "b0"),
        ("B", SnapshotRequest("s", "B")),
        ("A", SnapshotResponse("s", "A", at("A", 2))),
        ("B", SnapshotTaken("s", at("B", 2), {"A": at("A", 2)})),
        ("B", SubscriptionUpdated("sub", {"A": at("A", 2)})),
    ],
}
"""B does not have big, and its update passes it in A."""
OF_B = replace(
    TOPIC,
    published={"A": ("big",), "B": ("b0",)},
    acknowledged_at={("sub", "B"): frozenset({"b0"})},
    own={("sub", "B"): True},
    nearly_full=frozenset({"big"}),
    is_settled=False,
)
CURSORS_OF_B = {
    "A": ClusterCursor(subscription="sub", mark_delete=at("A", 2)),
    "B": ClusterCursor(subscription="sub", mark_delete=at("B", 4)),
}


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_large_message_that_was_not_replicated_is_a_deviation(is_settled: bool) -> None:
    topic = replace(LARGE, is_settled=is_settled)
    deviates("REPL-01", TOO_LARGE_TO_REPLICATE, PASSED_OVER, topic=topic, cursors={})


def test_the_deviation_explains_a_large_message_that_alone_is_missing() -> None:
    topic = replace(LARGE, published={"A": ("a1", "big")}, is_settled=True)
    logs: dict[str, list[Told]] = {"A": [("A", "a1"), ("A", "big")], "B": [("A", "a1")]}
    found = judged(logs, topic=topic, cursors={})
    assert isinstance(found, Broken)
    assert found.deviation == TOO_LARGE_TO_REPLICATE
    assert found.because.startswith("B lacks big of A, although replication has caught up")


@pytest.mark.parametrize("of_b", [[("A", "a2")], [("A", "a2"), ("A", "a1")]], ids=["passed over", "out of order"])
def test_the_deviation_explains_nothing_if_anything_else_is_wrong(of_b: list[Told]) -> None:
    of_a: list[Told] = [("A", "big"), ("A", "a1"), ("A", "a2")]
    known = frozenset({TOO_LARGE_TO_REPLICATE})
    topic = replace(LARGE, published={"A": ("big", "a1", "a2")})
    found = judged({"A": of_a, "B": of_b}, topic=topic, cursors={}, known=known)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-01", None)


def test_a_missing_message_besides_a_large_one_breaks_the_rule() -> None:
    of_a: list[Told] = [("A", "big"), ("A", "a1"), ("A", "a2")]
    topic = replace(LARGE, published={"A": ("big", "a1", "a2")}, is_settled=True)
    logs: dict[str, list[Told]] = {"A": of_a, "B": [("A", "a1")]}
    found = judged(logs, topic=topic, cursors={}, known=frozenset({TOO_LARGE_TO_REPLICATE}))
    assert isinstance(found, Broken)
    assert found.because == "B lacks a2 of A, although replication has caught up"


def test_the_source_cluster_may_then_have_an_ack_for_an_undelivered_large_message() -> None:
    """An update from a cluster that never stored it says that everything is acknowledged."""
    unexplained = judged(UPDATED, topic=replace(OF_B, nearly_full=frozenset()), cursors=CURSORS_OF_B)
    assert verdict(unexplained) == ("REPL-14", None)
    deviates("REPL-01", TOO_LARGE_TO_REPLICATE, UPDATED, topic=OF_B, cursors=CURSORS_OF_B)
    there = with_entry(UPDATED, "B", 0, ("A", "big"))
    assert verdict(judged(there, topic=OF_B, cursors=CURSORS_OF_B)) == ("REPL-14", None)


@pytest.mark.parametrize(
    ("of_a", "of_b", "at_a", "expected"),
    [
        ((), (), 2, (TOO_LARGE_TO_REPLICATE,)),
        (("big2",), (), 5, ("REPL-14", None)),
        (("small", "a2"), ("a2",), 2, ("REPL-01", None)),
    ],
    ids=["nothing else", "an ack after the update", "a smaller message that is missing"],
)
def test_a_large_message_excuses_no_other_missing_message_and_no_other_ack(
    of_a: tuple[str, ...], of_b: tuple[str, ...], at_a: int, expected: tuple[str | None, ...]
) -> None:
    logs = and_then(UPDATED, "A", *(("A", message) for message in of_a))
    logs = and_then(logs, "B", *(("A", message) for message in of_b))
    cursors = {**CURSORS_OF_B, "A": ClusterCursor(subscription="sub", mark_delete=at("A", at_a))}
    topic = replace(
        OF_B,
        published={"A": ("big", *of_a), "B": ("b0",)},
        nearly_full=frozenset({"big", "big2"}),
        own={("sub", "A"): False, **OF_B.own},  # no update created the subscription
    )
    found = judged(logs, topic=topic, cursors=cursors, known=frozenset(DEVIATIONS))
    assert verdict(found) == expected


def test_the_check_that_the_deviation_explains_is_excused_whichever_rule_it_is_of() -> None:
    """The deviation is one of REPL-01. An ack for a message that was not delivered is judged by REPL-14."""
    found = judged(UPDATED, topic=OF_B, cursors=CURSORS_OF_B, known=frozenset({TOO_LARGE_TO_REPLICATE}))
    assert isinstance(found, Allowed)
    told = counted(found)
    assert told.excused.count("REPL-14") == 1
    assert "REPL-14" not in told.exercised
    assert told.exercised.count("REPL-01") == 1


@pytest.mark.parametrize("outcome", [Sent((Stored(at("A", 0)),)), Unknown("cut")])
@pytest.mark.parametrize(
    ("size_bytes", "largest_bytes", "is_it"),
    [
        (LARGEST_BYTES - REPLICATORS_ADD_BYTES, LARGEST_BYTES, False),
        (LARGEST_BYTES - REPLICATORS_ADD_BYTES + 1, LARGEST_BYTES, True),
        (LARGEST_BYTES, 0, False),
    ],
    ids=["there is room", "there may be none", "how large it may be is not known"],
)
def test_a_message_is_large_if_it_leaves_no_room_for_the_replicators_metadata(
    outcome: Outcome, size_bytes: int, largest_bytes: int, is_it: bool
) -> None:
    made = ReplicationSettings(("A", "B"), PERIOD_MS, TIMEOUT_MS, 1, largest_bytes)
    state = Replication(
        topics={"t": replace(TOPIC, made=made)},
        producers={"p": ClusterProducer("t", "A", "p")},
        views={("t", "A"): TopicView(False, 0)},
    )
    sent = Send("p", (Entry((Message(1, "a1", size_bytes=size_bytes),)),))
    found = judge(state, sent, outcome, frozenset())
    assert isinstance(found, Allowed)
    assert found.state.topics["t"].nearly_full == (frozenset({"a1"}) if is_it else frozenset())
