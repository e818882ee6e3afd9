"""Opens compacted files where they are judged: a row of Spark's is a file, and no event crosses from Java to Python.

A file of this machine's is opened by its path. From any other file system Spark brings the content, compressed as it
is. Columns of names stay what they are in the file, dictionaries; every page is held against its checksum, if it has
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from conformance.history.parquet import SCHEMA, completed
from conformance.history.recorded import ADDED
from conformance.pipeline.files.file_systems import local_path
from conformance.pipeline.files.footers import File

ROWS_OF_A_BATCH = 131_072

NOT_ALL_ROWS = "its end can be read, but not all of its rows"
"""What is wrong with a damaged file, in words."""

_NAMES = [field.name for field in SCHEMA if pa.types.is_string(field.type) and field.name not in ADDED]
"""What is read as a dictionary; a column that a file may lack cannot be asked for."""


class Damaged(Exception):
    """A file's footer could be read, but not all of its rows."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A file in a worker: its address, and its content unless it is opened by its path."""

    path: str
    content: pa.Buffer | None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The events that concern a topic, in their order.

        Raises:
            Damaged: not all rows can be read.
            MemoryError: there is not enough memory to read them.
        """
        source = local_path(self.path) if self.content is None else pa.BufferReader(self.content)
        try:
            with pq.ParquetFile(source, read_dictionary=_NAMES, page_checksum_verification=True) as file:
                for rows in file.iter_batches(ROWS_OF_A_BATCH, columns=list(columns), use_threads=False):
                    batch = completed(rows, columns)
                    topic = batch.column("topic")
                    yield batch.filter(topic.is_valid()) if topic.null_count else batch
        except MemoryError:  # an exception of Arrow's, too, but nothing is wrong with the file
            raise
        except (pa.ArrowException, OSError) as error:
            raise Damaged(self.path) from error


def each_a_row(spark: SparkSession, files: Sequence[File]) -> DataFrame:
    """A row for each file, with its path and its content (null where it can be opened by its path), each alone."""
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


def by_partition(files: Sequence[File]) -> list[File]:
    """The files of this machine's, by the number of the partition that each is alone in."""
    return sorted((file for file in files if file.is_local), key=lambda file: -file.size_bytes)


def opened(rows: Iterable[pa.RecordBatch]) -> Iterator[Opened]:
    """The files of :func:`each_a_row`, in a worker."""
    for batch in rows:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield Opened(path.as_py(), content.as_buffer())
