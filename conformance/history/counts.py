"""Counts the events and faults of a history by its files, for whatever tells how many there are.

A fault may have two events, its beginning and its end, because a process may be killed in between. It counts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance.history.recorded import Kind

FAULT: Final = ("run", "cluster", "fault", "topic", "invoked_ns")
"""The fields that tell one fault from another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCounts:
    """``faults``: how many of each name."""

    events: int
    faults: Mapping[str, int]


def counts_of(folder: Path) -> HistoryCounts:
    """The counts of a local history that nobody writes to, and that is compacted."""
    events, faults = 0, set()
    for path in sorted(folder.rglob("*.parquet")):
        events += pq.read_metadata(path).num_rows
        table = pq.read_table(path, columns=["kind", *FAULT], partitioning=None)
        found = table.filter(pc.equal(table["kind"], str(Kind.FAULT))).select(FAULT)
        faults |= {tuple(row[name] for name in FAULT) for row in found.to_pylist()}
    return HistoryCounts(events=events, faults=Counter(fault[FAULT.index("fault")] for fault in faults))
