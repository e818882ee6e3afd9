"""Histories in Parquet: written events can be read, complete and in order, however their writer ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conformance.digest import digest
from conformance.harness_error import HarnessError
from conformance.history import parquet
from conformance.history.parquet import HistoryWriter, bucket_of, table_of
from conformance.history.recorded import CallOutcome, Kind, Recorded
from tests.history.samples import event
from tests.waits import eventually

WRITES_FOR_EVER = """
import sys
from pathlib import Path
from conformance.history.parquet import HistoryWriter
from tests.history.samples import event
with HistoryWriter(Path(sys.argv[1]), "w", segment_events=10) as writer:
    number = 0
    while True:
        writer.record(event(sequence_id=number))
        number += 1
"""


def rows(folder: Path) -> list[dict[str, object]]:
    """All that is in a folder, file by file."""
    return [row for path in sorted(folder.glob("bucket-*/*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_the_columns_are_the_fields_of_an_event() -> None:
    assert tuple(parquet.SCHEMA.names) == Recorded.__struct_fields__


def test_an_event_is_read_as_it_was_written() -> None:
    whole = Recorded(
        run="r",
        lane="w",
        cluster="a",
        topic="t",
        kind=Kind.SEND,
        outcome=CallOutcome.DUPLICATE,
        deduplication=True,
        producer="p",
        sequence_id=1,
        highest_sequence_id=2,
        subscription="s",
        subscription_type="Shared",
        consumer="c",
        redeliveries=3,
        ledger=4,
        entry=5,
        batch_index=6,
        key="k",
        chunk_uuid="u",
        chunk_id=7,
        chunks=8,
        digest=digest(b"payload"),
        size_bytes=9,
        fault="kill",
        invoked_ns=10,
        completed_ns=11,
    )
    (row,) = table_of([whole]).to_pylist()
    assert msgspec.convert(row, Recorded) == whole


def test_a_segment_is_sorted_whatever_the_order_of_its_events(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, "w", buckets=1) as writer:
        for topic, entry, completed_ns in (("b", 0, 1), ("a", 1, 9), ("a", 1, 2), ("a", None, 5), ("a", 0, 7)):
            ledger = None if entry is None else 3
            writer.record(event(topic=topic, ledger=ledger, entry=entry, completed_ns=completed_ns))
    found = [(row["topic"], row["entry"], row["completed_ns"]) for row in rows(tmp_path)]
    assert found == [("a", None, 5), ("a", 0, 7), ("a", 1, 2), ("a", 1, 9), ("b", 0, 1)]


def test_a_topic_has_one_bucket_and_events_without_a_topic_have_their_own(tmp_path: Path) -> None:
    for lane in ("one", "two"):
        with HistoryWriter(tmp_path, lane, buckets=64) as writer:
            writer.record(event(topic="t"))
            writer.record(event(Kind.FAULT, topic=None, fault="kill"))
    assert {path.parent.name for path in tmp_path.glob("*/*.parquet")} == {bucket_of("t", 64), parquet.EVERYWHERE}
    assert len(rows(tmp_path)) == 4


def test_events_written_before_a_kill_can_be_read(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITES_FOR_EVER, str(tmp_path)])
    try:
        eventually(lambda: len(list(tmp_path.glob("bucket-*/*.parquet"))) > 3)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    numbers = [row["sequence_id"] for row in rows(tmp_path)]
    assert sorted(numbers) == list(range(len(numbers)))  # type: ignore[type-var]
    assert len(numbers) % 10 == 0


def test_a_history_that_cannot_be_written_is_a_harness_error(tmp_path: Path) -> None:
    (tmp_path / bucket_of("t", 1)).write_text("in the way")
    writer = HistoryWriter(tmp_path, "w", buckets=1)
    writer.record(event())
    with pytest.raises(HarnessError, match="cannot be written"):
        writer.close()


def test_a_table_without_events_has_all_columns() -> None:
    assert table_of([]).schema.equals(pa.schema(parquet.SCHEMA))
