"""Histories on Parquet: a folder of segments that grows during a run, laid out for one pass in order.

A folder has a sub-folder for each *bucket*, which a topic's name selects; events without a topic have their own. A
writer collects some thousands of events of a bucket and writes them as one segment: a complete file under its final
name, or none. So a ``kill -9`` loses only the last, open segments. Every file is sorted by :data:`ORDER`.
``compaction`` rewrites a bucket's segments as a few large files with whole topics; :func:`in_force` decides which files
count.

The pipeline reads histories, on Spark.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.harness_error import HarnessError
from conformance.history.about import About, ByRun, as_footer
from conformance.history.recorded import ADDED, VERSION, Recorded

SCHEMA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("lane", pa.string(), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("deduplication", pa.bool_()),
        pa.field("replicated", pa.bool_()),
        pa.field("producer", pa.string()),
        pa.field("sequence_id", pa.int64()),
        pa.field("highest_sequence_id", pa.int64()),
        pa.field("replicated_from", pa.string()),
        pa.field("subscription", pa.string()),
        pa.field("subscription_type", pa.string()),
        pa.field("consumer", pa.string()),
        pa.field("redeliveries", pa.int32()),
        pa.field("delayed", pa.bool_()),
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

REQUIRED = tuple(field.name for field in SCHEMA if not field.nullable)
"""The columns that every event has."""

ORDER = ("run", "topic", "cluster", "ledger", "entry", "batch_index", "completed_ns")
"""The sort order of a file, None first: by topic, then by position, then by time."""

VERSION_KEY = b"pulsar-conformance.version"
RUNS_KEY = b"pulsar-conformance.runs"
REPLACES_KEY = b"pulsar-conformance.replaces"
BUCKETS_KEY = b"pulsar-conformance.buckets"
ABOUT_KEY = b"pulsar-conformance.about"
TOPICS_ONLY_KEY = b"pulsar-conformance.topics-only"
"""The keys of a footer: the schema's version, the runs of the file, the names of the files that it replaces, the
names of all buckets of the history when it was compacted, the
systems of its runs (:mod:`conformance.history.about`), and whether each of its events has a topic. The statistics of
its columns say that, too, but where these are damaged pyarrow ends the process."""

DAMAGE = (pa.ArrowException, msgspec.MsgspecError, OSError, ValueError, TypeError, KeyError, OverflowError)
"""What reading a damaged file raises."""

_COMPACTED = re.compile(r"compacted-(?P<token>\w+)-\d+-of-(?P<number>\d+)\.parquet")

EVERYWHERE = "bucket-all"
"""The bucket of events without a topic."""

NO_SYSTEMS: ByRun = MappingProxyType({})

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

BUCKETS = 16
EVENTS_OF_A_SEGMENT = 65_536
ROWS_OF_A_GROUP = 1_000_000


def first_line(error: Exception) -> str:
    """What an error says, in one line; the type of one that says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def bucket_of(topic: str | None, buckets: int) -> str:
    """The bucket of a topic: the same in every process and release."""
    return EVERYWHERE if topic is None else f"bucket-{zlib.crc32(topic.encode()) % buckets:04d}"


def compacted_name(token: str, number: int, of: int) -> str:
    """The name of a file, counted from 1, of those that one compacting writes for a bucket."""
    return f"compacted-{token}-{number:04d}-of-{of:04d}.parquet"


def compacted_together(name: str) -> str | None:
    """The common part of the names of files that were compacted at once; None for any other file."""
    found = _COMPACTED.fullmatch(name)
    return f"{found['token']} of {found['number']}" if found else None


@dataclass(frozen=True, slots=True)
class InForce:
    """The names of the files of a bucket that count, and of those that are missing (``gone``)."""

    names: frozenset[str]
    gone: frozenset[str]


def in_force(replaces: Mapping[str, Collection[str]]) -> InForce:
    """The files of a bucket to read; ``replaces``: each existing file with the names that it replaces.

    Compacted files count when all of one compacting exist. The files that they replace count until then, and are
    removed only then. So no event counts twice or is missing, whenever compacting ends. If a replaced file is missing,
    all compacted ones existed before. A compacted file that cannot be read replaces what the others replace.
    """
    there = replaces.keys()
    unfinished, replaced, gone = set[str](), set[str](), set[str]()
    for together in _made_at_once(there):
        replaced_by_them = {name for one in together & there for name in replaces[one]}
        if together <= there or not replaced_by_them <= there:
            replaced |= replaced_by_them
            gone |= together - there
        else:
            unfinished |= together
    return InForce(frozenset(there - unfinished - replaced), frozenset(gone - replaced))


