"""Creates replicated subscriptions while messages flow, as users do. Other clusters then learn of them by updates.

Each begins at its topic's beginning, so that much is unacknowledged when the first update arrives. Its consumer creates
it by subscribing: created through the admin API, it would be at the end of the topic for a moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping, Sequence

from conformance.soak.cluster import SoakCluster
from conformance.soak.plan import LATER_TYPE, Later
from conformance.soak.request import Subscription
from conformance.soak.workers import Clients


class LateSubscriptions:
    """Has the consumer of each subscribe at its time."""

    def __init__(
        self,
        clusters: Sequence[SoakCluster],
        clients: Clients,
        planned: Sequence[Later],
        homes: MutableMapping[Subscription, str],
    ) -> None:
        """``planned`` in the order of their times; ``homes`` gets the cluster of each one's consumer."""
        self._clusters = {cluster.label: cluster for cluster in clusters}
        self._clients = clients
        self._left = deque(planned)
        self._homes = homes

    def create_due(self, elapsed_s: float) -> None:
        """Create those whose time since the beginning of the load has passed."""
        while self._left and self._left[0].at_s <= elapsed_s:
            later = self._left.popleft()
            self._clusters[later.cluster].begin(later.topic, later.name, LATER_TYPE, is_replicated=True)
            self._homes[later.topic, later.name] = later.cluster
            self._clients.reconnect(later.topic, later.name, cluster=later.cluster)
