"""Among three clusters the local position of a snapshot is the last response, whichever was handled last."""

from __future__ import annotations

from model.cluster_events import ClusterCursor
from model.deviations.replication import SNAPSHOT_NOT_AT_HIGHEST_RESPONSE
from model.judgement import Allowed, Broken
from tests.model.replication.test_rounds import NOBODY, OF_C, of_c, taken, updated_with
from tests.model.replication.test_small_logs import THREE, at, judged, with_entry

OVERTAKEN = with_entry(THREE, "A", 7, ("A", taken(local=5)))
"""B's second response, entry 5 of A, was handled after C's, entry 6."""


def test_a_snapshot_before_the_last_response_is_a_deviation() -> None:
    found = judged(OVERTAKEN, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-09", SNAPSHOT_NOT_AT_HIGHEST_RESPONSE)
    assert found.because.startswith("snapshot s of A has local position 1:5, before a response")


def test_a_snapshot_at_a_response_of_the_first_round_is_a_deviation() -> None:
    early = with_entry(THREE, "A", 7, ("A", taken(local=3)))
    found = judged(early, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert found.rule == "REPL-09"


def test_a_snapshot_at_the_last_response_is_right() -> None:
    found = judged(THREE, cursors={}, topic=NOBODY)
    assert isinstance(found, Allowed)
    assert "REPL-09" in found.exercised


def test_a_cluster_that_is_ahead_by_such_a_snapshot_is_explained_by_the_deviation() -> None:
    cursors = {"B": ClusterCursor(subscription="sub", mark_delete=at("B", 1))}
    found = judged(updated_with(of_c(OVERTAKEN)), cursors=cursors, topic=OF_C)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-09", SNAPSHOT_NOT_AT_HIGHEST_RESPONSE)
    assert "B has c0 as acknowledged for sub" in found.because
