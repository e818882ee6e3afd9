"""Examines the footers of files: each is a file of a history, or has a problem, which is a sentence.

pyarrow reads the footers: those of local files by path, the others from their last bytes, which the storage reads. It
reads several in parallel, because an object store has a high latency.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.files import opened
from conformance.harness_error import HarnessError
from conformance.history.about import ByRun, of_footer
from conformance.history.parquet import (
    ABOUT_KEY,
    BUCKETS_KEY,
    DAMAGE,
    REPLACES_KEY,
    RUNS_KEY,
    SCHEMA,
    TOPICS_ONLY_KEY,
    VERSION_KEY,
    first_line,
)
from conformance.history.recorded import ADDED, VERSION
from conformance.pipeline.files.addresses import A_LINK, Storage, Unreadable, is_local, local_path

AT_ONCE = 16
"""How many footers are read in parallel."""

TAIL_BYTES = 64 * 2**10
"""How much is read of a file's end at first; a longer footer is read again."""

_PHYSICAL = {pa.int64(): "INT64", pa.int32(): "INT32", pa.bool_(): "BOOLEAN", pa.string(): "BYTE_ARRAY"}

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One whole file of a history: its address, and the facts of its footer."""

    path: str
    size_bytes: int
    events: int
    runs: frozenset[str]
    replaces: frozenset[str]
    about: ByRun
    buckets: frozenset[str]
    """All buckets of its history when it was compacted; none if unknown."""
    fingerprint: bytes
    """The digest of its footer, which two files of different events do not share."""
    names_topics_only: bool
    """Whether each of its events is known to have a topic, so that it has no fault of a whole cluster. It is not known
    of files of earlier versions of the suite."""

    @property
    def bucket(self) -> str:
        return posixpath.dirname(self.path)

    @property
    def history(self) -> str:
        """The folder of the whole history."""
        return posixpath.dirname(self.bucket)

    @property
    def is_local(self) -> bool:
        """Whether it is a local file; on a Spark cluster each machine has it."""
        return is_local(self.path)

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)


def examined(storage: Storage, sizes_bytes: Mapping[str, int]) -> dict[str, File | str]:
    """Each of these files by its path, or its problem."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda path: _examined(storage, path, sizes_bytes[path]), sizes_bytes)
        return dict(zip(sizes_bytes, found, strict=True))


def _examined(storage: Storage, path: str, size_bytes: int) -> File | str:
    try:
        if size_bytes == A_LINK:
            return f"{path} is a symbolic link, which is not followed"
        end = _local_end(path) if is_local(path) else _end(storage, path, size_bytes)
        footer = pq.read_metadata(pa.BufferReader(end))
        metadata = footer.metadata or {}
        wrong = _wrong(footer, metadata)
    except Unreadable as error:
        return f"{path} is not a whole Parquet file: {error}"
    except (*DAMAGE, HarnessError) as error:
        return f"{path} is not a whole Parquet file: {first_line(error)}"
    if wrong:
        return f"{path} {wrong}"
    try:
        return File(
            path=path,
            size_bytes=size_bytes,
            events=footer.num_rows,
            runs=_names(metadata, RUNS_KEY),
            replaces=_names(metadata, REPLACES_KEY),
            buckets=_names(metadata, BUCKETS_KEY),
            fingerprint=blake2b(end[-_footer_bytes(end) :], digest_size=16).digest(),
            about=of_footer(metadata.get(ABOUT_KEY, b"{}")),
            names_topics_only=msgspec.json.decode(metadata.get(TOPICS_ONLY_KEY, b"false"), type=bool),
        )
    except DAMAGE as error:
        return f"{path} has a garbled footer: {first_line(error)}"


def _local_end(path: str) -> bytes:
    """The end of a local file with its footer; only its beginning and end if it is no whole file."""
    with opened(Path(local_path(path))) as file:
        size_bytes: int = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - TAIL_BYTES))
        end: bytes = file.read()
        if len(end) < min(_footer_bytes(end), size_bytes):
            file.seek(max(0, size_bytes - _footer_bytes(end)))
            end = file.read()
    return end


def _end(storage: Storage, path: str, size_bytes: int) -> bytes:
    """The end of a file that is not local, with its footer."""
    end: bytes = storage.end(path, size_bytes, TAIL_BYTES).to_pybytes()
    if len(end) < min(_footer_bytes(end), size_bytes):
        end = storage.end(path, size_bytes, _footer_bytes(end)).to_pybytes()
    return end


def _footer_bytes(end: bytes) -> int:
    """The size of the footer in bytes; that of its last fields if it has none."""
    last = end[-_LENGTH_BYTES - len(_MAGIC) :]
    return len(last) + (int.from_bytes(last[:_LENGTH_BYTES], "little") if last.endswith(_MAGIC) else 0)


def _wrong(footer: pq.FileMetaData, metadata: Mapping[bytes, bytes]) -> str:
    """The problem of a file by its footer, as a predicate; empty if it has none."""
    version = metadata.get(VERSION_KEY)
    if version is None:
        return "is no file of a history: it has no version of the schema"
    if version != str(VERSION).encode():
        return f"has version {version.decode(errors='replace')} of the schema; this suite reads version {VERSION}"
    schema = footer.schema
    columns = {field.path: field.physical_type for field in map(schema.column, range(len(schema)))}
    lacking = [name for name in SCHEMA.names if name not in columns and name not in ADDED]
    if lacking:
        return f"lacks the column {lacking[0]}"
    for name, physical in columns.items():
        if name in SCHEMA.names and physical != _PHYSICAL[SCHEMA.field(name).type]:
            return f"has {physical} in the column {name}, which should be {_PHYSICAL[SCHEMA.field(name).type]}"
    return "" if footer.num_rows else "is empty: there is no event in it"


def _names(metadata: Mapping[bytes, bytes], key: bytes) -> frozenset[str]:
    return msgspec.json.decode(metadata.get(key, b"[]"), type=frozenset[str])
