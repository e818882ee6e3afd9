"""What an example of document 001 has on its clusters: topics, and consumers with what each was given.

Who creates and uses them is :mod:`~conformance.lockstep.replication`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.wire.consumer import WireConsumer
from conformance.harness_error import HarnessError
from conformance.lockstep.cursor_accounts import PAUSE_S
from conformance.lockstep.replication_reading import Reading, TooMuchToRead, message_of
from conformance.lockstep.replication_world import now_ms
from conformance.wait import Deadline
from model.events import Skipped
from model.log import Position
from model.replication.vocabulary import AcknowledgedAt, ClustersRead, GivenMessage, ReceivedAt

ANSWER_TIMEOUT_S: Final = 20.0
"""How long a cluster may take for what it is asked."""

LAST_MESSAGE_S: Final = 0.2
"""How long a consumer waits for one message more: what is under way between clusters comes when it comes."""


@dataclass(slots=True)
class Topic:
    """A topic of the example: its real name, which is the same everywhere, and the clusters that have it.

    ``asleep``: those that closed their replicators while it was idle, and have not opened it to a producer since.
    """

    name: str
    labels: tuple[str, ...]
    reading: Reading
    is_replicated: bool
    asleep: set[str] = field(default_factory=set)

    def read_back(self) -> ClustersRead | None:
        """What all clusters have of it, once nothing changes any more; None if it cannot be read in time."""
        with suppress(TooMuchToRead):
            return self.reading.quiet(asleep=self.asleep)
        return None


@dataclass(slots=True)
class Member:
    """A consumer of the example: where it is, what it was given and did not acknowledge, and permits it has left.

    ``given``: each message with where it stands; a replicator that sent it again has it stand in two places.
    """

    cluster: str
    topic: Topic
    subscription: str
    is_replicated: bool
    consumer: WireConsumer
    given: dict[str, set[Position]] = field(default_factory=dict)
    permits: int = 0

    def receive(self, count: int) -> ReceivedAt:
        """What it is given now; what it is given again counts as well."""
        if self.permits < count:
            self.consumer.flow(count - self.permits)
            self.permits = count
        given: list[GivenMessage] = []
        while len(given) < count and (delivery := self.consumer.receive(timeout_s=LAST_MESSAGE_S)) is not None:
            self.permits -= 1
            message = message_of(delivery.payload)
            self.given.setdefault(message, set()).add(delivery.position)
            given.append(GivenMessage(message, delivery.position))
        return ReceivedAt(tuple(given))

    def acknowledge(self, messages: Sequence[str], *, is_cumulative: bool) -> AcknowledgedAt | Skipped:
        """Acknowledge those of these messages that it was given and still has, wherever they stand."""
        positions = sorted(at for message in messages for at in self.given.get(message, ()))
        if not positions:
            return Skipped("the consumer has none of these messages")
        if is_cumulative:
            positions = positions[-1:]
        begun_ms = now_ms()
        self.consumer.ack(positions, cumulative=is_cumulative)
        last = positions[-1]
        for message, places in list(self.given.items()):
            if places <= set(positions) or (is_cumulative and max(places) <= last):
                del self.given[message]
        return AcknowledgedAt(begun_ms)

    def take_all(self, admin: Admin) -> None:
        """Receive and acknowledge all that its cluster has; HarnessError if some of it stays unacknowledged."""
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        while True:
            self.receive(100)
            if self.given:
                self.consumer.ack(sorted(at for places in self.given.values() for at in places))
                self.given.clear()
            told = admin.stats(self.topic.name).subscriptions[self.subscription]
            if told.unacked_messages == 0 and not self.consumer.pending():
                return
            if deadline.passed:
                raise HarnessError(f"{told.unacked_messages} messages stay unacknowledged at cluster {self.cluster}")
            time.sleep(PAUSE_S)
