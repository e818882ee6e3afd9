"""A cluster whose replicator was closed answers requests; one that reads none is a deviation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.cluster_events import SnapshotRequest, SnapshotResponse
from model.deviations import DEVIATIONS
from model.deviations.replication import CLOSED_REPLICATOR_READS_NO_REQUEST
from model.judgement import Allowed
from model.replication.tracked import ReplicatedTopic
from tests.model.replication.test_small_logs import TIMEOUT_MS, TOPIC, TWO, Told, at, judged, verdict

ASLEEP: dict[str, list[Told]] = {
    "A": [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("A", SnapshotRequest("s2", "A"))],
    "B": [("A", "a0"), ("A", SnapshotRequest("s", "A")), ("A", SnapshotRequest("s2", "A"))],
}
"""B receives two requests and responds to neither."""
IDLE = replace(TOPIC, is_settled=False, closed={"B": -100})


def times_of_both(second_ms: int) -> dict[str, dict[int, int]]:
    return {label: {1: 300, 2: second_ms} for label in "AB"}


def test_a_cluster_whose_replicator_is_closed_responds_all_the_same() -> None:
    found = judged(TWO, topic=IDLE, closed=())
    assert isinstance(found, Allowed)
    assert "REPL-17" in found.exercised


def test_a_closed_replicator_that_reads_no_request_before_the_timeout_is_a_deviation() -> None:
    found = judged(ASLEEP, topic=IDLE, cursors={}, closed=(("B", "A"),), all_times_ms=times_of_both(300 + TIMEOUT_MS))
    assert verdict(found) == ("REPL-17", CLOSED_REPLICATOR_READS_NO_REQUEST)
    assert found.because.startswith("B did not respond to the request of A at 2:1 before A gave up")


@pytest.mark.parametrize(
    ("topic", "closed", "second_ms"),
    [
        (IDLE, (("B", "A"),), 299 + TIMEOUT_MS),
        (IDLE, (), 300 + TIMEOUT_MS),
        (replace(IDLE, closed={}), (("B", "A"),), 300 + TIMEOUT_MS),
        (replace(IDLE, closed={"B": 300 + TIMEOUT_MS}), (("B", "A"),), 300 + TIMEOUT_MS),
    ],
    ids=["it is waited for still", "it was opened", "it was never closed", "it was asked before"],
)
def test_a_response_that_may_still_arrive_is_not_judged(
    topic: ReplicatedTopic, closed: tuple[tuple[str, str], ...], second_ms: int
) -> None:
    found = judged(ASLEEP, topic=topic, cursors={}, closed=closed, all_times_ms=times_of_both(second_ms))
    assert isinstance(found, Allowed)
    assert "REPL-17" not in found.exercised


def test_a_closed_replicator_that_reads_a_later_request_has_no_excuse_for_an_earlier_one() -> None:
    answer: Told = ("B", SnapshotResponse("s2", "B", at("B", 2)))
    answered = {label: [*entries, answer] for label, entries in ASLEEP.items()}
    known, times_ms = frozenset(DEVIATIONS), times_of_both(300 + TIMEOUT_MS)
    for logs, is_excused in ((ASLEEP, True), (answered, False)):
        found = judged(logs, topic=IDLE, cursors={}, closed=(("B", "A"),), all_times_ms=times_ms, known=known)
        assert verdict(found) == ((CLOSED_REPLICATOR_READS_NO_REQUEST,) if is_excused else ("REPL-17", None))
