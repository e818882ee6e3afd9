"""Memory that runs out is reported in one sentence that names the place; no file is called damaged for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from conformance.pipeline.spark_failures import failure

JUDGES_WITH_LITTLE_MEMORY = """
import json, resource, sys
import psutil, pyarrow as pa
from conformance.pipeline.results import NEEDED, judge_batches
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.topic import VerificationSetting
from tests.pipeline.histories import realistic

tables = [realistic.topic_table(number, entries=entries) for number, entries in enumerate((1000, 300_000, 1000))]
batches = [batch for table in tables for batch in table.select(NEEDED).to_batches(max_chunksize=20_000)]
judge_batches(batches[:1], VerificationSetting(), INVARIANTS)
limit_bytes = psutil.Process().memory_info().vms + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
rows = judge_batches(batches, VerificationSetting(), INVARIANTS, path="file:/h/x.parquet").to_pylist()
print(json.dumps([{name: row[name] for name in ("invariant", "judged", "broken")} | {
    "because": [case["because"] for case in row["cases"]]} for row in rows]))
"""


def judged_within(more_mib: int) -> dict[str, dict[str, Any]]:
    """The results of a small, a large and a small topic, judged with this much more memory."""
    command = [sys.executable, "-c", JUDGES_WITH_LITTLE_MEMORY, str(more_mib)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return {row["invariant"]: row for row in json.loads(ran.stdout)}


def test_a_topic_too_large_for_a_worker_is_named_and_the_others_are_judged() -> None:
    rows = judged_within(100)
    assert rows["memory"]["broken"] == 1
    (sentence,) = rows["memory"]["because"]
    assert "memory ran out in a Python worker, which may have" in sentence
    assert "at topic t000001 of run r of file:/h/x.parquet, of which it read" in sentence
    assert "give workers more (--conf spark.executor.pyspark.memory=4g)" in sentence
    assert "damaged" not in rows
    assert rows["positions rise"]["judged"] > 0


def test_with_enough_memory_all_topics_are_judged() -> None:
    assert "memory" not in judged_within(2000)


def why(spark: SparkSession, act: Callable[[], object]) -> str:
    """The sentence for a failure."""
    with pytest.raises(Exception) as raised:
        act()
    return failure(spark, raised.value)


def test_a_killed_worker_is_reported(spark: SparkSession) -> None:
    def die(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    sentence = why(spark, spark.range(1).mapInArrow(die, "id long").collect)
    assert sentence.startswith("a Python worker ended, most likely killed because the machine's memory ran out")


def test_a_worker_whose_python_runs_out_of_memory_is_reported(spark: SparkSession) -> None:
    def fill(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bytearray(2**60)
        yield from batches

    assert why(spark, spark.range(1).mapInArrow(fill, "id long").collect).startswith(
        "memory ran out in a Python worker"
    )


def test_a_full_heap_of_the_driver_is_reported(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    sentence = why(spark, lambda: [jvm.java.nio.LongBuffer.allocate(2**31 - 1) for _ in range(10)])
    assert sentence.startswith(
        "memory ran out in Spark's Java (the driver): give Java more (--conf spark.driver.memory"
    )


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            "Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.7 executor 2): java.lang.OutOfMemoryError: Java heap space",
            "memory ran out in Spark's Java (executor 2): give executors more (--conf spark.executor.memory",
        ),
        (
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with"
            " code 137",
            "an executor was killed, because it took more memory than it may",
        ),
        ("[TABLE_OR_VIEW_NOT_FOUND] no such table\nmore", "Spark failed: [TABLE_OR_VIEW_NOT_FOUND] no such table ("),
    ],
)
def test_an_error_of_a_cluster_is_reported_in_words(spark: SparkSession, error: str, sentence: str) -> None:
    assert failure(spark, RuntimeError(error)).startswith(sentence)
