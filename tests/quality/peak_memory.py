"""What memory the processes of a measurement take at most: Spark's Java, its Python workers, and this one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import psutil

EVERY_S = 0.2


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory at most: Java's, that of the largest Python worker, and this process's own (DuckDB is in it)."""

    java_bytes: int = 0
    worker_bytes: int = 0
    own_bytes: int = 0


@contextmanager
def peak_memory() -> Iterator[Callable[[], Peak]]:
    """Look at this process and its descendants all the while; what is given says what was seen."""
    peak = Peak()
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_over.wait(EVERY_S):
            peak = _more(peak)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield lambda: _more(peak)
    finally:
        is_over.set()
        watching.join()


def _more(peak: Peak) -> Peak:
    java, worker = peak.java_bytes, peak.worker_bytes
    for process in psutil.Process().children(recursive=True):
        try:
            name, resident_bytes = process.name(), process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
        if name == "java":
            java = max(java, resident_bytes)
        elif name.startswith("python"):
            worker = max(worker, resident_bytes)
    own = max(peak.own_bytes, psutil.Process().memory_info().rss)
    return Peak(java_bytes=java, worker_bytes=worker, own_bytes=own)
