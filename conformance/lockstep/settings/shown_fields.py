"""What a broker's admin API shows: its requests, the fields of stats, and those of an entry's metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from conformance.brokers.interface import Broker
from conformance.clients.admin.client import Admin
from conformance.clients.outcomes import Receipt
from conformance.clients.wire.client import WireClient
from conformance.lockstep.settings.dispatchers import DRAINING_FIELD

TIMEOUT_S = 30.0


class ShownFields:
    """What one broker shows. It is asked once, about a topic with a producer, a subscription and an entry."""

    def __init__(self, broker: Broker, admin: Admin, topic: str) -> None:
        self._broker = broker
        self._admin = admin
        self.topic = topic

    def has_admin_request(self, path: str) -> bool:
        """Whether the broker has a request of the admin API, by its path below the topic's."""
        return self._admin.has_request(self.topic, path)

    def has_stats_field(self, part: str, name: str) -> bool:
        """Whether the stats of each of a topic's publishers or subscriptions have this field."""
        return name in self._shown[0].get(part, ())

    def has_entry_header(self, name: str) -> bool:
        """Whether the admin API shows this field of an entry's metadata."""
        return name in self._shown[1]

    @property
    def show_draining(self) -> bool:
        """Whether the stats of a subscription show draining hashes."""
        return self.has_stats_field("subscriptions", DRAINING_FIELD)

    @cached_property
    def _shown(self) -> tuple[Mapping[str, Collection[str]], Collection[str]]:
        """The fields of stats, by part, and those of an entry's metadata."""
        client = WireClient.connect(self._broker.addresses.service, timeout_s=TIMEOUT_S)
        try:
            producer = client.open_producer(self.topic, name=None, timeout_s=TIMEOUT_S)
            client.subscribe(self.topic, "fields", kind="Shared", timeout_s=TIMEOUT_S)
            stored = producer.answer(producer.send(1, b"an entry"), timeout_s=TIMEOUT_S)
            position = stored.position if isinstance(stored, Receipt) else None
            if position is None or not self.has_admin_request("ledger/0/entry/0"):
                return self._admin.stats_fields(self.topic), ()
            return self._admin.stats_fields(self.topic), self._admin.read_entry(self.topic, position).headers
        finally:
            client.abort()
