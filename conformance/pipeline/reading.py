"""Finds the files of histories, examines each before it is trusted, and gives their events in order.

Everything goes through Spark's Hadoop file systems: the driver reads the footers, the workers open nothing themselves.
A file that is cut off, has another version of the schema or lacks a column is a *problem*, one sentence that names it;
the others are read all the same. What was compacted comes in the order of its files; only the rest is sorted, by Spark.
"""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.history.parquet import COMPACTED, ORDER, REPLACES_KEY, RUNS_KEY, SCHEMA, VERSION_KEY
from conformance.history.recorded import VERSION, Kind
from conformance.pipeline.topic import Fault
from conformance.trouble import Trouble

FAULTS_AT_MOST = 100_000
"""How many faults of whole clusters are carried along to every worker."""

_SORTED_BYTES = 32 * 2**20
"""How much of what is not compacted goes to one partition when it is sorted."""

_PHYSICAL = {pa.int64(): "INT64", pa.int32(): "INT32", pa.bool_(): "BOOLEAN", pa.string(): "BINARY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One whole file of a history: its address, and what its footer says."""

    path: str
    size_bytes: int
    runs: frozenset[str]
    replaces: frozenset[str]

    @property
    def bucket(self) -> str:
        """The folder that it is in."""
        return posixpath.dirname(self.path)

    @property
    def history(self) -> str:
        """The folder of the whole history."""
        return posixpath.dirname(self.bucket)

    @property
    def is_compacted(self) -> bool:
        """Whether it was made of all that was in its bucket then."""
        return posixpath.basename(self.path).startswith(COMPACTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What there is to read: whole files that nothing replaces, and problems, a sentence each."""

    in_order: tuple[File, ...]
    """Each the only one of its bucket, and its runs in no other history: to be read as they are."""
    loose: tuple[File, ...]
    problems: tuple[str, ...]


def examine(spark: SparkSession, addresses: Sequence[str]) -> Files:
    """Look at every file below these folders (or at these files).

    Raises:
        Trouble: an address does not exist or cannot be listed.
    """
    whole: list[File] = []
    problems: list[str] = []
    for address in addresses:
        found = list(_listed(spark, address))
        if not found:
            problems.append(f"there is no file of a history in {address}")
        for path, size_bytes in found:
            examined = _examined(spark, path, size_bytes)
            if isinstance(examined, File):
                whole.append(examined)
            else:
                problems.append(examined)
    return _laid_out(whole, tuple(problems))


def _laid_out(whole: Sequence[File], problems: tuple[str, ...]) -> Files:
    replaced = {posixpath.join(file.bucket, name) for file in whole for name in file.replaces}
    buckets: dict[str, list[File]] = defaultdict(list)
    histories: dict[str, set[str]] = defaultdict(set)
    for file in {file.path: file for file in whole if file.path not in replaced}.values():
        buckets[file.bucket].append(file)
        for run in file.runs:
            histories[run].add(file.history)
    in_order: list[File] = []
    loose: list[File] = []
    for files in buckets.values():
        is_alone = len(files) == 1 and files[0].is_compacted
        is_whole = is_alone and bool(files[0].runs) and all(len(histories[run]) == 1 for run in files[0].runs)
        (in_order if is_whole else loose).extend(files)
    return Files(in_order=tuple(in_order), loose=tuple(loose), problems=problems)


def events_of(spark: SparkSession, files: Files) -> DataFrame:
    """All events that concern a topic, in order: what :mod:`conformance.pipeline.judging` is given."""
    parts = []
    if files.in_order:
        parts.append(_read(spark, files.in_order))
    if files.loose:
        partitions = 1 + sum(file.size_bytes for file in files.loose) // _SORTED_BYTES
        loose = _read(spark, files.loose).where(F.col("topic").isNotNull())
        parts.append(loose.repartition(partitions, "run", "topic", "cluster").sortWithinPartitions(*ORDER))
    events = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
    return events.where(F.col("topic").isNotNull())


def faults_of(spark: SparkSession, files: Files) -> tuple[Fault, ...]:
    """The faults of whole clusters.

    Raises:
        Trouble: there are more than can be carried to every worker.
    """
    events = _read(spark, (*files.in_order, *files.loose)).where(F.col("topic").isNull())
    faults = events.where(F.col("kind") == str(Kind.FAULT)).limit(FAULTS_AT_MOST + 1).collect()
    if len(faults) > FAULTS_AT_MOST:
        raise Trouble(f"the histories tell of more than {FAULTS_AT_MOST} faults of whole clusters")
    return tuple(
        Fault(
            run=row["run"],
            cluster=row["cluster"],
            name=row["fault"],
            invoked_ns=-1 if row["invoked_ns"] is None else row["invoked_ns"],
            completed_ns=row["completed_ns"],
        )
        for row in faults
    )


def _read(spark: SparkSession, files: Sequence[File]) -> DataFrame:
    return spark.read.schema(from_arrow_schema(SCHEMA)).parquet(*(file.path for file in files))


# ------------------------------------------------------------------------------------------- the JVM's file systems


def _listed(spark: SparkSession, address: str) -> Iterator[tuple[str, int]]:
    """The files below an address, with their sizes in bytes; hidden ones are being written."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(address)
    try:
        files = path.getFileSystem(_hadoop(spark)).listFiles(path, True)
        while files.hasNext():
            status = files.next()
            if status.getPath().getName().endswith(".parquet") and not status.getPath().getName().startswith("."):
                yield status.getPath().toString(), status.getLen()
    except Py4JJavaError as error:
        raise Trouble(f"{address} cannot be read: {_reason(error)}") from error


def _examined(spark: SparkSession, path: str, size_bytes: int) -> File | str:
    """The file, or what is wrong with it."""
    try:
        footer, columns = _footer(spark, path)
    except Py4JJavaError as error:
        return f"{path} is not a whole Parquet file: {_reason(error)}"
    version = footer.get(VERSION_KEY.decode())
    if version is None:
        return f"{path} is no file of a history: it does not say which version of the schema it has"
    if version != str(VERSION):
        return f"{path} has version {version} of the schema; this suite reads version {VERSION}"
    for field in SCHEMA:
        if field.name not in columns:
            return f"{path} lacks the column {field.name}"
        if columns[field.name] != _PHYSICAL[field.type]:
            return (
                f"{path} has {columns[field.name]} in the column {field.name}, which should be {_PHYSICAL[field.type]}"
            )
    return File(
        path=path,
        size_bytes=size_bytes,
        runs=frozenset(json.loads(footer.get(RUNS_KEY.decode(), "[]"))),
        replaces=frozenset(json.loads(footer.get(REPLACES_KEY.decode(), "[]"))),
    )


def _footer(spark: SparkSession, path: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a file's footer says, and the physical type of each column."""
    jvm: Any = spark._jvm
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(
        jvm.org.apache.hadoop.fs.Path(path), _hadoop(spark)
    )
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        told = reader.getFooter().getFileMetaData()
        columns = {
            field.getName(): field.asPrimitiveType().getPrimitiveTypeName().name() if field.isPrimitive() else "a group"
            for field in told.getSchema().getFields()
        }
        return dict(told.getKeyValueMetaData()), columns
    finally:
        reader.close()


def _hadoop(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


def _reason(error: Py4JJavaError) -> str:
    """What Java says, in one line."""
    return str(error.java_exception.getMessage() or error.java_exception.getClass().getName()).splitlines()[0]
