"""Opens compacted files in the worker that judges them: a row of Spark is a file, and Java passes no event to Python.

A local file is opened by its path. From any other file system Spark reads the compressed content. Columns of names stay
dictionaries, as in the file. The checksum of each page is verified, if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance.history.parquet import DAMAGE, ORDER, REQUIRED, SCHEMA, completed
from conformance.history.recorded import ADDED
from conformance.pipeline.files.addresses import local_path
from conformance.pipeline.files.footers import File

ROWS_OF_A_BATCH = 131_072

_OF_A_TOPIC = ORDER[:3]
"""The columns of the order that identify a topic."""

_BEFORE_ALL = np.iinfo(np.int64).min

NOT_ALL_ROWS = "its end can be read, but not all of its rows"
"""The problem of a damaged file."""

_NAMES = [field.name for field in SCHEMA if pa.types.is_string(field.type) and field.name not in ADDED]
"""The columns that are read as dictionaries, without those that a file may lack."""


NOT_IN_ORDER = "its rows are not in the order of a history"


class Damaged(Exception):
    """A file's footer could be read, but not all of its rows, or they are no history; ``because``: the problem."""

    def __init__(self, because: str = NOT_ALL_ROWS) -> None:
        super().__init__(because)
        self.because = because


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file in a worker: its address, and its content if it is not local."""

    path: str
    content: pa.Buffer | None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The events that concern a topic, in their order.

        Raises:
            Damaged: not all rows can be read, or they are no history.
            MemoryError: there is not enough memory to read them.
        """
        checked = _CheckedRows()
        for batch in self.all_rows(columns):
            checked.demand_sound(batch)
            topic = batch.column("topic")
            yield batch.filter(topic.is_valid()) if topic.null_count else batch

    def all_rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All events, in whatever order the file has them.

        Raises:
            Damaged: not all rows can be read.
            MemoryError: there is not enough memory to read them.
        """
        source = local_path(self.path) if self.content is None else pa.BufferReader(self.content)
        try:
            with pq.ParquetFile(source, read_dictionary=_NAMES, page_checksum_verification=True) as file:
                missing = file.metadata.num_rows
                for rows in file.iter_batches(ROWS_OF_A_BATCH, columns=list(columns), use_threads=False):
                    missing -= rows.num_rows
                    yield completed(rows, columns)
                if missing:
                    raise Damaged
        except MemoryError:  # Arrow's exceptions include it, but the file is not damaged
            raise
        except DAMAGE as error:
            raise Damaged from error


class _CheckedRows:
    """Checks that the rows of a file have all required values, and are in order."""

    def __init__(self) -> None:
        self._last: pa.RecordBatch | None = None

    def demand_sound(self, batch: pa.RecordBatch) -> None:
        """Raises Damaged."""
        for name in REQUIRED:
            if batch.column(name).null_count:
                raise Damaged(f"an event of it has no {name}")
        if not batch.num_rows:
            return
        if not _are_in_order(batch) or (self._last is not None and _row(self._last, 0) > _row(batch, 0)):
            raise Damaged(NOT_IN_ORDER)
        self._last = batch.slice(batch.num_rows - 1)


def _are_in_order(batch: pa.RecordBatch) -> bool:
    """Whether the rows of a batch are in order; topics are compared where they change."""
    numbers = [_numbers(batch, name) for name in ORDER[len(_OF_A_TOPIC) :]]
    rises, is_open = np.zeros(batch.num_rows - 1, np.bool_), np.ones(batch.num_rows - 1, np.bool_)
    for values in numbers:
        rises |= is_open & (values[1:] > values[:-1])
        is_open &= values[1:] == values[:-1]
    is_changed = np.zeros(batch.num_rows - 1, np.bool_)
    for name in _OF_A_TOPIC:
        codes = pc.fill_null(batch.column(name).indices, -1).to_numpy()
        is_changed |= codes[1:] != codes[:-1]
    changes = np.flatnonzero(is_changed).tolist()
    return bool(np.all(rises | is_open | is_changed)) and all(
        _row(batch, row) < _row(batch, row + 1) for row in changes
    )


def _numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = pc.fill_null(pc.cast(batch.column(name), pa.int64()), _BEFORE_ALL).to_numpy()
    return numbers


def _row(batch: pa.RecordBatch, row: int) -> tuple[tuple[bool, Any], ...]:
    """The values of the order, None first."""
    return tuple(
        (one.is_valid, one.as_py() or "") for one in (batch.column(name)[row] for name in _OF_A_TOPIC)
    ) + tuple((True, int(_numbers(batch.slice(row, 1), name)[0])) for name in ORDER[len(_OF_A_TOPIC) :])


def by_partition(files: Sequence[File]) -> list[File]:
    """The local files, by the number of their partitions."""
    return sorted((file for file in files if file.is_local), key=lambda file: -file.size_bytes)


def opened(rows: Iterable[pa.RecordBatch]) -> Iterator[OpenedFile]:
    """The files of :func:`each_a_row`, in a worker."""
    for batch in rows:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield OpenedFile(path.as_py(), content.as_buffer())
