"""Compacting: all events are kept, in order, in files of their size, even if it was interrupted."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conformance.harness_error import HarnessError
from conformance.history import parquet
from conformance.history.compaction import compact
from conformance.history.parquet import HistoryWriter
from tests.history.samples import event
from tests.history.test_parquet import rows


def test_compacting_leaves_one_file_per_bucket_with_all_events_in_order(tmp_path: Path) -> None:
    for lane in ("one", "two"):
        with HistoryWriter(tmp_path, lane, buckets=2, segment_events=3) as writer:
            for number in range(40):
                writer.record(event(lane=lane, topic=f"t{number % 5}", ledger=1, entry=number))
    before = rows(tmp_path)
    assert compact(tmp_path) == 2
    after = rows(tmp_path)
    assert len(list(tmp_path.glob("*/*.parquet"))) == 2
    assert sorted(map(str, after)) == sorted(map(str, before))
    for path in tmp_path.glob("*/*.parquet"):
        table = pq.read_table(path)
        assert table.equals(parquet.in_order(table))
    assert compact(tmp_path) == 0


def test_more_segments_are_compacted_into_the_existing_files(tmp_path: Path) -> None:
    for _ in range(3):
        with HistoryWriter(tmp_path, "w") as writer:
            writer.record(event())
        compact(tmp_path)
    assert len(rows(tmp_path)) == 3


def test_an_interrupted_compaction_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        with HistoryWriter(tmp_path, "w") as writer:
            writer.record(event(sequence_id=number))

    def ended(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", ended)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path)
    assert len(rows(tmp_path)) == 6
    compact(tmp_path)
    assert {row["sequence_id"] for row in rows(tmp_path)} == {0, 1, 2}
    assert len(rows(tmp_path)) == 3


def test_a_damaged_segment_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    for _ in range(2):
        with HistoryWriter(tmp_path, "w") as writer:
            writer.record(event())
    damaged, whole = sorted(tmp_path.glob("*/*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(HarnessError, match=f"{damaged.name} is not a whole file of a history"):
        compact(tmp_path)
    assert whole.exists()


def test_a_bucket_is_split_into_files_between_topics(tmp_path: Path) -> None:
    for lane in ("one", "two"):
        with HistoryWriter(tmp_path, lane, buckets=1, segment_events=7) as writer:
            for number in range(60):
                run, topic = f"r{number % 2}", f"t{number // 10}"
                writer.record(event(lane=lane, run=run, topic=topic, ledger=1, entry=number % 10))
    before = rows(tmp_path)
    assert compact(tmp_path, events_of_a_file=25) == 1
    assert sorted(map(str, rows(tmp_path))) == sorted(map(str, before))
    tables = [pq.read_table(path) for path in sorted(tmp_path.glob("*/*.parquet"))]
    assert [len(table) for table in tables] == [20] * 6
    topics = [sorted({(row["run"], row["topic"]) for row in table.to_pylist()}) for table in tables]
    assert [len(found) for found in topics] == [2] * 6
    assert topics == sorted(topics)
    assert all(table.equals(parquet.in_order(table)) for table in tables)
    assert not [path for path in tmp_path.glob("*/*") if path.suffix != ".parquet"]
    assert compact(tmp_path, events_of_a_file=25) == 0


def test_a_topic_larger_than_a_file_has_its_own_file(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "w", buckets=1, segment_events=7) as writer:
        for number in range(60):
            writer.record(event(topic="a" if number % 6 else f"b{number // 30}", ledger=1, entry=number))
    compact(tmp_path, events_of_a_file=6)
    assert [len(pq.read_table(path)) for path in sorted(tmp_path.glob("*/*.parquet"))] == [50, 5, 5]


def test_files_count_only_if_all_files_of_their_compaction_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HistoryWriter(tmp_path, "w", buckets=1, segment_events=7) as writer:
        for number in range(60):
            writer.record(event(topic=f"t{number // 20}", sequence_id=number))
    before = {path.name for path in tmp_path.glob("*/*.parquet")}
    write = parquet.write_file

    def ended(table: object, path: Path, **metadata: object) -> None:
        if "-0003-of-" in path.name:
            raise KeyboardInterrupt
        write(table, path, **metadata)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr("conformance.history.compaction.write_file", ended)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path, events_of_a_file=20)
    there = {path.name: pq.read_metadata(path).metadata for path in tmp_path.glob("*/*.parquet")}
    replaces = {name: str(footer.get(parquet.REPLACES_KEY, "")).split('"')[1::2] for name, footer in there.items()}
    assert len(there) == len(before) + 2
    assert parquet.in_force(replaces) == parquet.InForce(frozenset(before), frozenset())
    compact(tmp_path, events_of_a_file=20)
    assert sorted(int(str(row["sequence_id"])) for row in rows(tmp_path)) == list(range(60))
    assert len(list(tmp_path.glob("*/*.parquet"))) == 3


SEGMENTS = {"a.parquet": (), "b.parquet": ()}
FIRST, SECOND = (parquet.compacted_name("t", number, 2) for number in (1, 2))


@pytest.mark.parametrize(
    ("compacted", "segments", "names", "gone"),
    [
        ({FIRST: SEGMENTS}, SEGMENTS, set(SEGMENTS), set()),
        ({FIRST: SEGMENTS, SECOND: SEGMENTS}, SEGMENTS, {FIRST, SECOND}, set()),
        ({FIRST: (), SECOND: SEGMENTS}, SEGMENTS, {FIRST, SECOND}, set()),
        ({FIRST: SEGMENTS, SECOND: SEGMENTS}, {"b.parquet": ()}, {FIRST, SECOND}, set()),
        ({SECOND: SEGMENTS}, {"b.parquet": ()}, {SECOND}, {FIRST}),
        ({SECOND: SEGMENTS}, {"c.parquet": ()}, {SECOND, "c.parquet"}, {FIRST}),
        (
            {SECOND: SEGMENTS, parquet.compacted_name("u", 1, 1): (FIRST, SECOND)},
            {},
            {"compacted-u-0001-of-0001.parquet"},
            set(),
        ),
    ],
)
def test_which_files_count_depends_on_the_existing_ones_and_what_they_replace(
    compacted: dict[str, Collection[str]], segments: dict[str, Collection[str]], names: set[str], gone: set[str]
) -> None:
    assert parquet.in_force(compacted | segments) == parquet.InForce(frozenset(names), frozenset(gone))


def test_a_missing_file_is_a_harness_error_and_not_compacted_away(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "w", buckets=1) as writer:
        for number in range(60):
            writer.record(event(topic=f"t{number // 20}"))
    compact(tmp_path, events_of_a_file=20)
    gone, *_ = sorted(tmp_path.glob("*/*.parquet"))
    gone.unlink()
    with pytest.raises(HarnessError, match=f"{gone.name} is gone, and with it a part of the history"):
        compact(tmp_path)


def test_a_folder_without_a_history_is_a_harness_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="there is no history in"):
        compact(tmp_path)
