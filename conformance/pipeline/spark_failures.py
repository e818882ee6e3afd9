"""Why Spark failed, as a sentence with the place and the remedy.

If the kernel kills a worker, or Java's heap is full, Spark fails, and this module finds the cause in its message.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from conformance.pipeline.files.compacted_files import by_partition
from conformance.pipeline.files.file_systems import reason
from conformance.pipeline.files.footers import File
from conformance.pipeline.memory import FEWER, NEEDS

_SHELL_KILLED = 128
_KILL_SIGNAL = 9
_HEAP_EXIT_STATUS = 52
"""The exit status of Spark's Java with a full heap."""

_HEAP = re.compile(r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|exited with code 52\b")
_WORKER_GONE = re.compile(r"Python worker exited unexpectedly|Python worker .{0,80}EOFException")
_WORKER_FULL = re.compile(r"\b(?:_Array|Arrow)?MemoryError\b")
_KILLED = re.compile(
    r"(?:exit(?:ed with)? (?:code|status):? ?|status )137\b|OOMKilled|[Ee]xceeding (?:physical )?memory"
)
_EXECUTOR = re.compile(r"\([^()\s]+ executor (?P<name>\w+)\)")
_TASK = re.compile(r"Task (?P<number>\d+) in stage")

_DRIVER_HEAP = (
    "give Java more (--conf spark.driver.memory=4g), or compact the history first, so that Java holds no events"
)
_EXECUTOR_HEAP = (
    "give executors more (--conf spark.executor.memory=4g), or compact the history first, so that Java holds no events"
)


def ran_out(spark: SparkSession, error: Exception, files: Sequence[File] = ()) -> str | None:
    """The sentence for a failure of Spark if memory ran out; ``files``: those that have a row each."""
    text = str(error)
    executor = _EXECUTOR.search(text)
    is_on_cluster = executor is not None and executor["name"] != "driver"
    java = f"executor {executor['name']}" if executor is not None and is_on_cluster else "the driver"
    if _HEAP.search(text):
        return f"memory ran out in Spark's Java ({java}): {_EXECUTOR_HEAP if is_on_cluster else _DRIVER_HEAP}"
    if _WORKER_GONE.search(text):
        return (
            f"a Python worker ended{_at(text, files)}, most likely killed because the machine's memory ran out;"
            f" {NEEDS}: {FEWER}"
        )
    if _WORKER_FULL.search(text):
        return (
            f"memory ran out in a Python worker{_at(text, files)}; {NEEDS}:"
            f" give workers more (--conf spark.executor.pyspark.memory=4g), {FEWER}"
        )
    if _KILLED.search(text):
        more = "give executors more (--conf spark.executor.memoryOverhead=4g is for their Python workers)"
        return f"an executor was killed{_at(text, files)}, because it took more memory than it may: {more}, or {FEWER}"
    is_silent = isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)
    return _java_ended(spark) if is_silent else None


def failure(spark: SparkSession, error: Exception, files: Sequence[File] = ()) -> str:
    """Why Spark failed, in one sentence."""
    memory = ran_out(spark, error, files)
    if memory is not None:
        return memory
    why = reason(error) if isinstance(error, Py4JJavaError) else (str(error).strip().splitlines() or [repr(error)])[0]
    return f"Spark failed: {why} (--conf spark.log.level=ERROR shows its log)"


def _at(text: str, files: Sequence[File]) -> str:
    """The file, by the number of the task, which is that of the row."""
    task = _TASK.search(text)
    rows = by_partition(files)
    return f" at {rows[int(task['number'])].path}" if task and int(task["number"]) < len(rows) else ""


def _java_ended(spark: SparkSession) -> str | None:
    """Why Spark's Java has ended; None if it runs, or another process started it."""
    gateway: Any = spark.sparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return None
    try:
        status = process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        return None
    if status == _HEAP_EXIT_STATUS:
        return f"memory ran out in Spark's Java (the driver): {_DRIVER_HEAP}"
    if status in (-_KILL_SIGNAL, _SHELL_KILLED + _KILL_SIGNAL):
        return f"Spark's Java was killed, most likely because the machine's memory ran out: {FEWER}"
    return f"Spark's Java ended with status {status} (--conf spark.log.level=ERROR shows its log)"
