"""Reads the cursors of one cluster periodically, in a thread of its own, also while faults are injected.

The history then shows how late positions are, and where they are during a fault.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from conformance.soak.cluster import SoakCluster
from conformance.soak.plan import TopicPlan

EVERY_S: Final = 5.0
EVERY_S_OF_CLUSTERS: Final = 1.0
"""The period where positions are replicated: it bounds how exactly their lateness is known."""

STOPPED_WITHIN_S: Final = 60.0
"""How long a stop waits: while a broker is away, the thread may not end before its last request does."""


class CursorSampler(threading.Thread):
    """Samples from its start until it is stopped."""

    def __init__(self, cluster: SoakCluster, topics: Sequence[TopicPlan], *, every_s: float) -> None:
        super().__init__(name=f"cursor-sampler-{cluster.label}", daemon=True)
        self._cluster = cluster
        self._topics = topics
        self._every_s = every_s
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(self._every_s):
            for topic in self._topics:
                if not self._stopping.is_set():
                    self._cluster.read_cursors(topic.name)

    def stop(self) -> None:
        """Stop, and wait for the current sample. Safe to call twice, and on one that was never started."""
        self._stopping.set()
        if self.is_alive():
            self.join(STOPPED_WITHIN_S)
