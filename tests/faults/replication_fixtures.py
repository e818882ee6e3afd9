"""One topic in several real clusters, with helpers for the tests of seeded defects."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from conformance.lockstep.clusters import ReplicationWorld
from conformance.lockstep.replication.performer import ReplicationPerformer
from model.cluster_events import ClustersRead
from model.cluster_operations import ReadClusters
from model.events import AnyOutcome, ReceivedMessages
from model.operations import AnyOperation, CreateTopic, OpenProducer, Send
from model.replication.logs import Log
from model.subscription_operations import AckById, Receive, Subscribe
from model.vocabulary import Entry, Message
from tests.waits import eventually

TOPIC, SESSION, CONSUMER, SUBSCRIPTION = "t", "p", "k", "s"
_EXAMPLES = itertools.count(1)


class Fixture:
    """A topic, and a consumer of its replicated subscription at cluster A."""

    def __init__(
        self,
        world: ReplicationWorld,
        *,
        clusters: int = 2,
        is_replicated: bool = True,
        links: tuple[tuple[str, str], ...] = (),
        replicated_by: Literal["namespace", "topic"] = "namespace",
    ) -> None:
        self._performer = ReplicationPerformer(world, example=next(_EXAMPLES))
        self._sent = 0
        self.do(
            CreateTopic(
                TOPIC, deduplication="namespace-off", clusters=clusters, links=links, replicated_by=replicated_by
            ),
            Subscribe(CONSUMER, TOPIC, SUBSCRIPTION, kind="Exclusive", cluster="A", is_replicated=is_replicated),
            OpenProducer(SESSION, TOPIC, "p", cluster="A"),
        )
        self.reading = self._performer.reading(TOPIC)

    def do(self, *operations: AnyOperation) -> AnyOutcome:
        """Perform some operations, and return the outcome of the last one."""
        return [self._performer.perform(operation) for operation in operations][-1]

    def publish(self, *messages: str, only_to: tuple[str, ...] | None = None) -> None:
        """Publish messages at cluster A, which may be restricted to some clusters."""
        made = (Message(self._next(), name, only_to=only_to) for name in messages)
        self.do(Send(SESSION, tuple(Entry((message,)) for message in made)))

    def _next(self) -> int:
        self._sent += 1
        return self._sent

    def take(self) -> list[str]:
        """The consumer receives all messages that are due."""
        received = self.do(Receive(CONSUMER, 100))
        assert isinstance(received, ReceivedMessages)
        return [one.business_id for one in received.messages]

    def acknowledge(self, *messages: str) -> None:
        """Acknowledge messages that the consumer received, one by one."""
        self.do(AckById(CONSUMER, messages))

    def logs(self) -> dict[str, Log]:
        """The logs of all clusters, by label, once they no longer change."""
        read = self.do(ReadClusters(TOPIC))
        assert isinstance(read, ClustersRead)
        return {label: Log(label, one) for label, one in read.clusters.items()}

    def pass_snapshots(self, count: int, acknowledged: Sequence[str]) -> dict[str, Log]:
        """Publish this many messages, m0 and so on, each with a snapshot after it that the consumer's dispatcher reads;
        acknowledge some of them, and return the logs.
        """
        for number in range(count):
            self.publish(f"m{number}")
            self.await_snapshot_after(f"m{number}")
        self.take()
        self.acknowledge(*acknowledged)
        return self.logs()

    def await_snapshot_after(self, message: str) -> None:
        """Wait until A has completed a snapshot that it began after a message."""

        eventually(lambda: any(one.taken for one in self.reading.snapshots("A", after=message)), deadline_s=60)

    def await_back(self, source: str, target: str) -> None:
        """Wait until a replicator is connected again."""
        eventually(lambda: self.reading.has_reconnected((source, target)), deadline_s=60)

    def await_at_b(self, message: str) -> None:
        """Wait until B has a message."""
        eventually(lambda: message in self.reading.messages("B"), deadline_s=60)

    def close(self) -> None:
        """End the example."""
        self._performer.close()
