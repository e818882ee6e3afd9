"""Failures for lack of memory, as sentences with the place and the remedy.

A Python worker needs the most memory, because it judges whole topics. If it can, it names the topic and judges the
others. If the kernel kills it, or Java's heap is full, Spark fails, and this module finds the cause in its message.
"""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from conformance.pipeline.files.compacted_files import by_partition
from conformance.pipeline.files.file_systems import reason
from conformance.pipeline.files.footers import File
from conformance.pipeline.topic import OutOfMemory

BYTES_OF_AN_EVENT = 390
"""The memory of a topic in a worker, measured (``python -m tests.quality.topic_memory``)."""

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
_FEWER = "run fewer side by side (--master local[1]), use a machine with more memory, or give such topics partitions"


def ran_out_in_worker(error: OutOfMemory, path: str) -> str:
    """The sentence of a worker that lacks memory; ``path``: the file that it reads, if that is only one."""
    run, topic, _ = error.identity
    where = f" of {path}" if path else ""
    return (
        f"memory ran out in a Python worker{_limited()} at topic {topic} of run {run}{where}, of which it read"
        f" {error.events} events; a topic needs some {BYTES_OF_AN_EVENT} bytes for each of its events: {_remedy()}"
    )


def _limited() -> str:
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "" if limit_bytes == resource.RLIM_INFINITY else f", which may have {limit_bytes // 2**20} MiB,"


def _remedy() -> str:
    more = "" if not _limited() else "give workers more (--conf spark.executor.pyspark.memory=4g), "
    return more + _FEWER


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
            f"a Python worker ended{_at(text, files)}, most likely killed because the machine's memory ran out; a topic"
            f" needs some {BYTES_OF_AN_EVENT} bytes for each of its events: {_FEWER}"
        )
    if _WORKER_FULL.search(text):
        return (
            f"memory ran out in a Python worker{_at(text, files)}; a topic needs some {BYTES_OF_AN_EVENT} bytes for"
            f" each of its events: give workers more (--conf spark.executor.pyspark.memory=4g), {_FEWER}"
        )
    if _KILLED.search(text):
        more = "give executors more (--conf spark.executor.memoryOverhead=4g is for their Python workers)"
        return f"an executor was killed{_at(text, files)}, because it took more memory than it may: {more}, or {_FEWER}"
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
        return f"Spark's Java was killed, most likely because the machine's memory ran out: {_FEWER}"
    return f"Spark's Java ended with status {status} (--conf spark.log.level=ERROR shows its log)"
