"""``compact``: rewrites the many segments of a history as a few large files in order."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from conformance.commands.supervision.packages import demand_installed
from conformance.report.sentences.lists import count

NEEDED = ("pyarrow",)


def compact(folder: Path, *, out: Console, err: Console) -> int:
    """Compact the history in a folder, with a line on ``err`` for each bucket, and one on ``out`` at the end.

    Raises:
        HarnessError: pyarrow or the history is missing, a segment is damaged, or the folder cannot be written.
    """
    demand_installed(NEEDED, "compact")
    from conformance.history.compaction import Compacted  # here, because `check` does not need pyarrow
    from conformance.history.compaction import compact as compacted

    def show(bucket: Compacted) -> None:
        before, after = count(bucket.files_before, "file", "files"), count(bucket.files, "file", "files")
        what = f"{after} made of {before}" if bucket.is_rewritten else f"{after}, compacted before"
        err.print(f"{bucket.bucket}: {what}", markup=False)

    rewritten = compacted(folder, show=show)
    out.print(f"{folder}: {count(rewritten, 'bucket', 'buckets')} compacted", markup=False, soft_wrap=True)
    return 0
