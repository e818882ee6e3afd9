"""A topic with deduplication on a real broker, with helpers for the tests of faults."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest

from conformance.brokers.interface import AgentAddress, Broker, Capability
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import NamespacePolicies, Retention
from conformance.clients.outcomes import Receipt, SendOutcome, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import SendTicket, WireProducer
from conformance.clients.wire.read_log import read_log
from conformance.faults.catalogue import broker_defects
from conformance.faults.defects import is_on, switch_on
from conformance.harness_error import HarnessError
from tests.waits import TIMEOUT_S, eventually


class TopicFixture:
    """A namespace and a topic: deduplication is on, a snapshot is taken every five entries and never by time."""

    def __init__(self, broker: Broker, *, deduplication: bool = True) -> None:
        self.broker = broker
        self.admin = Admin(broker.addresses.admin_url)
        self.namespace = f"public/faults-{uuid.uuid4().hex[:12]}"
        self.topic = f"persistent://{self.namespace}/topic"
        policies = NamespacePolicies(
            retention=Retention(), deduplication=deduplication, deduplication_snapshot_interval_s=0
        )
        self.admin.create_namespace(self.namespace, policies)
        self.client = self._connect()

    @property
    def agent(self) -> AgentAddress:
        """Where the agent in the broker's process listens."""
        return self.broker.load_agents()[0]

    def producer(self, name: str = "p", *, topic: str | None = None) -> WireProducer:
        """A producer of this name, as soon as the broker accepts it (the previous one may still be connected)."""
        opened: list[WireProducer] = []

        def is_open() -> bool:
            try:
                opened.append(self.client.open_producer(topic or self.topic, name=name, timeout_s=TIMEOUT_S))
            except ServerRefused:
                return False
            return True

        eventually(is_open)
        return opened[0]

    def send(self, producer: WireProducer, *sequence_ids: int) -> SendOutcome:
        """Send messages one after the other, and return the last one's outcome."""
        for sequence_id in sequence_ids:
            outcome = self.answer(producer, producer.send(sequence_id, b"%d" % sequence_id))
        return outcome

    def answer(self, producer: WireProducer, ticket: SendTicket) -> SendOutcome:
        """The outcome of a send."""
        return producer.answer(ticket, timeout_s=TIMEOUT_S)

    def stored(self, *, topic: str | None = None) -> list[tuple[str, int]]:
        """The topic's log: name of producer and sequence id, in order; batches by their messages."""
        log = read_log(self.client, topic or self.topic, timeout_s=TIMEOUT_S)
        return [(entry.producer_name, sequence_id) for entry in log for sequence_id, _ in entry.messages]

    def snapshot(self) -> dict[str, int]:
        """The deduplication snapshot that the broker has now."""
        cursor = self.admin.internal_stats(self.topic).cursors.get("pulsar.dedup")
        return {} if cursor is None else cursor.properties

    def unload(self) -> None:
        """Have the broker close the topic; whoever opens it next recovers it."""
        self.admin.unload(self.topic)

    def restart_after_crash(self) -> None:
        """Wait until the broker's process is gone, and start it again."""
        eventually(lambda: not self.broker.is_alive())
        with suppress(HarnessError):  # it is ending, and may be gone already
            self.broker.kill()
        self.broker.start()
        self.reconnect()

    def kill(self) -> None:
        """Kill the broker's process, and start it again with the defects that it had, or skip the test."""
        if Capability.KILL not in self.broker.capabilities:
            pytest.skip(f"{self.broker.name} does not come back from a kill")
        had = [defect for defect in broker_defects() if is_on(self.agent, defect)]
        self.broker.kill()
        self.broker.start()
        for defect in had:
            switch_on(self.agent, defect)
        self.reconnect()

    def reconnect(self) -> None:
        """Drop the client's connections, and connect again."""
        self.client.abort()
        self.client = self._connect()

    def close(self) -> None:
        """Close the client, even if the broker does not work."""
        self.client.abort()
        self.admin.close()

    def _connect(self) -> WireClient:
        return WireClient.connect(self.broker.addresses.service_url, timeout_s=TIMEOUT_S)


def is_stored(outcome: SendOutcome) -> bool:
    """Whether the receipt says that the message was stored."""
    return isinstance(outcome, Receipt) and outcome.position is not None


def is_duplicate(outcome: SendOutcome) -> bool:
    """Whether the receipt says that the message was a duplicate."""
    return isinstance(outcome, Receipt) and outcome.position is None
