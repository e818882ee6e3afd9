"""What memory a topic takes while it is judged, as in a Python worker of Spark's, for each of its events.

    python -m tests.quality.topic_memory [--millions 1 --millions 5]

Each size is a history of one topic (``realistic``), judged from its file in a process of its own. What that process had
at most, less what it has when all is imported and nothing is read, is divided by the number of events. Pages of files
are not counted, because the system can drop them at any time. It needs Linux.
"""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click
import psutil

from conformance.pipeline.files.compacted_files import OpenedFile
from conformance.pipeline.invariants.catalogue import INVARIANTS
from conformance.pipeline.results import EVENTS, NEEDED, judge_batches
from conformance.pipeline.topic import VerificationSetting
from tests.quality.make_history import EVENTS_OF_AN_ENTRY, make

EVERY_S = 0.02


def judged(path: Path) -> tuple[int, int]:
    """How many events a file has, and how many bytes judging them took at most; in a process that did nothing else."""
    before_bytes = peak_bytes = _own_bytes()
    is_over = threading.Event()

    def watch() -> None:
        nonlocal peak_bytes
        while not is_over.wait(EVERY_S):
            peak_bytes = max(peak_bytes, _own_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    rows = judge_batches(OpenedFile(path.as_uri(), None).batches(NEEDED), VerificationSetting(), INVARIANTS).to_pylist()
    is_over.set()
    watching.join()
    return sum(row["judged"] for row in rows if row["invariant"] == EVENTS), peak_bytes - before_bytes


def _own_bytes() -> int:
    """The resident memory of this process that is not a file's."""
    memory = psutil.Process().memory_info()
    own_bytes: int = memory.rss - memory.shared
    return own_bytes


def measured(folder: Path, millions: float) -> tuple[int, int]:
    """The same of one topic of so many million events, which is made first."""
    entries = round(millions * 1e6 / EVENTS_OF_AN_ENTRY / 100) * 100
    make(folder, millions=millions, entries=entries)
    (path,) = folder.glob("*/*.parquet")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(judged, path).result()


@click.command()
@click.option("--millions", multiple=True, type=float, default=(1.0, 5.0), show_default=True)
def main(millions: tuple[float, ...]) -> None:
    """Print how many bytes an event takes at each size."""
    for size in millions:
        with tempfile.TemporaryDirectory() as folder:
            events, taken_bytes = measured(Path(folder), size)
        each_bytes = taken_bytes / events
        click.echo(f"{events} events of one topic: {taken_bytes / 2**20:.0f} MiB, {each_bytes:.0f} bytes each")


if __name__ == "__main__":
    main()
