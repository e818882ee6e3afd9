"""Large topics on disk: their rows and columns are files that are mapped into memory.

So a topic takes space in the folder for temporary files (``TMPDIR``), and the system reads what an invariant needs.
Memory has what an invariant computes of the rows that it selects.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from conformance.harness_error import HarnessError

ON_DISK_FROM = 1_000_000
"""A topic with so many events is on disk."""

PREFIX = "pulsar-conformance-"

_MAPPED: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

Number = TypeVar("Number", bound=np.generic)


class CollectedRows:
    """The rows of a topic while they are read, in memory or on disk."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._path: Path | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        self.first: pa.RecordBatch | None = None
        self.number = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of the same topic.

        Raises:
            HarnessError: the disk has no room for them.
        """
        self.first = self.first or batch.slice(0, 1)
        self.number += batch.num_rows
        self._batches.append(batch)
        if self.number >= ON_DISK_FROM:
            self._write()

    def _write(self) -> None:
        try:
            if self._writer is None:
                descriptor, name = tempfile.mkstemp(prefix=PREFIX)
                os.close(descriptor)
                self._path = Path(name)
                self._writer = pa.ipc.new_stream(name, self._batches[0].schema)
            for batch in self._batches:
                self._writer.write_batch(batch)
        except OSError as error:
            raise _no_room(error) from error
        self._batches.clear()

    def taken(self) -> pa.Table:
        """All rows; there are none afterwards."""
        if self._writer is None or self._path is None:
            table = pa.Table.from_batches(self._batches).unify_dictionaries().combine_chunks()
        else:
            self._writer.close()
            with self._path.open("rb") as file:
                mapped = _mapped(file.fileno(), file.seek(0, os.SEEK_END), mmap.ACCESS_READ)
            table = pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()
        self.clear()
        return table

    def clear(self) -> None:
        """Forget the rows; a file that is mapped stays until the last row of it is forgotten."""
        if self._path is not None:
            self._path.unlink()
        self._clear()


def empty(length: int, kind: type[Number]) -> npt.NDArray[Number]:
    """An array to fill; on disk if it is for a large topic.

    Raises:
        HarnessError: the disk has no room for it.
    """
    if length < ON_DISK_FROM:
        return np.empty(length, kind)
    size_bytes = length * np.dtype(kind).itemsize
    try:
        with tempfile.TemporaryFile(prefix=PREFIX) as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)  # the process would be killed for want of room later
            return np.frombuffer(_mapped(file.fileno(), size_bytes, mmap.ACCESS_WRITE), kind)
    except OSError as error:
        raise _no_room(error) from error


def joined(parts: Iterable[npt.NDArray[Any]], length: int, kind: type[Number]) -> npt.NDArray[Number]:
    """Arrays one after the other; on disk if they are of a large topic."""
    if length < ON_DISK_FROM:
        return np.concatenate(arrays) if len(arrays := [*parts]) > 1 else arrays[0].astype(kind, copy=False)
    first = 0
    values = empty(length, kind)
    for part in parts:
        values[first : first + len(part)] = part
        first += len(part)
    return values


def _mapped(file: int, size_bytes: int, access: int) -> mmap.mmap:
    try:
        mapped = mmap.mmap(file, size_bytes, access=access)
    except OSError as error:
        raise _no_room(error) from error
    _MAPPED.add(mapped)
    return mapped


def release_pages() -> None:
    """Keep no part of a file in memory that the system can read again."""
    for mapped in _MAPPED:
        mapped.madvise(mmap.MADV_DONTNEED)


def _no_room(error: OSError) -> Exception:
    if error.errno == errno.ENOMEM:  # the address space is limited
        return MemoryError()
    why = f"{tempfile.gettempdir()}: {error.strerror or error}"
    return HarnessError(f"a large topic cannot be written to {why}; TMPDIR names another folder")
