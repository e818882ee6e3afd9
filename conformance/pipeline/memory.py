"""A worker that lacks memory, as a sentence with the place and the remedy.

A worker needs the most memory, because it judges whole topics. If it can, it names the topic and judges the
others.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from conformance.pipeline.topic import OutOfMemory

NEEDS = "a topic needs 500 MB, or 70 bytes for each of its events if that is more"
"""The memory of a topic in a worker, measured (``python -m tests.quality.topic_memory``)."""

_OTHERWISE = "use a machine with more memory, or give such topics partitions"
FEWER = f"run fewer side by side (--master local[1]), {_OTHERWISE}"


@dataclass(frozen=True, slots=True)
class Worker:
    """What judges topics: its name, and what gives it more memory, if its limit is reached and otherwise."""

    name: str
    raises_limit: str
    fewer: str


OF_SPARK = Worker("a Python worker", "give workers more (--conf spark.executor.pyspark.memory=4g)", FEWER)
LOCAL = Worker(
    "a process", "raise the limit (ulimit -v)", f"use fewer cores (taskset -c 0 pulsar-conformance …), {_OTHERWISE}"
)


def ran_out_in_worker(worker: Worker, error: OutOfMemory, path: str) -> str:
    """The sentence of a worker that lacks memory; ``path``: the file that it reads, if that is only one."""
    run, topic, _ = error.identity
    where = f" of {path}" if path else ""
    limited = _limited()
    remedy = f"{worker.raises_limit}, {worker.fewer}" if limited else worker.fewer
    return (
        f"memory ran out in {worker.name}{limited} at topic {topic} of run {run}{where}, of which it read"
        f" {error.events} events; {NEEDS}: {remedy}"
    )


def _limited() -> str:
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "" if limit_bytes == resource.RLIM_INFINITY else f", which may have {limit_bytes // 2**20} MiB,"