def _made_at_once(names: Collection[str]) -> set[frozenset[str]]:
    """For each compacting that wrote one of these files, the names of all its files."""
    made = {(one["token"], int(one["number"])) for one in map(_COMPACTED.fullmatch, names) if one}
    return {frozenset(compacted_name(token, index + 1, of) for index in range(of)) for token, of in made}


def table_of(events: Sequence[Recorded]) -> pa.Table:
    """Events as a table of :data:`SCHEMA`, in their own order."""
    columns = [pa.array([*map(attrgetter(field.name), events)], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def in_order(table: pa.Table) -> pa.Table:
    """The same rows, sorted by :data:`ORDER`."""
    return table.sort_by([(name, "ascending", "at_start") for name in ORDER])


def completed(rows: Rows, names: Sequence[str]) -> Rows:
    """These columns, with nulls in those that were added to the schema later.

    KeyError for another missing column.
    """
    for name in ADDED.intersection(names).difference(rows.schema.names):
        rows = rows.append_column(SCHEMA.field(name), pa.nulls(rows.num_rows, SCHEMA.field(name).type))
    return rows.select(list(names))


class HistoryWriter:
    """Writes the events of one lane of a run; not for several threads.

    ``buckets`` must be the same for all writers of one folder. A segment has at most ``segment_events``. ``about``: the
    system that the run records.
    """

    def __init__(
        self,
        folder: Path,
        lane: str,
        *,
        about: About | None = None,
        buckets: int = BUCKETS,
        segment_events: int = EVENTS_OF_A_SEGMENT,
    ) -> None:
        self._folder = folder
        self._about = about
        self._buckets = buckets
        self._segment_events = segment_events
        self._open: dict[str, list[Recorded]] = {}
        self._names = f"{lane}-{secrets.token_hex(4)}"  # unique among all writers
        self._numbers = itertools.count(1)

    def record(self, event: Recorded) -> None:
        """Take one event; a full segment is written."""
        bucket = bucket_of(event.topic, self._buckets)
        waiting = self._open.setdefault(bucket, [])
        waiting.append(event)
        if len(waiting) >= self._segment_events:
            self._write_segment(bucket)

    def flush(self) -> None:
        """Write all events so far; a kill of this process no longer loses them."""
        for bucket in sorted(self._open):
            self._write_segment(bucket)

    def close(self) -> None:
        self.flush()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_segment(self, bucket: str) -> None:
        events = self._open.pop(bucket)
        name = f"{self._names}-{next(self._numbers):06d}.parquet"
        about = {event.run: (self._about,) for event in events} if self._about is not None else {}
        write_file(in_order(table_of(events)), self._folder / bucket / name, about=about)


def write_file(
    table: pa.Table,
    path: Path,
    *,
    replaces: Sequence[str] = (),
    buckets: Sequence[str] = (),
    about: ByRun = NO_SYSTEMS,
) -> None:
    """Write one file of a history atomically; ``table`` is sorted.

    Raises:
        HarnessError: it cannot be written.
    """
    write_tables([table], path, replaces=replaces, buckets=buckets, about=about)


def write_tables(
    tables: Iterable[pa.Table],
    path: Path,
    *,
    replaces: Sequence[str] = (),
    buckets: Sequence[str] = (),
    about: ByRun = NO_SYSTEMS,
) -> None:
    """The same for one or more tables in order, one in memory at a time.

    Raises:
        HarnessError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.part")  # Spark also ignores names with a leading dot
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            footer = {VERSION_KEY: str(VERSION).encode(), ABOUT_KEY: as_footer(about)}
            if replaces:
                footer[REPLACES_KEY] = json.dumps(sorted(replaces)).encode()
            if buckets:
                footer[BUCKETS_KEY] = json.dumps(sorted(buckets)).encode()
            _write(iter(tables), file, footer)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise HarnessError(f"the history cannot be written to {path}: {error.strerror or error}") from error


def _write(tables: Iterator[pa.Table], file: BinaryIO, footer: Mapping[bytes, bytes]) -> None:
    first = next(tables)
    runs: set[str] = set()
    is_topics_only = True
    schema = first.schema.remove_metadata()
    with pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True, store_schema=False) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table, row_group_size=ROWS_OF_A_GROUP)
            runs.update(table["run"].unique().to_pylist())
            is_topics_only &= not table["topic"].null_count
        facts = {RUNS_KEY: sorted(runs), TOPICS_ONLY_KEY: is_topics_only}
        writer.add_key_value_metadata({**footer, **{key: json.dumps(fact).encode() for key, fact in facts.items()}})
