"""A worker that lacks memory, as a sentence with the place and the remedy.

A Python worker needs the most memory, because it judges whole topics. If it can, it names the topic and judges the
others.
"""

from __future__ import annotations

import resource

from conformance.pipeline.topic import OutOfMemory

BYTES_OF_AN_EVENT = 390
"""The memory of a topic in a worker, measured (``python -m tests.quality.topic_memory``)."""

FEWER = "run fewer side by side (--master local[1]), use a machine with more memory, or give such topics partitions"


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
    return more + FEWER
