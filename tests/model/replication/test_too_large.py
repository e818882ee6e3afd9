"""A message close to the size limit must be replicated like any other; that one is not is a deviation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from model.cluster_events import (
    ClusterCursor,
    LinkCut,
    LinkHealed,
    ReplicatorStalled,
    SnapshotRequest,
    SnapshotResponse,
    SnapshotTaken,
    SubscriptionUpdated,
)
from model.cluster_operations import AWAY, HOME, CutLink, HealLink
from model.deviations import DEVIATIONS
from model.deviations.clusters import nearly_too_large
from model.events import AnyOutcome, Created, Done, LoggedEntry, LogRead, Opened, Sent, Stored, Unknown
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import OpenProducer, ReadLog, Send, Unload
from model.payloads import LIMIT_BYTES
from model.replication.tracked import REPLICATORS_ADD_BYTES
from model.vocabulary import ChunkNumber, Entry, Message
from tests import notation, verdicts
from tests.model.replication.before import LARGEST_BYTES, after, sending
from tests.model.replication.test_small_logs import (
    TOPIC,
    Told,
    and_then,
    at,
    deviates,
    judged,
    verdict,
    with_entry,
)

LARGE = replace(TOPIC, published={"A": ("big", "a1")}, own={}, is_settled=False)
BEFORE = [sending("big")]
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
    is_settled=False,
)
CURSORS_OF_B = {
    "A": ClusterCursor(subscription="sub", mark_delete=at("A", 2)),
    "B": ClusterCursor(subscription="sub", mark_delete=at("B", 4)),
}


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_large_message_that_was_not_replicated_is_a_deviation(is_settled: bool) -> None:
    topic = replace(LARGE, is_settled=is_settled)
    deviates("REPL-01", "too-large-to-replicate", PASSED_OVER, topic=topic, cursors={}, before=BEFORE)


def test_the_deviation_explains_a_large_message_that_alone_is_missing() -> None:
    topic = replace(LARGE, published={"A": ("a1", "big")}, is_settled=True)
    logs: dict[str, list[Told]] = {"A": [("A", "a1"), ("A", "big")], "B": [("A", "a1")]}
    found = judged(logs, topic=topic, cursors={}, before=BEFORE)
    assert isinstance(found, Broken)
    assert found.deviation == "too-large-to-replicate"
    assert found.because.startswith("B lacks big of A, although replication has caught up")


@pytest.mark.parametrize("of_b", [[("A", "a2")], [("A", "a2"), ("A", "a1")]], ids=["passed over", "out of order"])
def test_the_deviation_explains_nothing_if_anything_else_is_wrong(of_b: list[Told]) -> None:
    of_a: list[Told] = [("A", "big"), ("A", "a1"), ("A", "a2")]
    known = frozenset({"too-large-to-replicate"})
    topic = replace(LARGE, published={"A": ("big", "a1", "a2")})
    found = judged({"A": of_a, "B": of_b}, topic=topic, cursors={}, known=known, before=BEFORE)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-01", None)


def test_a_missing_message_besides_a_large_one_breaks_the_rule() -> None:
    of_a: list[Told] = [("A", "big"), ("A", "a1"), ("A", "a2")]
    topic = replace(LARGE, published={"A": ("big", "a1", "a2")}, is_settled=True)
    logs: dict[str, list[Told]] = {"A": of_a, "B": [("A", "a1")]}
    found = judged(logs, topic=topic, cursors={}, known=frozenset({"too-large-to-replicate"}), before=BEFORE)
    assert isinstance(found, Broken)
    assert found.because == "B lacks a2 of A, although replication has caught up"


def test_the_source_cluster_may_then_have_an_ack_for_an_undelivered_large_message() -> None:
    """An update from a cluster that never stored it says that everything is acknowledged."""
    assert verdict(judged(UPDATED, topic=OF_B, cursors=CURSORS_OF_B)) == ("REPL-14", None)
    deviates("REPL-01", "too-large-to-replicate", UPDATED, topic=OF_B, cursors=CURSORS_OF_B, before=BEFORE)
    there = with_entry(UPDATED, "B", 0, ("A", "big"))
    assert verdict(judged(there, topic=OF_B, cursors=CURSORS_OF_B, before=BEFORE)) == ("REPL-14", None)
    read_before, of_a = {**UPDATED, "B": UPDATED["B"][:-1]}, {"A": CURSORS_OF_B["A"]}
    deviates("REPL-01", "too-large-to-replicate", read_before, topic=OF_B, cursors=of_a, before=BEFORE)


@pytest.mark.parametrize(
    ("of_a", "of_b", "at_a", "expected"),
    [
        ((), (), 2, ("too-large-to-replicate",)),
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
        own={("sub", "A"): False, **OF_B.own},  # no update created the subscription
    )
    before = [sending("big", "big2")]
    found = judged(logs, topic=topic, cursors=cursors, known=frozenset(DEVIATIONS), before=before)
    assert verdict(found) == expected


def test_the_check_that_the_deviation_explains_is_excused_whichever_rule_it_is_of() -> None:
    """The deviation is one of REPL-01. An ack for a message that was not delivered is judged by REPL-14."""
    known = frozenset({"too-large-to-replicate"})
    found = judged(UPDATED, topic=OF_B, cursors=CURSORS_OF_B, known=known, before=BEFORE)
    assert isinstance(found, Allowed)
    assert found.excused.count("REPL-14") == 1
    assert "REPL-14" not in found.exercised
    assert found.exercised.count("REPL-01") == 1


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
    outcome: AnyOutcome, size_bytes: int, largest_bytes: int, is_it: bool
) -> None:
    topic, operation, _ = sending("a1", size_bytes=size_bytes)
    made = structs.replace(topic.made, largest_bytes=largest_bytes)
    state = after((replace(topic, made=made), operation, outcome))
    assert nearly_too_large(state, "t") == (frozenset({"a1"}) if is_it else frozenset())


CHUNKS = tuple(Entry((Message(1, f"w.{n}", chunk=ChunkNumber(n, 3, "w-1")),)) for n in range(3))


def _splits(limit_bytes: int) -> tuple[verdicts.Happened, ...]:
    """At home, pulsar-client splits a message, of a topic with this maximum size of an entry."""
    create, created, *_ = notation.steps("t off at-home")[0]
    assert isinstance(created, Created)
    return (
        (create, structs.replace(created, limit_bytes=limit_bytes)),
        (OpenProducer("w", "t", "w", client="official", is_chunking=True), Opened(-1)),
        (Send("w", CHUNKS), Sent(tuple(Stored(Position(1, n)) for n in range(3)))),
    )


CUT: verdicts.Happened = (CutLink(HOME, AWAY), LinkCut(0))
STUCK = ReadLog("t", cluster=AWAY), ReplicatorStalled(HOME, AWAY, 30.0, ("w.0", "w.1", "w.2"))


@pytest.mark.parametrize(
    ("between", "stalled", "is_known"),
    [
        ([CUT], STUCK, True),
        ([CUT, (HealLink(HOME, AWAY), LinkHealed(0))], STUCK, True),
        ([CUT, (Unload("t"), Done())], STUCK, True),
        ([], STUCK, False),
        ([CUT, (HealLink(HOME, AWAY), LinkHealed(0)), (Unload("t"), Done())], STUCK, False),
        ([(CutLink(AWAY, HOME), LinkCut(0))], STUCK, False),
        ([CUT], (STUCK[0], ReplicatorStalled(HOME, AWAY, 30.0, ("w.2",))), False),
        ([CUT], (STUCK[0], ReplicatorStalled(AWAY, HOME, 30.0, ("w.0",))), False),
    ],
    ids=["cut", "healed", "reloaded while cut", "not cut", "reloaded", "the other link", "last chunk", "to home"],
)
def test_a_replicator_is_stuck_by_a_deviation_on_a_full_chunk_and_after_a_cut_only(
    between: list[verdicts.Happened], stalled: verdicts.Happened, *, is_known: bool
) -> None:
    broken = verdicts.broken_by(*_splits(LIMIT_BYTES), *between, stalled)
    assert (broken.rule, broken.deviation) == ("REPL-01", "replicator-stuck-on-too-large-message" if is_known else None)


@pytest.mark.parametrize(("limit_bytes", "is_lost"), [(LIMIT_BYTES, True), (5 * LIMIT_BYTES, False)])
def test_chunks_that_leave_no_room_for_what_a_replicator_adds_are_lost_by_a_deviation(
    limit_bytes: int, is_lost: bool
) -> None:
    history = _splits(limit_bytes)

    def there(*numbers: int) -> verdicts.Happened:
        entries = (LoggedEntry(Position(9, place), "w", CHUNKS[number]) for place, number in enumerate(numbers))
        return ReadLog("t", cluster=AWAY), LogRead(tuple(entries))

    for numbers in [(2,), (1, 2)]:
        broken = verdicts.broken_by(*history, there(*numbers))
        assert (broken.rule, broken.deviation) == ("REPL-01", "too-large-to-replicate" if is_lost else None)
    for others in ((0, 1), (2, 1), tuple[int, ...]()):
        assert verdicts.broken_by(*history, there(*others), known="too-large-to-replicate").deviation is None
