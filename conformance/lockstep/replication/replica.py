"""What an example does to the links between the home of its topics and the other cluster, and what it reads there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.clients.wire.client import WireClient
from conformance.lockstep.clusters import CONNECT_TIMEOUT_S, ReplicationWorld
from conformance.lockstep.reading import read_whole_log
from conformance.lockstep.replication.catch_up import await_replicated
from conformance.lockstep.replication.links import Links
from conformance.lockstep.replication.reading import Reading
from model.cluster_events import ReplicatorStalled
from model.cluster_operations import AWAY, HOME, LinkOperation
from model.events import AnyOutcome, LogRead, Skipped

NOT_REPLICATED: Final = Skipped("the topic is not replicated to such a cluster")
_CLUSTERS: Final = (HOME, AWAY)


class Replica:
    """``topics``: the real names of the example's topics."""

    def __init__(self, world: ReplicationWorld, topics: Mapping[str, str]) -> None:
        self._world = world
        self._links = Links(world, lambda link: list(topics.values()) if set(link) == set(_CLUSTERS) else [])

    def change_link(self, operation: LinkOperation) -> AnyOutcome:
        return self._links.perform(operation)

    def read_log(self, topic: str, cluster: str) -> LogRead | ReplicatorStalled | Skipped:
        """Heal all links, and read a topic's log in the other cluster once everything is replicated."""
        if cluster != AWAY:
            return NOT_REPLICATED
        self._world.clusters.heal_all()
        reading = Reading(self._world, _CLUSTERS, topic, is_replicated=True)
        if (stalled := await_replicated(self._world, reading, _CLUSTERS)) is not None:
            return stalled
        away = self._world.clusters.cluster(AWAY)
        reader = WireClient.connect(away.broker.addresses.service, timeout_s=CONNECT_TIMEOUT_S)
        try:
            return LogRead(
                read_whole_log(away.admin, reader, topic, has_markers=True),
                is_deduplicated=away.admin.stats(topic).deduplication_status == "Enabled",
                has_reconnected=self._world.has_reconnected((HOME, AWAY), topic),
            )
        finally:
            reader.abort()

    def close(self) -> None:
        """Heal all links."""
        self._world.clusters.heal_all()
