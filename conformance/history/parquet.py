"""Histories on Parquet: a folder of segments that grows while a run goes on, laid out for one pass in order.

A folder has one sub-folder for each *bucket*, which is chosen by a topic's name; what concerns no one topic has one
of its own. A writer collects some thousands of events a bucket and puts them down as one segment: a complete file under
its final name, or none. So what was written before a ``kill -9`` can be read, but for the events of the last, open
segments. Every file is sorted by :data:`ORDER`. ``compact`` makes one file of a bucket's segments, in the same order.

The compacted file names the segments that it replaces in its footer. A reader leaves these out, so nothing is counted
twice when compacting was ended between the new file and the deletion of the old ones.

It writes and compacts; reading is the pipeline's, over Spark.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.history.recorded import VERSION, Recorded
from conformance.trouble import Trouble

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("lane", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("deduplication", pa.bool_()),
        pa.field("producer", pa.string()),
        pa.field("sequence_id", pa.int64()),
        pa.field("highest_sequence_id", pa.int64()),
        pa.field("subscription", pa.string()),
        pa.field("subscription_type", pa.string()),
        pa.field("consumer", pa.string()),
        pa.field("redeliveries", pa.int32()),
        pa.field("ledger", pa.int64()),
        pa.field("entry", pa.int64()),
        pa.field("batch_index", pa.int32(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("chunk_uuid", pa.string()),
        pa.field("chunk_id", pa.int32()),
        pa.field("chunks", pa.int32()),
        pa.field("digest", pa.int64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("fault", pa.string()),
        pa.field("invoked_ns", pa.int64()),
        pa.field("completed_ns", pa.int64(), nullable=False),
    ]
)
"""The columns, in the order of :class:`Recorded`."""

ORDER = ("run", "topic", "cluster", "ledger", "entry", "batch_index", "completed_ns")
"""What a file is sorted by, nothing (None) before anything: topic by topic, there by position, and there by time."""

VERSION_KEY = b"pulsar-conformance.version"
RUNS_KEY = b"pulsar-conformance.runs"
REPLACES_KEY = b"pulsar-conformance.replaces"
"""What a footer says: the schema's version, the runs in the file, and the names of what a compacted file replaces."""

COMPACTED = "compacted"
"""What the name of a compacted file begins with."""

EVERYWHERE = "bucket-all"
"""The bucket of events that concern no one topic."""

BUCKETS = 16
EVENTS_OF_A_SEGMENT = 65_536
ROWS_OF_A_GROUP = 1_000_000


def bucket_of(topic: str | None, buckets: int) -> str:
    """The bucket of a topic: the same in every process and release."""
    return EVERYWHERE if topic is None else f"bucket-{zlib.crc32(topic.encode()) % buckets:04d}"


def table_of(events: Sequence[Recorded]) -> pa.Table:
    """Events as a table of :data:`SCHEMA`, in their own order."""
    return pa.Table.from_pylist([msgspec.structs.asdict(event) for event in events], schema=SCHEMA)


def in_order(table: pa.Table) -> pa.Table:
    """The same rows, sorted by :data:`ORDER`."""
    return table.sort_by([(name, "ascending", "at_start") for name in ORDER])


class HistoryWriter:
    """Writes the events of one lane of a run; not for several threads.

    ``buckets`` must be the same for all writers of one folder; what a segment holds is bounded by ``segment_events``.
    """

    def __init__(
        self, folder: Path, lane: str, *, buckets: int = BUCKETS, segment_events: int = EVENTS_OF_A_SEGMENT
    ) -> None:
        self._folder = folder
        self._buckets = buckets
        self._segment_events = segment_events
        self._open: dict[str, list[Recorded]] = {}
        self._names = f"{lane}-{secrets.token_hex(4)}"  # a name is never used again, not even by the next writer
        self._numbers = itertools.count(1)

    def record(self, event: Recorded) -> None:
        """Take one event; a segment that is full is put down."""
        bucket = bucket_of(event.topic, self._buckets)
        waiting = self._open.setdefault(bucket, [])
        waiting.append(event)
        if len(waiting) >= self._segment_events:
            self._put_down(bucket)

    def flush(self) -> None:
        """Put down everything taken so far: from then on it can be read, whatever happens to this process."""
        for bucket in sorted(self._open):
            self._put_down(bucket)

    def close(self) -> None:
        """Put down what is left."""
        self.flush()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put_down(self, bucket: str) -> None:
        events = self._open.pop(bucket)
        name = f"{self._names}-{next(self._numbers):06d}.parquet"
        write_file(in_order(table_of(events)), self._folder / bucket / name)


def write_file(table: pa.Table, path: Path, *, replaces: Sequence[str] = ()) -> None:
    """Write one file of a history under its name in one step; ``table`` is sorted.

    Raises:
        Trouble: it cannot be written.
    """
    runs = sorted(table["run"].unique().to_pylist())
    footer = {VERSION_KEY: str(VERSION).encode(), RUNS_KEY: json.dumps(runs).encode()}
    if replaces:
        footer[REPLACES_KEY] = json.dumps(sorted(replaces)).encode()
    part = path.with_name(f".{path.name}.part")  # Spark, too, leaves out what begins with a dot
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            pq.write_table(
                table.replace_schema_metadata(footer), file, compression="zstd", row_group_size=ROWS_OF_A_GROUP
            )
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise Trouble(f"the history cannot be written to {path}: {error.strerror or error}") from error


def compact(folder: Path) -> int:
    """Make one file of the segments of each bucket; returns how many buckets were rewritten.

    For a folder that nobody writes to. One bucket is held in memory at a time.

    Raises:
        Trouble: a segment is damaged; what was compacted before stays, and nothing is lost.
    """
    rewritten = 0
    for bucket in sorted(path for path in folder.glob("bucket-*") if path.is_dir()):
        parts = list(_in_force(bucket))
        if len(parts) > 1 or (parts and not parts[0].name.startswith(COMPACTED)):
            _compact(bucket, parts)
            rewritten += 1
        for path in set(bucket.glob("*.parquet")) - set(_in_force(bucket)):
            path.unlink()
    return rewritten


def _compact(bucket: Path, parts: Sequence[Path]) -> None:
    table = in_order(pa.concat_tables([_read(path) for path in parts]))
    name = f"{COMPACTED}-{secrets.token_hex(4)}.parquet"
    write_file(table, bucket / name, replaces=[path.name for path in parts])


def _in_force(bucket: Path) -> Iterator[Path]:
    """The files of a bucket that no compacted file replaces."""
    paths = sorted(bucket.glob("*.parquet"))
    replaced = {name for path in paths if path.name.startswith(COMPACTED) for name in _replaces(path)}
    return (path for path in paths if path.name not in replaced)


def _replaces(path: Path) -> list[str]:
    footer = _opened(path).schema_arrow.metadata or {}
    names: list[str] = json.loads(footer.get(REPLACES_KEY, b"[]"))
    return names


def _read(path: Path) -> pa.Table:
    try:
        return _opened(path).read(columns=SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Trouble(f"{path} is not a whole file of a history: {error}") from error


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise Trouble(f"{path} is not a whole file of a history: {error}") from error
