"""A cluster with deduplication may drop some of what a cluster without it replicates to it, and nothing else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from model.cluster_operations import AWAY
from model.events import Abandoned, LogRead
from model.explain import judge
from model.judgement import Broken
from model.log import Position
from model.operations import ReadLog
from model.service.unexpected import NOT_REPLICATED, Overdue
from tests.notation import steps
from tests.verdicts import Happened, allowed_by, broken_by, deviates, deviation_of, exercised

LOG = "t off at-home; p opens -1; q opens -1; "


def history(text: str) -> list[Happened]:
    return steps(LOG + text)


def away(home: list[Happened], *places: int, is_deduplicated: bool = True) -> Happened:
    """The other cluster has the entries at these places of home's log."""
    read = home[-1][1]
    assert isinstance(read, LogRead)
    entries = tuple(replace(read.entries[place], position=Position(9, n)) for n, place in enumerate(places))
    return ReadLog("t", cluster=AWAY), LogRead(entries, is_deduplicated=is_deduplicated)


TWICE = history("p sends 1@0 2@1; q sends 1@2; p sends 2@3 1@4 3@2:0; log p:1 p:2 q:1 p:2 p:1 p:3@2:0")
"""The fourth and the fifth entry have ids that are not above those of earlier ones of their producer."""


@pytest.mark.parametrize("places", [(0, 1, 2, 5), (0, 1, 2, 3, 5), (0, 1, 2, 4, 5), (0, 1, 2, 3, 4, 5)])
def test_a_cluster_with_deduplication_may_drop_messages_with_ids_that_are_not_above_earlier_ones(
    places: tuple[int, ...],
) -> None:
    assert "REPL-01" in exercised(*TWICE, away(TWICE, *places))


@pytest.mark.parametrize("places", [(0, 1, 2), (0, 2, 3, 4, 5), (0, 1, 3, 4, 5), (1, 2, 5), (0, 1, 2, 3, 4)])
def test_it_drops_no_other_message(places: tuple[int, ...]) -> None:
    assert broken_by(*TWICE, away(TWICE, *places)).rule == "REPL-01"


def test_a_cluster_without_deduplication_drops_none() -> None:
    assert "REPL-01" in exercised(*TWICE, away(TWICE, 0, 1, 2, 3, 4, 5, is_deduplicated=False))
    assert broken_by(*TWICE, away(TWICE, 0, 1, 2, 5, is_deduplicated=False)).rule == "REPL-01"


OVERDUE = Overdue("SERVE-03", f"messages of topic t {NOT_REPLICATED} 60 s", "t")
READS_AWAY = ReadLog("t", cluster=AWAY)


def test_a_replicator_resends_after_a_drop_only_if_the_log_has_an_entry_to_drop() -> None:
    for text, deviation in (
        ("p sends 1@0 2@1 1@2; log p:1 p:2 p:1", "replicator-resends-after-drop"),
        ("p sends 1a0@0 1a1@1; log p:1a0 p:1a1", "replicator-resends-after-drop"),
        ("p sends 1@0 2@1; q sends 1@2; log p:1 p:2 q:1", None),
    ):
        before = allowed_by(*history(text)).state
        assert deviation_of(before, READS_AWAY, Abandoned("late"), OVERDUE) == deviation
        known = allowed_by(*history(text), known="replicator-resends-after-drop").state
        assert isinstance(judge(known, READS_AWAY, Abandoned("late"), unexpected=(OVERDUE,)), Broken) is (not deviation)


CHUNKED = history("p sends 1a0@0 1a1@1; q sends 1@2; p sends 1a2@3 2@4; log p:1a0 p:1a1 q:1 p:1a2 p:2")


@pytest.mark.parametrize("places", [(0, 2, 4), (0, 1, 2, 4), (0, 2, 3, 4)])
def test_later_chunks_are_dropped_by_a_deviation(places: tuple[int, ...]) -> None:
    assert deviates("chunk-each-deduplicated", *CHUNKED, away(CHUNKED, *places))


@pytest.mark.parametrize("places", [(1, 2, 3, 4), (2, 4), (0, 4), (0, 2), (0, 4, 2)])
def test_that_deviation_explains_no_other_loss(places: tuple[int, ...]) -> None:
    broken = broken_by(*CHUNKED, away(CHUNKED, *places), known="chunk-each-deduplicated")
    assert (broken.rule, broken.deviation) == ("REPL-01", None)


def test_a_cluster_without_deduplication_has_all_chunks() -> None:
    broken = broken_by(*CHUNKED, away(CHUNKED, 0, 2, 4, is_deduplicated=False), known="chunk-each-deduplicated")
    assert (broken.rule, broken.deviation) == ("REPL-01", None)


AGAIN = history("p sends 1a0@0 1a1@1 1a2@2; p sends 1a0@3 1a1@4 1a2@2:0; log p:1a0 p:1a1 p:1a2 p:1a0 p:1a1 p:1a2@2:0")


@pytest.mark.parametrize("places", [(0, 1, 2), (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4)])
def test_a_chunked_message_that_is_sent_again_is_a_duplicate(places: tuple[int, ...]) -> None:
    assert "REPL-01" in exercised(*AGAIN, away(AGAIN, *places))


BATCH = history("p sends 1@0 2@1; p sends 2-3@2 4-5@3; log p:1 p:2 p:2-3 p:4-5")


def test_a_batch_that_starts_with_an_earlier_id_is_dropped_by_a_deviation() -> None:
    assert deviates("overlapping-batch-dropped", *BATCH, away(BATCH, 0, 1, 3))
    assert broken_by(*BATCH, away(BATCH, 0, 1, 2), known="overlapping-batch-dropped").deviation is None


def test_what_may_be_dropped_is_of_the_log_that_was_read_last() -> None:
    sent = history("p sends 1@0 2@1; log p:1 p:2; p sends 1@2")
    again = history("log p:1 p:2 p:1")[-1:]
    assert "REPL-01" in exercised(*sent, *again, away(again, 0, 1))
