"""The deviations that the rules themselves excuse, a module for each document.

Each of them moves to a file of its own in :mod:`model.deviations`, and this package ends with the last one.
"""

from __future__ import annotations

from model.deviation import Deviation
from model.excuses import chunking, deduplication

BY_DOCUMENT: dict[str, tuple[Deviation, ...]] = {
    "deduplication": deduplication.DEVIATIONS,
    "replication": (),
    "chunking": chunking.DEVIATIONS,
    "cursors": (),
    "key_shared": (),
    "service": (),
}

DEVIATIONS: dict[str, Deviation] = {
    deviation.name: deviation for entries in BY_DOCUMENT.values() for deviation in entries
}
"""All of them, by name."""
