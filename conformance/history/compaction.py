"""Compacts histories: rewrites the many segments of a bucket as a few files in order, each with whole topics.

A bucket that is larger than one file is first split by topic into as many parts as it will have files, and each part is
sorted alone. So memory holds one file, or the largest topic, and time grows with the number of events. It can be killed
at any time: the new files count when all of them exist, and only then the old ones are removed.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.files import opened
from conformance.harness_error import HarnessError
from conformance.history.about import ByRun, of_footer, together
from conformance.history.parquet import (
    ABOUT_KEY,
    DAMAGE,
    REPLACES_KEY,
    SCHEMA,
    compacted_name,
    compacted_together,
    completed,
    first_line,
    in_force,
    in_order,
    write_file,
)
from conformance.history.recorded import ADDED

EVENTS_OF_A_FILE = 4_000_000
"""How many events a file has at most, unless one topic has more."""

_IDENTITY = ("run", "topic")
"""One file has a topic of all clusters, because these are judged together."""

_SORTED_BY = ("run", "topic", "cluster")
_SCRATCH = ".compacting-"

_ENCODED = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string()))
        if pa.types.is_string(field.type) and field.name not in _SORTED_BY
        else field
        for field in SCHEMA
    ]
)
"""The schema in memory: names are dictionaries, except those of the sort order."""

Identity = tuple[str, str | None]
"""Run and topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A bucket: its number of files before and now, and whether it was rewritten."""

    bucket: str
    files_before: int
    files: int
    is_rewritten: bool


def compact(
    folder: Path, *, show: Callable[[Compacted], None] | None = None, events_of_a_file: int = EVENTS_OF_A_FILE
) -> int:
    """Compact every bucket of a complete history; returns how many were rewritten.

    ``show`` is called with each bucket when it is done.

    Raises:
        HarnessError: there is no history, a file is damaged or missing, or the folder cannot be written. Buckets
            that were compacted stay, and nothing is lost.
    """
    buckets = sorted(path for path in folder.glob("bucket-*") if path.is_dir())
    if not buckets:
        raise HarnessError(f"there is no history in {folder}")
    rewritten = 0
    for bucket in buckets:
        compacted = _compacted(bucket, events_of_a_file)
        rewritten += compacted.is_rewritten
        if show is not None:
            show(compacted)
    return rewritten


def _compacted(bucket: Path, events_of_a_file: int) -> Compacted:
    for left in bucket.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left)
    parts = _parts(bucket)
    is_rewritten = bool(parts) and (compacted_together(parts[0].name) is None or len(_together(parts)) > 1)
    if is_rewritten:
        _compact(bucket, parts, events_of_a_file)
    files = _parts(bucket)
    for path in set(bucket.glob("*.parquet")) - set(files):
        path.unlink()
    return Compacted(bucket=bucket.name, files_before=len(parts), files=len(files), is_rewritten=is_rewritten)


def _together(parts: Sequence[Path]) -> set[str | None]:
    return {compacted_together(path.name) for path in parts}


def _parts(bucket: Path) -> list[Path]:
    """The files of a bucket that count."""
    found = in_force({path.name: _replaces(path) for path in bucket.glob("*.parquet")})
    if found.gone:
        raise HarnessError(f"{bucket / min(found.gone)} is gone, and with it a part of the history")
    return [bucket / name for name in sorted(found.names)]


def _replaces(path: Path) -> list[str]:
    if compacted_together(path.name) is None:
        return []
    try:
        return msgspec.json.decode(_footer(path).get(REPLACES_KEY, b"[]"), type=list[str])
    except DAMAGE as error:
        raise _broken(path, error) from error


def _footer(path: Path) -> Mapping[bytes, bytes]:
    with opened(path) as file:
        try:
            return pq.read_metadata(file).metadata or {}
        except DAMAGE as error:
            raise _broken(path, error) from error


def _about(path: Path) -> ByRun:
    try:
        return of_footer(_footer(path).get(ABOUT_KEY, b"{}"))
    except DAMAGE as error:
        raise _broken(path, error) from error


def _compact(bucket: Path, parts: Sequence[Path], events_of_a_file: int) -> None:
    file_of = _planned(parts, events_of_a_file)
    number = max(file_of.values()) + 1
    about = together(map(_about, parts))
    token, replaced = secrets.token_hex(4), [path.name for path in parts]
    buckets = sorted({path.parent.name for path in bucket.parent.glob("bucket-*/*.parquet")})
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=bucket) as scratch:
        sources = [list(parts)] if number == 1 else _scattered(parts, file_of, Path(scratch))
        for index, paths in enumerate(sources):
            table = in_order(pa.concat_tables(map(_read, paths)).unify_dictionaries())
            path = bucket / compacted_name(token, index + 1, number)
            write_file(table, path, replaces=replaced, buckets=buckets, about=about)


def _planned(parts: Sequence[Path], events_of_a_file: int) -> Mapping[Identity, int]:
    """The number of each topic's file."""
    events: dict[Identity, int] = {}
    for path in parts:
        for topic, count in _topics_of(_read(path, _IDENTITY)):
            events[topic] = events.get(topic, 0) + count
    file_of: dict[Identity, int] = {}
    file, filled = 0, 0
    for topic in sorted(events, key=_in_order):
        if filled and filled + events[topic] > events_of_a_file:
            file, filled = file + 1, 0
        file_of[topic] = file
        filled += events[topic]
    return file_of


def _in_order(topic: Identity) -> tuple[str, bool, str]:
    run, name = topic
    return run, name is not None, name or ""


def _topics_of(table: pa.Table) -> Iterator[tuple[Identity, int]]:
    """The topics of a table in order, with their numbers of rows."""
    groups = table.group_by(list(_IDENTITY), use_threads=False).aggregate([([], "count_all")])
    for group in groups.to_pylist():
        yield (group["run"], group["topic"]), group["count_all"]


def _scattered(parts: Sequence[Path], file_of: Mapping[Identity, int], scratch: Path) -> list[list[Path]]:
    """The same events, split by topic into a part for each new file."""
    paths = [scratch / f"{file}.part" for file in range(max(file_of.values()) + 1)]
    with ExitStack() as stack:
        writers = [stack.enter_context(pq.ParquetWriter(path, _ENCODED, compression="zstd")) for path in paths]
        for part in parts:
            table, first = _read(part), 0
            for file, topics in itertools.groupby(_topics_of(table), lambda one: file_of[one[0]]):
                rows = sum(count for _, count in topics)
                writers[file].write_table(table.slice(first, rows))
                first += rows
    return [[path] for path in paths]


def _read(path: Path, columns: Sequence[str] = tuple(SCHEMA.names)) -> pa.Table:
    names = [field.name for field in _ENCODED if pa.types.is_dictionary(field.type) and field.name not in ADDED]
    schema = pa.schema([_ENCODED.field(name) for name in columns])
    opened(path).close()  # a pipe would have Arrow wait for ever
    try:
        with pq.ParquetFile(path, read_dictionary=names, page_checksum_verification=True) as file:
            table = completed(file.read(columns=list(columns)), columns).cast(schema)
            expected = file.metadata.num_rows
    except DAMAGE as error:
        raise _broken(path, error) from error
    if len(table) != expected:
        raise HarnessError(f"{path} is not a whole file of a history: it has {len(table)} of {expected} events")
    return table


def _broken(path: Path, error: Exception) -> HarnessError:
    return HarnessError(f"{path} is not a whole file of a history: {first_line(error)}")
