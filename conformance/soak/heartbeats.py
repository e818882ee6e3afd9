"""Heartbeat traffic in the quiesce phase of several clusters, so that replicated subscriptions can follow.

A cluster learns the position of a subscription in another one only with a message that is published and acknowledged
there after the last one that counts (REPL-15).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from conformance.clients.driver.client import OfficialClient, OfficialProducer
from conformance.clients.outcomes import CLIENT_ERRORS
from conformance.recorder import RecordedProducer
from conformance.soak.cluster import SoakCluster
from conformance.soak.worker.context import OPERATION_TIMEOUT_S
from conformance.soak.worker.payloads import payload_of

SIZE_BYTES: Final = 30
SEND_TIMEOUT_S: Final = 30.0


class Heartbeats:
    """Sends to any topic at one cluster; each topic has a producer of its own."""

    def __init__(self, cluster: SoakCluster, client: OfficialClient) -> None:
        self._cluster = cluster
        self._client = client
        self._producers: dict[str, OfficialProducer] = {}
        self._numbers = itertools.count(1)

    def send(self, topic: str) -> None:
        """Send one message; its outcome is in the history."""
        with suppress(*CLIENT_ERRORS):  # the next one may succeed
            producer = self._producer(topic)
            number = next(self._numbers)
            payload = payload_of(f"heartbeat-{self._cluster.label}", number, SIZE_BYTES)
            producer.send(number, payload, partition_key="heartbeat").wait(SEND_TIMEOUT_S)

    def _producer(self, topic: str) -> OfficialProducer:
        if topic not in self._producers:
            self._producers[topic] = self._client.open_producer(
                topic,
                name=f"heartbeat-{self._cluster.label}",
                send_timeout_s=SEND_TIMEOUT_S,
                wrap=lambda producer: RecordedProducer(self._cluster.recording, producer),
            )
        return self._producers[topic]


@contextmanager
def heartbeats(cluster: SoakCluster) -> Iterator[Heartbeats]:
    """Heartbeats at one cluster."""
    client = OfficialClient(cluster.service, timeout_s=OPERATION_TIMEOUT_S)
    try:
        yield Heartbeats(cluster, client)
    finally:
        with suppress(*CLIENT_ERRORS):
            client.close()
