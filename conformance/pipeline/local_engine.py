"""``verify`` on this machine alone, without Spark and Java: the same functions, in a process for each core.

A compacted file is judged as it is read. Other files are sorted, all files of a bucket at once, because the events of a
topic are in one bucket. If they are too many for memory, they are first split by topic into parts on disk.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance.harness_error import HarnessError
from conformance.history.parquet import ORDER, SCHEMA
from conformance.pipeline.files.compacted_files import NOT_ALL_ROWS, ROWS_OF_A_BATCH, Damaged, OpenedFile, by_partition
from conformance.pipeline.files.footers import File
from conformance.pipeline.files.history_files import FAULTS_AT_MOST, Files, OfNoTopic, of_no_topic, parts_of
from conformance.pipeline.files.local_files import LocalStorage
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.memory import LOCAL
from conformance.pipeline.results import NEEDED, judge_batches, judge_file
from conformance.pipeline.topic import VerificationSetting

ALONE_BYTES = 4 * 2**20
"""A smaller history is judged by this process, which takes less time than the start of others."""
SORTED_AT_ONCE = 1_000_000
"""How many events that are not compacted a process sorts at once, unless one topic has more."""
Judged = tuple[pa.RecordBatch, frozenset[str]]
"""Results, and the files that turned out to be damaged."""
_TYPES = {name: SCHEMA.field(name).type for name in NEEDED}
_NAMED = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema([pa.field(name, _NAMED if pa.types.is_string(kind) else kind) for name, kind in _TYPES.items()])


class LocalEngine:
    """Judges with processes of its own, one on each core that this one may use."""

    def __init__(self) -> None:
        self.storage = LocalStorage()

    def of_no_topic(self, files: Files) -> tuple[Files, OfNoTopic]:
        """As :meth:`conformance.pipeline.verdict.Engine.of_no_topic`."""
        rows: list[dict[str, Any]] = []
        damaged: set[str] = set()
        for file in files.all:
            if file.names_topics_only or len(rows) > FAULTS_AT_MOST:
                continue
            try:
                for batch in OpenedFile(file.path, None).all_rows(SCHEMA.names):
                    rows += batch.filter(batch.column("topic").is_null()).to_pylist()
            except Damaged:
                damaged.add(file.path)
        return _without(files, damaged), of_no_topic(rows)

    def judged(self, files: Files, setting: VerificationSetting) -> tuple[Files, list[dict[str, Any]]]:
        """As :meth:`conformance.pipeline.verdict.Engine.judged`."""
        loose = parts_of(Files(in_order=(), loose=files.loose, problems=()))
        tasks: list[Callable[[], Judged]] = [
            *(partial(_judge_loose, part.loose, setting) for part in sorted(loose.values(), key=_less_events)),
            *(partial(_judge_in_order, file.path, setting) for file in by_partition(files.in_order)),
        ]
        rows: list[dict[str, Any]] = []
        damaged: set[str] = set()
        size_bytes = sum(file.size_bytes for file in files.all)
        for result, unread in self._done(tasks, is_small=size_bytes < ALONE_BYTES):
            rows += result.to_pylist()
            damaged |= unread
        return _without(files, damaged), rows

    def _done(self, tasks: Sequence[Callable[[], Judged]], *, is_small: bool) -> Iterable[Judged]:
        """Perform these tasks, side by side if there are several cores and enough to do for them."""
        cores = min(len(os.sched_getaffinity(0)), len(tasks))
        if cores <= 1 or is_small:
            return [task() for task in tasks]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        try:
            with ProcessPoolExecutor(cores, context) as pool:
                return [future.result() for future in [pool.submit(task) for task in tasks]]
        except BrokenProcessPool as error:
            why = "a process was killed, most likely because the machine's memory ran out"
            raise HarnessError(f"{why}; {LOCAL.fewer}") from error


def _less_events(part: Files) -> int:
    """The part with the most events comes first."""
    return -sum(file.events for file in part.all)


def _without(files: Files, damaged: Iterable[str]) -> Files:
    """The files without these, and a sentence for each."""
    named = sorted(damaged)
    return files.without(named, [f"{path} is damaged: {NOT_ALL_ROWS}" for path in named])


def _judge_in_order(path: str, setting: VerificationSetting) -> Judged:
    return judge_file(OpenedFile(path, None), setting, worker=LOCAL), frozenset()


def _judge_loose(files: Sequence[File], setting: VerificationSetting) -> Judged:
    """Sort the events of files that have all of their topics, and judge them."""
    damaged = set[str]()
    parts = -(-sum(file.events for file in files) // SORTED_AT_ONCE)
    tables: Iterable[pa.Table]
    if parts <= 1:
        tables = [pa.concat_tables(list(_undamaged(files, damaged)) or [_SCHEMA.empty_table()])]
    else:
        tables = _split(_undamaged(files, damaged), parts)
    batches = (batch for table in tables for batch in _sorted(table).to_batches(ROWS_OF_A_BATCH))
    return judge_batches(batches, setting, INVARIANTS, worker=LOCAL), frozenset(damaged)


def _undamaged(files: Iterable[File], damaged: set[str]) -> Iterator[pa.Table]:
    """The events of each file that concern a topic; the names of damaged files are added."""
    for file in files:
        try:
            yield pa.Table.from_batches(list(_of_topics(file)), schema=_SCHEMA)
        except Damaged:
            damaged.add(file.path)


def _of_topics(file: File) -> Iterator[pa.RecordBatch]:
    """The events of a file that concern a topic."""
    for batch in OpenedFile(file.path, None).all_rows(NEEDED):
        topics = batch.column("topic")
        rows = batch.filter(pc.is_valid(topics)) if topics.null_count else batch
        yield rows.cast(_SCHEMA)


def _split(tables: Iterable[pa.Table], parts: int) -> Iterator[pa.Table]:
    """The same events in so many parts, by topic; one is in memory at a time."""
    with tempfile.TemporaryDirectory(prefix="pulsar-conformance-") as folder:
        paths = [Path(folder) / f"{number}.part" for number in range(parts)]
        with ExitStack() as stack:
            writers = [stack.enter_context(pq.ParquetWriter(path, _SCHEMA, compression="zstd")) for path in paths]
            for table in tables:
                topics = table["topic"].unify_dictionaries().combine_chunks()
                part_of = np.array([zlib.crc32(name.encode()) % parts for name in topics.dictionary.to_pylist()])
                part = part_of[topics.indices.to_numpy()]
                for number in np.unique(part).tolist():
                    writers[number].write_table(table.filter(part == number))
        for path in paths:
            yield pq.read_table(path, partitioning=None).cast(_SCHEMA)
            path.unlink()


def _sorted(table: pa.Table) -> pa.Table:
    """As :func:`conformance.history.parquet.in_order`, of names that are dictionaries."""
    table = table.unify_dictionaries().combine_chunks()
    keys = [_ranks(table[name]) for name in ORDER]
    return table.take(np.lexsort(keys[::-1]))


def _ranks(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Numbers in the order of the values of a column, None first."""
    if not pa.types.is_dictionary(column.type):
        return pc.fill_null(pc.cast(column, pa.int64()), np.iinfo(np.int64).min).to_numpy()  # type: ignore[no-any-return]
    names = column.combine_chunks()
    ranks = np.empty(len(names.dictionary) + 1, dtype=np.int64)
    ranks[pc.array_sort_indices(names.dictionary).to_numpy()] = np.arange(len(names.dictionary))
    ranks[-1] = -1  # of None
    of_each: npt.NDArray[np.int64] = ranks[pc.fill_null(names.indices, -1).to_numpy()]
    return of_each
