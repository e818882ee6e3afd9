"""Producers and consumers of one example at several clusters, through the wire client's sessions.

A consumer waits only briefly for one more message: replication may deliver messages at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.lockstep.answers import LateForStats
from conformance.lockstep.clusters import Link, ReplicationWorld, now_ms
from conformance.lockstep.cursors.consumers import WireMember
from conformance.lockstep.cursors.poller import PAUSE_S
from conformance.lockstep.positions import Positions
from conformance.lockstep.replication.cluster_reader import Reading, TooMuchToRead
from conformance.lockstep.sessions import NO_ANSWER, WireSession
from conformance.wait import Deadline, retry
from model.cluster_events import ClustersRead
from model.events import (
    Acknowledged,
    AnyOutcome,
    Done,
    Opened,
    ReceivedMessages,
    Refused,
    Sent,
    Skipped,
    Subscribed,
    Unknown,
)
from model.operations import OpenProducer, Send
from model.subscription_operations import AckById, Subscribe
from model.vocabulary import Entry

ANSWER_TIMEOUT_S: Final = 20.0
"""How long a cluster may take to process a consumer's acks, or to accept a client."""

LAST_MESSAGE_S: Final = 0.2
"""How long a consumer waits for one more message."""

EVERYTHING: Final = 100
"""How many messages are received at a time until none is left."""

NO_SESSION: Final = Skipped("there is no such session")
NO_CONSUMER: Final = Skipped("there is no such consumer")


@dataclass(slots=True)
class TopicInClusters:
    """A topic of the example: its real name, the same everywhere, and its clusters.

    ``closed``: the clusters that closed their replicators while it was idle, and have had no producer since.
    ``emptied``: those that lost their data. ``may_change_links``: no other topic shares the policy that replicates it,
    which is its own one if it ``is_by_policy``.
    """

    name: str
    labels: tuple[str, ...]
    reading: Reading
    may_change_links: bool = False
    is_by_policy: bool = False
    closed: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)

    def lose_data(self, cluster: str) -> None:
        """A cluster lost its data."""
        self.emptied.add(cluster)
        self.reading.forget(cluster)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that replicate it."""
        return self.reading.links

    @property
    def is_replicated(self) -> bool:
        """Whether any cluster replicates it."""
        return bool(self.links)

    def followers_of(self, cluster: str) -> list[str]:
        """The clusters whose subscriptions can follow one's: those it replicates to, if all of them respond.

        One that lost its data need not have the subscription.
        """
        remotes = [target for source, target in self.links if source == cluster]
        is_followed = all((remote, cluster) in self.links for remote in remotes)
        return [remote for remote in remotes if remote not in self.emptied] if is_followed else []

    def read_back(self) -> ClustersRead | None:
        """Read the topic in all clusters once it is quiet; None if it cannot be read in time."""
        with suppress(TooMuchToRead):
            return self.reading.quiet(closed=self.closed)
        return None


@dataclass(frozen=True, slots=True)
class ConsumerAtCluster:
    """A consumer: its cluster, its topic, whether its subscription is replicated, and its handle."""

    cluster: str
    topic: TopicInClusters
    is_replicated: bool
    handle: WireMember


class Sessions:
    """The producers and consumers of one example, by their names in the history."""

    def __init__(self, world: ReplicationWorld) -> None:
        self._world = world
        self._positions: dict[str, Positions] = {}
        self._producers: dict[str, tuple[str, WireSession]] = {}
        self._consumers: dict[str, ConsumerAtCluster] = {}

    def has(self, name: str | None) -> bool:
        """Whether a session or consumer has this name."""
        return name in self._producers or name in self._consumers

    def consumer(self, name: str) -> ConsumerAtCluster | None:
        """A connected consumer."""
        return self._consumers.get(name)

    # ------------------------------------------------------------------------------------------------------- producers

    def open(self, operation: OpenProducer, topic: TopicInClusters, cluster: str) -> AnyOutcome:
        """Open a producer at a cluster, and close the session's former one."""
        self.leave_producer(operation.session, lambda live: live.close())
        topic.closed.discard(cluster)
        try:
            live = retry(lambda: self.producer(operation.producer, topic, cluster), ANSWER_TIMEOUT_S)
        except (ConnectionLost, NoAnswer) as error:
            return Unknown(str(error))
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)
        self._producers[operation.session] = (cluster, live)
        return Opened(live.last_sequence_id)

    def producer(self, producer: str, topic: TopicInClusters, cluster: str) -> WireSession:
        """A producer outside of the history's sessions. Raises the same as :class:`WireSession`."""
        return WireSession(self._world.service(cluster), topic.name, producer)

    def send(self, operation: Send) -> AnyOutcome:
        """Send entries and wait for the answers."""
        if operation.session not in self._producers:
            return NO_SESSION
        if not operation.wait or any(entry.is_batch for entry in operation.entries):
            return Skipped("at a cluster of several, single messages are sent and awaited")
        _, live = self._producers[operation.session]
        if not live.is_open:
            return Skipped("the session was closed from the other side")
        try:
            live.send([self._named(entry) for entry in operation.entries])
            answers = live.collect()
        except (ConnectionLost, NoAnswer) as error:
            return Unknown(str(error))
        # Three brokers on one machine may be slow: a missing answer is no refusal.
        return Sent(tuple(Unknown(one.message) if one == NO_ANSWER else one for one in answers))

    def _named(self, entry: Entry) -> Entry:
        """An entry of a single message with the real names of its clusters."""
        (message,) = entry.messages
        if message.only_to is None:
            return entry
        names = tuple(self._world.clusters.cluster(label).name for label in message.only_to)
        return Entry((msgspec.structs.replace(message, only_to=names),))

    def leave_producer(self, session: str, leave: Callable[[WireSession], None]) -> AnyOutcome:
        if session not in self._producers:
            return NO_SESSION
        leave(self._producers.pop(session)[1])
        return Done()

    # ------------------------------------------------------------------------------------------------------- consumers

    def subscribe(self, operation: Subscribe, topic: TopicInClusters, cluster: str) -> AnyOutcome:
        if operation.consumer in self._consumers:
            return Skipped("a consumer of this name is subscribed")
        try:
            handle = retry(lambda: self._handle(operation, topic, cluster), ANSWER_TIMEOUT_S)
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)
        self._consumers[operation.consumer] = ConsumerAtCluster(cluster, topic, operation.is_replicated, handle)
        return Subscribed()

    def _handle(self, operation: Subscribe, topic: TopicInClusters, cluster: str) -> WireMember:
        positions = self._positions.setdefault(cluster, Positions())
        service, traits = self._world.service(cluster), self._world.traits
        return WireMember(service, operation, topic.name, operation.consumer, positions, traits)

    def leave_consumer(self, name: str, leave: Callable[[WireMember], None]) -> AnyOutcome:
        if name not in self._consumers:
            return NO_CONSUMER
        leave(self._consumers.pop(name).handle)
        return Done()

    def receive(self, name: str, count: int) -> AnyOutcome:
        """Receive the messages that its cluster dispatches now."""
        consumer = self._consumers.get(name)
        return NO_CONSUMER if consumer is None else _if_open(consumer, lambda: received(consumer.handle, count))

    def acknowledge(self, operation: AckById) -> AnyOutcome:
        """Acknowledge those of these messages that the consumer has received."""
        consumer = self._consumers.get(operation.consumer)
        return NO_CONSUMER if consumer is None else _if_open(consumer, lambda: acknowledged(consumer.handle, operation))

    # ------------------------------------------------------------------------------------------------------------- all

    def drop(self, cluster: str, topic: TopicInClusters | None = None) -> None:
        """Drop all sessions at a cluster, or those of a topic, that the broker closed: none reconnects."""
        for name, (label, live) in list(self._producers.items()):
            if label == cluster and (topic is None or live.topic == topic.name):
                self.leave_producer(name, lambda session: session.crash())
        for name, consumer in list(self._consumers.items()):
            if consumer.cluster == cluster and topic in (None, consumer.topic):
                self.leave_consumer(name, lambda handle: handle.crash())

    def close(self) -> None:
        """Cut all connections."""
        for label in self._world.clusters.labels:
            self.drop(label)


