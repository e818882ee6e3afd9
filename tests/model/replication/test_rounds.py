"""A snapshot among three clusters takes two rounds, and has the position of the last response."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import ClusterCursor, SnapshotRequest, SnapshotResponse, SnapshotTaken, SubscriptionUpdated
from model.deviations import DEVIATIONS
from model.judgement import Allowed, Broken
from tests.model.replication.test_small_logs import THREE, TOPIC, Told, at, judged, verdict, with_entry

KNOWN = frozenset(DEVIATIONS)
NOBODY = replace(TOPIC, own={})
AGAIN: Told = ("C", SnapshotResponse("s", "C", at("C", 1)))
REPEATED = with_entry(THREE, "A", 6, AGAIN)
"""C's first response is repeated after the second request, and completes the snapshot without a second one."""


def taken(*, local: int) -> SnapshotTaken:
    return SnapshotTaken("s", at("A", local), {"B": at("B", 1), "C": at("C", 1)})


def updated_with(logs: dict[str, list[Told]]) -> dict[str, list[Told]]:
    """Mark-delete of a subscription at A passes the snapshot, and B acknowledges the messages before its position."""
    told: Told = ("A", SubscriptionUpdated("sub", {"B": at("B", 1), "C": at("C", 1)}))
    return {label: [*entries, told] for label, entries in logs.items()}


OF_C = replace(TOPIC, acknowledged_at={}, is_settled=False, published={"A": ("a0",), "C": ("c0",)})


def of_c(logs: dict[str, list[Told]]) -> dict[str, list[Told]]:
    """The same logs where B and C have a message of C instead of that of A, which A does not have yet."""
    return {label: entries if label == "A" else [("C", "c0"), *entries[1:]] for label, entries in logs.items()}


def test_a_repeated_response_of_the_first_round_is_no_second_response() -> None:
    found = judged(REPEATED, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-07", "first-round-response-counts-twice")
    assert found.because.startswith("A completed snapshot s without a second response from C")


def test_a_response_repeated_before_the_second_request_may_be_handled_after_it() -> None:
    """A replicator that was closed sends it again when it opens; seen on 3.3.6."""
    before, behind = THREE["A"][:4], THREE["A"][4:6]
    logs = {**THREE, "A": [*before, AGAIN, *behind, ("A", taken(local=6))]}
    found = judged(logs, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-07", "first-round-response-counts-twice")


REQUEST: Told = ("A", SnapshotRequest("s", "A"))
FIRST_AGAIN: Told = ("C", SnapshotResponse("s", "C", at("C", 3)))
SENT_AGAIN = [*THREE["C"][:3], REQUEST, FIRST_AGAIN, REQUEST, ("C", SnapshotResponse("s", "C", at("C", 5)))]
"""C's log, to which A sends the first request twice, with the same publish time."""
TIMES_MS = {"C": {3: 300}}


def test_a_request_that_is_sent_again_is_answered_twice_in_the_first_round() -> None:
    """Seen on 4.2.4: both responses are stored before the second request, and the second one is handled after it."""
    before, behind = THREE["A"][:4], THREE["A"][4:6]
    for times in (1, 2):
        of_a = [*before, *[FIRST_AGAIN] * (times - 1), *behind, ("A", taken(local=4 + times))]
        found = judged({**THREE, "A": of_a, "C": SENT_AGAIN}, cursors={}, topic=NOBODY, all_times_ms=TIMES_MS)
        assert isinstance(found, Broken)
        assert (found.rule, found.deviation) == ("REPL-07", "first-round-response-counts-twice" if times == 2 else None)


def test_a_later_response_to_the_first_request_is_none_to_the_second_wherever_it_arrives() -> None:
    """C answers the first request twice, and A stores the second of these responses after its own second request."""
    logs = {**THREE, "A": [*THREE["A"][:6], FIRST_AGAIN, ("A", taken(local=6))], "C": SENT_AGAIN}
    found = judged(logs, cursors={}, topic=NOBODY, all_times_ms=TIMES_MS)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-07", "first-round-response-counts-twice")
    assert found.because.startswith("A completed snapshot s without a second response from C")
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))}
    ahead = judged(updated_with(of_c(logs)), cursors=cursors, topic=OF_C, all_times_ms=TIMES_MS)
    assert isinstance(ahead, Broken)
    assert "B has c0 as acknowledged for sub" in ahead.because
    assert ahead.deviation == "first-round-response-counts-twice"


