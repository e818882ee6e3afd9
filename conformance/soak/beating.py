"""Messages in the healing of a soak of clusters, so that replicated positions can follow.

A cluster learns how far a subscription is in another one only with a message that is published and acknowledged there
after the last one that counts (REPL-15). So, while the others are waited for, one is sent now and then.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pulsar

from conformance.recorder import RecordedProducer
from conformance.soak.payloads import payload_of
from conformance.soak.seat import pulsar_client
from conformance.soak.sites import Site

SIZE_BYTES: Final = 30


class Beats:
    """Sends to any topic at one cluster; each topic has a producer of its own."""

    def __init__(self, site: Site, client: Any) -> None:
        self._site = site
        self._client = client
        self._producers: dict[str, RecordedProducer] = {}
        self._numbers = itertools.count(1)

    def beat(self, topic: str) -> None:
        """Send one message; what comes of it is in the history."""
        with contextlib.suppress(pulsar.PulsarException):  # the next one may come through
            producer = self._producer(topic)
            number = next(self._numbers)
            payload = payload_of(f"beat-{self._site.label}", number, SIZE_BYTES)
            producer.send(payload, sequence_id=number, partition_key="beat")

    def _producer(self, topic: str) -> RecordedProducer:
        if topic not in self._producers:
            producer = self._client.create_producer(topic, producer_name=f"beat-{self._site.label}")
            self._producers[topic] = RecordedProducer(self._site.recording, producer)
        return self._producers[topic]


@contextmanager
def beating(site: Site) -> Iterator[Beats]:
    """Beats at one cluster."""
    client = pulsar_client(site.service)
    try:
        yield Beats(site, client)
    finally:
        client.close()
