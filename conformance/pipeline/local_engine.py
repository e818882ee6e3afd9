"""``verify`` on this machine alone, without Spark and Java: the same functions, in a process for each core.

A compacted file is judged as it is read. Other files are sorted in memory, all files of a bucket at once, because the
events of a topic are in one bucket; compact a large history first.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from conformance.harness_error import HarnessError
from conformance.history.parquet import SCHEMA, in_order
from conformance.pipeline.files.compacted_files import NOT_ALL_ROWS, ROWS_OF_A_BATCH, Damaged, OpenedFile, by_partition
from conformance.pipeline.files.footers import File
from conformance.pipeline.files.history_files import FAULTS_AT_MOST, Files, OfNoTopic, of_no_topic, parts_of
from conformance.pipeline.files.local_files import LocalStorage
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.results import NEEDED, judge_batches, judge_file
from conformance.pipeline.topic import VerificationSetting

ALONE_BYTES = 4 * 2**20
"""A smaller history is judged by this process, which takes less time than the start of others."""
Judged = tuple[pa.RecordBatch, frozenset[str]]
"""Results, and the files that turned out to be damaged."""
_SCHEMA = pa.schema([SCHEMA.field(name).with_nullable(True) for name in NEEDED])


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
        loose = parts_of(Files(in_order=(), loose=files.loose, problems=())) if files.loose else {}
        tasks: list[Callable[[], Judged]] = [
            *(partial(_judge_sorted, tuple(part.loose), setting) for part in loose.values()),
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
        try:
            with ProcessPoolExecutor(cores, context) as pool:
                return [future.result() for future in [pool.submit(task) for task in tasks]]
        except BrokenProcessPool as error:
            why = "a process was killed, most likely because the machine's memory ran out"
            raise HarnessError(f"{why}: compact the history first, or use a machine with more memory") from error


def _without(files: Files, damaged: Iterable[str]) -> Files:
    """The files without these, and a sentence for each."""
    named = sorted(damaged)
    return files.without(named, [f"{path} is damaged: {NOT_ALL_ROWS}" for path in named])


def _judge_in_order(path: str, setting: VerificationSetting) -> Judged:
    return judge_file(OpenedFile(path, None), setting), frozenset()


def _judge_sorted(files: Sequence[File], setting: VerificationSetting) -> Judged:
    """Sort the events of files that have all of their topics, and judge them."""
    damaged = set()
    tables = []
    for file in files:
        try:
            tables.append(pa.Table.from_batches(list(_of_topics(file)), schema=_SCHEMA))
        except Damaged:
            damaged.add(file.path)
    table = in_order(pa.concat_tables(tables)) if tables else _SCHEMA.empty_table()
    return judge_batches(table.to_batches(ROWS_OF_A_BATCH), setting, INVARIANTS), frozenset(damaged)


def _of_topics(file: File) -> Iterator[pa.RecordBatch]:
    """The events of a file that concern a topic."""
    for batch in OpenedFile(file.path, None).all_rows(NEEDED):
        topics = batch.column("topic")
        rows = batch.filter(pc.is_valid(topics)) if topics.null_count else batch
        yield rows.cast(_SCHEMA)
