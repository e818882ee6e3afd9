"""Has replicated subscriptions made while messages flow, as users do; the other clusters then learn of them by updates.

Each begins at its topic's beginning, so that there is much that nobody has acknowledged when an update first comes. Its
consumer makes it by coming: through the admin interface it would be at the end of the topic for a moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping, Sequence

from conformance.soak.asked import Subscription
from conformance.soak.clients import Clients
from conformance.soak.plan import LATER_TYPE, Later
from conformance.soak.sites import Site
from conformance.soak.words import Renew


class Subscribing:
    """Has the consumer of each come when it is time."""

    def __init__(
        self,
        sites: Sequence[Site],
        clients: Clients,
        planned: Sequence[Later],
        whereabouts: MutableMapping[Subscription, str],
    ) -> None:
        """``planned`` in the order of their times; ``whereabouts`` learns of each that is to be made."""
        self._sites = {site.label: site for site in sites}
        self._clients = clients
        self._left = deque(planned)
        self._whereabouts = whereabouts

    def make_due(self, elapsed_s: float) -> None:
        """Have those made whose time has come since the load began."""
        while self._left and self._left[0].at_s <= elapsed_s:
            later = self._left.popleft()
            self._sites[later.cluster].begin(later.topic, later.name, LATER_TYPE, is_replicated=True)
            self._whereabouts[later.topic, later.name] = later.cluster
            self._clients.tell(Renew(topic=later.topic, subscription=later.name, cluster=later.cluster))