def test_a_snapshot_that_was_complete_before_the_second_response_covers_too_much() -> None:
    """C's second response is stored while its repeated first one is handled, which completes the snapshot."""
    logs = {**THREE, "A": [*REPEATED["A"][:7], THREE["A"][6], REPEATED["A"][-1]]}
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))}
    ahead = judged(updated_with(of_c(logs)), cursors=cursors, topic=OF_C)
    assert isinstance(ahead, Broken)
    assert "B has c0 as acknowledged for sub" in ahead.because
    assert ahead.deviation == "first-round-response-counts-twice"
    allowed = judged(updated_with(of_c(logs)), cursors=cursors, topic=OF_C, known=KNOWN)
    assert verdict(allowed) == ("first-round-response-counts-twice",)


def test_a_log_that_was_read_too_early_does_not_tell_the_round_of_a_later_response() -> None:
    """C's log was read before A's second request arrived there; its position tells that the response is another."""
    found = judged({**THREE, "C": THREE["C"][:3]}, cursors={}, topic=NOBODY)
    assert isinstance(found, Allowed)
    assert "REPL-07" in found.exercised


def test_a_repeated_response_is_harmless_if_the_second_one_arrives_too() -> None:
    logs = {**THREE, "A": [*THREE["A"][:6], AGAIN, THREE["A"][6], ("A", taken(local=7))]}
    found = judged(logs, cursors={}, topic=NOBODY)
    assert isinstance(found, Allowed)
    assert "REPL-07" in found.exercised


def test_a_missing_response_is_no_known_deviation() -> None:
    logs = {**THREE, "A": [*THREE["A"][:6], ("A", taken(local=5))]}
    found = judged(logs, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-07", None)


@pytest.mark.parametrize("logs", [REPEATED, THREE], ids=["half a round", "two rounds"])
def test_a_cluster_that_is_ahead_by_such_a_snapshot_is_explained_by_the_deviation(logs: dict[str, list[Told]]) -> None:
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))}
    found = judged(updated_with(of_c(logs)), cursors=cursors, topic=OF_C)
    assert isinstance(found, Broken)
    assert "B has c0 as acknowledged for sub" in found.because
    assert found.deviation == ("first-round-response-counts-twice" if logs is REPEATED else None)
    known = frozenset({"first-round-response-counts-twice"})
    allowed = judged(updated_with(of_c(logs)), cursors=cursors, topic=OF_C, known=known)
    assert isinstance(allowed, Allowed) == (logs is REPEATED)


def test_a_misled_snapshot_excuses_only_what_it_covers_too_early() -> None:
    """A has a0 before its snapshot, so an update with that snapshot comes after an ack of a0."""
    topic = replace(TOPIC, acknowledged_at={}, is_settled=False)
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))}
    known = frozenset({"first-round-response-counts-twice"})
    found = judged(updated_with(REPEATED), cursors=cursors, topic=topic, known=known)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-14", None)


OVERTAKEN = with_entry(THREE, "A", 7, ("A", taken(local=5)))
"""B's second response, entry 5 of A, was handled after C's, entry 6."""


def test_a_snapshot_before_the_last_response_is_a_deviation() -> None:
    found = judged(OVERTAKEN, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-09", "snapshot-not-at-highest-response")
    assert found.because.startswith("snapshot s of A has local position 1:5, before a response")


def test_a_snapshot_at_a_response_of_the_first_round_is_no_known_deviation() -> None:
    for local, expected in ((5, ("snapshot-not-at-highest-response",)), (3, ("REPL-09", None))):
        logs = with_entry(THREE, "A", 7, ("A", taken(local=local)))
        assert verdict(judged(logs, cursors={}, topic=NOBODY, known=KNOWN)) == expected


def test_a_snapshot_at_the_last_response_is_right() -> None:
    found = judged(THREE, cursors={}, topic=NOBODY)
    assert isinstance(found, Allowed)
    assert "REPL-09" in found.exercised


@pytest.mark.parametrize(("index", "is_excused"), [(6, True), (8, False), (None, False)])
def test_such_a_snapshot_excuses_only_messages_between_two_responses(index: int | None, is_excused: bool) -> None:
    """A has c0 at this index: between both responses of the second round, after them, or nowhere."""
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))}
    logs = updated_with(of_c(OVERTAKEN))
    if index is not None:
        logs["A"].insert(index, ("C", "c0"))
    found = judged(logs, cursors=cursors, topic=OF_C)
    assert isinstance(found, Broken)
    assert "B has c0 as acknowledged for sub" in found.because
    assert verdict(found) == (("REPL-14", "snapshot-not-at-highest-response") if is_excused else ("REPL-14", None))
    known = judged(logs, cursors=cursors, topic=OF_C, known=KNOWN)
    assert verdict(known) == (("snapshot-not-at-highest-response",) if is_excused else ("REPL-14", None))
