"""Spark as the engine of ``verify``: on this machine or a cluster, over any Hadoop file system."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from conformance.harness_error import HarnessError
from conformance.pipeline.files.compacted_files import NOT_ALL_ROWS
from conformance.pipeline.files.file_systems import HadoopStorage
from conformance.pipeline.files.footers import File
from conformance.pipeline.files.history_files import Files, OfNoTopic
from conformance.pipeline.files.spark_rows import without_topic
from conformance.pipeline.spark_failures import failure
from conformance.pipeline.spark_results import results_of
from conformance.pipeline.topic import VerificationSetting
from conformance.pipeline.verdict import DAMAGED_AT_MOST

_Read = TypeVar("_Read")


class SparkEngine:
    """Judges with the Python workers of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.storage = HadoopStorage(spark)

    def of_no_topic(self, files: Files) -> tuple[Files, OfNoTopic]:
        """As :meth:`conformance.pipeline.verdict.Engine.of_no_topic`."""
        return self._undamaged(files, lambda files: without_topic(self.spark, files), OfNoTopic())

    def judged(self, files: Files, setting: VerificationSetting) -> tuple[Files, list[dict[str, Any]]]:
        """As :meth:`conformance.pipeline.verdict.Engine.judged`."""
        nothing: list[Row] = []
        files, rows = self._undamaged(files, lambda files: results_of(self.spark, files, setting).collect(), nothing)
        return files, [row.asDict(recursive=True) for row in rows]

    def _undamaged(self, files: Files, read: Callable[[Files], _Read], nothing: _Read) -> tuple[Files, _Read]:
        """Read all files that can be read whole; ``nothing`` if there is none."""
        for _ in range(DAMAGED_AT_MOST):
            if not files.all:
                return files, nothing
            try:
                return files, read(files)
            except (PySparkException, Py4JError, ConnectionError) as error:
                files = self._without_damaged(files, error)
        raise HarnessError(f"more than {DAMAGED_AT_MOST} files of the histories are damaged")

    def _without_damaged(self, files: Files, error: Exception) -> Files:
        """Leave out the file that Spark failed to read; HarnessError if the failure has another cause."""
        named = re.search(r"FAILED_READ_FILE[^\n]*?(\S+\.parquet)", str(error))
        damaged = named and next((file for file in files.all if _is(file, named[1])), None)
        if not damaged:
            raise HarnessError(failure(self.spark, error, files.in_order)) from error
        return files.without({damaged.path}, [f"{damaged.path} is damaged: {NOT_ALL_ROWS}"])


def _is(file: File, address: str) -> bool:
    """Whether this is the address of the file, with any number of slashes."""
    return re.sub(r"^\w+:/*", "/", file.path) == re.sub(r"^\w+:/*", "/", address)
