"""Opens compacted files in the worker that judges them: a row of Spark is a file, and Java passes no event to Python.

A local file is opened by its path. From any other file system Spark reads the compressed content. Columns of names stay
dictionaries, as in the file. The checksum of each page is verified, if it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from conformance.history.parquet import DAMAGE, SCHEMA, completed
from conformance.history.recorded import ADDED
from conformance.pipeline.files.file_systems import local_path
from conformance.pipeline.files.footers import File

ROWS_OF_A_BATCH = 131_072

NOT_ALL_ROWS = "its end can be read, but not all of its rows"
"""The problem of a damaged file."""

_NAMES = [field.name for field in SCHEMA if pa.types.is_string(field.type) and field.name not in ADDED]
"""The columns that are read as dictionaries, without those that a file may lack."""


class Damaged(Exception):
    """A file's footer could be read, but not all of its rows."""


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file in a worker: its address, and its content if it is not local."""

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
                missing = file.metadata.num_rows
                for rows in file.iter_batches(ROWS_OF_A_BATCH, columns=list(columns), use_threads=False):
                    missing -= rows.num_rows
                    batch = completed(rows, columns)
                    topic = batch.column("topic")
                    yield batch.filter(topic.is_valid()) if topic.null_count else batch
                if missing:
                    raise Damaged(self.path)
        except MemoryError:  # Arrow's exceptions include it, but the file is not damaged
            raise
        except DAMAGE as error:
            raise Damaged(self.path) from error


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


def by_partition(files: Sequence[File]) -> list[File]:
    """The local files, by the number of their partitions."""
    return sorted((file for file in files if file.is_local), key=lambda file: -file.size_bytes)


def opened(rows: Iterable[pa.RecordBatch]) -> Iterator[OpenedFile]:
    """The files of :func:`each_a_row`, in a worker."""
    for batch in rows:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield OpenedFile(path.as_py(), content.as_buffer())
