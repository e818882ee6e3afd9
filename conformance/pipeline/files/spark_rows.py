"""Reads the events of histories with Spark: compacted files in their own order, and the others sorted."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.pandas.types import from_arrow_schema

from conformance.history.parquet import ORDER, SCHEMA
from conformance.pipeline.files.compacted_files import by_partition
from conformance.pipeline.files.footers import File
from conformance.pipeline.files.history_files import FAULTS_AT_MOST, Files, OfNoTopic, of_no_topic

_SORTED_BYTES = 32 * 2**20
"""How many bytes of files that are not compacted one sorted partition has at most."""


def each_a_row(spark: SparkSession, files: Sequence[File]) -> DataFrame:
    """A row for each file, with its path and its content (null for a local file), one in each partition."""
    local = by_partition(files)
    other = [file.path for file in files if not file.is_local]
    parts = []
    if local:
        path = F.get(F.array(*(F.lit(file.path) for file in local)), F.col("id"))
        numbers = spark.range(0, len(local), 1, len(local))
        parts.append(numbers.select(path.alias("path"), F.lit(None).cast("binary").alias("content")))
    if other:
        parts.append(spark.read.format("binaryFile").load(other).select("path", "content"))
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def events_of(spark: SparkSession, files: Files) -> DataFrame:
    """All events that concern a topic, in order, for :mod:`conformance.pipeline.results`."""
    parts = []
    if files.in_order:
        parts.append(_rows(spark, files.in_order))
    if files.loose:
        loose = rows_of(spark, files.loose).where(F.col("topic").isNotNull())
        parts.append(loose.repartition(_partitions(spark, files.loose), "run", "topic").sortWithinPartitions(*ORDER))
    events = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
    return events.where(F.col("topic").isNotNull())


def without_topic(spark: SparkSession, files: Files) -> OfNoTopic:
    """As :func:`conformance.pipeline.files.history_files.of_no_topic`, of these files."""
    files_to_read = [file for file in files.all if not file.names_topics_only]
    if not files_to_read:
        return OfNoTopic()
    events = rows_of(spark, files_to_read).where(F.col("topic").isNull())
    return of_no_topic([row.asDict() for row in events.limit(FAULTS_AT_MOST + 1).collect()])


def rows_of(spark: SparkSession, files: Sequence[File], *, is_lenient: bool = False) -> DataFrame:
    """All rows of these files, in no order; ``is_lenient``: without those that cannot be read.

    A task reads several small files, because a task costs more than a small file.
    """
    return _rows(spark, files, is_lenient=is_lenient).coalesce(_partitions(spark, files))


def _rows(spark: SparkSession, files: Sequence[File], *, is_lenient: bool = False) -> DataFrame:
    """The same, each file in a partition of its own."""
    reader = spark.read.schema(from_arrow_schema(SCHEMA)).option("parquet.page.verify-checksum.enabled", "true")
    reader = reader.option("ignoreCorruptFiles", is_lenient)
    return reader.parquet(*(file.path for file in files))


def _partitions(spark: SparkSession, files: Sequence[File]) -> int:
    """One for each core, or more if they would be large."""
    at_least: int = spark.sparkContext.defaultParallelism
    return max(at_least, 1 + sum(file.size_bytes for file in files) // _SORTED_BYTES)
