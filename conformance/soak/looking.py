"""Reads the cursors of one cluster now and then, in a thread of its own, whatever faults go on meanwhile.

So it is seen how late positions are, and how far they are while something else is being done to the clusters.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from conformance.soak.plan import TopicPlan
from conformance.soak.sites import Site

EVERY_S: Final = 5.0
EVERY_S_OF_CLUSTERS: Final = 1.0
"""The same where positions are replicated, of which it is to be seen how late they are."""

STOPPED_WITHIN_S: Final = 60.0
"""How long at most it is waited for: for a broker that is away it may not end before its last question does."""


class Looking(threading.Thread):
    """Looks from when it is started until it is stopped."""

    def __init__(self, site: Site, topics: Sequence[TopicPlan], *, every_s: float) -> None:
        super().__init__(name=f"looking-{site.label}", daemon=True)
        self._site = site
        self._topics = topics
        self._every_s = every_s
        self._stopping = threading.Event()

    def run(self) -> None:
        """Read them all, time after time."""
        while not self._stopping.wait(self._every_s):
            for topic in self._topics:
                if not self._stopping.is_set():
                    self._site.read_cursors(topic.name)

    def stop(self) -> None:
        """Read no more, and wait for what is being read. Safe to call twice, and on one that was never started."""
        self._stopping.set()
        if self.is_alive():
            self.join(STOPPED_WITHIN_S)
