"""Among three clusters the local position of a snapshot is the last response, whichever was handled last."""

from __future__ import annotations

import pytest

from model.cluster_events import ClusterCursor
from model.deviations import DEVIATIONS
from model.deviations.replication import SNAPSHOT_NOT_AT_HIGHEST_RESPONSE
from model.judgement import Allowed, Broken
from tests.model.replication.test_rounds import NOBODY, OF_C, of_c, taken, updated_with
from tests.model.replication.test_small_logs import THREE, at, judged, verdict, with_entry

KNOWN = frozenset(DEVIATIONS)
OVERTAKEN = with_entry(THREE, "A", 7, ("A", taken(local=5)))
"""B's second response, entry 5 of A, was handled after C's, entry 6."""


def test_a_snapshot_before_the_last_response_is_a_deviation() -> None:
    found = judged(OVERTAKEN, cursors={}, topic=NOBODY)
    assert isinstance(found, Broken)
    assert (found.rule, found.deviation) == ("REPL-09", SNAPSHOT_NOT_AT_HIGHEST_RESPONSE)
    assert found.because.startswith("snapshot s of A has local position 1:5, before a response")


def test_a_snapshot_at_a_response_of_the_first_round_is_no_known_deviation() -> None:
    for local, expected in ((5, (SNAPSHOT_NOT_AT_HIGHEST_RESPONSE,)), (3, ("REPL-09", None))):
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
    assert verdict(found) == (("REPL-09", SNAPSHOT_NOT_AT_HIGHEST_RESPONSE) if is_excused else ("REPL-14", None))
    known = judged(logs, cursors=cursors, topic=OF_C, known=KNOWN)
    assert verdict(known) == ((SNAPSHOT_NOT_AT_HIGHEST_RESPONSE,) if is_excused else ("REPL-14", None))