def _if_open(consumer: ConsumerAtCluster, act: Callable[[], AnyOutcome]) -> AnyOutcome:
    if not consumer.handle.is_open:
        return Skipped("the consumer was closed from the other side")
    try:
        return act()
    except ServerRefused as refused:
        return Refused(refused.code, refused.message)


def received(handle: WireMember, count: int) -> ReceivedMessages:
    """Receive the available messages, including those received earlier."""
    handle.ask_for(count)
    messages = handle.collect()
    while len(messages) < count:
        handle.pump(LAST_MESSAGE_S)
        if not handle.waiting_count:
            break
        messages += handle.take(count - len(messages))
    return ReceivedMessages(messages)


def acknowledged(handle: WireMember, operation: AckById) -> AnyOutcome:
    """Acknowledge those of these messages that the consumer has."""
    named = sorted((one for one in handle.unacknowledged if one.business_id in operation.ids), key=lambda m: m.position)
    if not named:
        return Skipped("the consumer has none of these messages")
    begun_ms = now_ms()
    sent = handle.acknowledge(named[-1:] if operation.cumulative else named, cumulative=operation.cumulative)
    return Acknowledged(sent.messages, sent.receipt, begun_ms)


def acknowledge_all(consumer: ConsumerAtCluster, world: ReplicationWorld) -> None:
    """Receive and acknowledge all messages at a cluster. Raises LateForStats if some stay unacknowledged."""
    admin, handle = world.clusters.cluster(consumer.cluster).admin, consumer.handle
    deadline = Deadline.after(ANSWER_TIMEOUT_S)
    while True:
        received(handle, EVERYTHING)
        if left := handle.unacknowledged:
            handle.acknowledge(left, cumulative=False)
        stats = admin.stats(consumer.topic.name).subscriptions[handle.subscription]
        handle.pump()
        if stats.unacked_messages == 0 and not handle.waiting_count:
            return
        if deadline.passed:
            raise LateForStats(f"{stats.unacked_messages} messages stay unacknowledged at cluster {consumer.cluster}")
        time.sleep(PAUSE_S)
