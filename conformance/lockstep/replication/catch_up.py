"""Has all clusters catch up with one: heals the links, and publishes until every other cluster's subscription follows.

Without traffic no subscription follows: snapshots and updates need new messages.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from typing import Final

from msgspec.structs import replace

from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.lockstep.answers import LateToDeliver
from conformance.lockstep.clusters import CONNECT_TIMEOUT_S, PERIOD_MS, Link, ReplicationWorld
from conformance.lockstep.cursors.consumers import WireMember
from conformance.lockstep.cursors.poller import PAUSE_S
from conformance.lockstep.replication.cluster_reader import Reading
from conformance.lockstep.replication.sessions import (
    EVERYTHING,
    ConsumerAtCluster,
    Sessions,
    TopicInClusters,
    acknowledge_all,
    received,
)
from conformance.lockstep.sessions import WireSession
from conformance.wait import Deadline
from model.cluster_events import CaughtUp, Lagging, ReplicatorStalled
from model.cluster_operations import CatchUp
from model.events import AnyOutcome, Stored
from model.log import EARLIEST, Position
from model.service.unexpected import NOT_REPLICATED
from model.vocabulary import Entry, Message

PAIRS: Final = 3
"""The pairs of messages that are published and acknowledged before it is asked whether the other clusters follow."""
STALLED_S: Final = 30.0
"""A connected replicator without progress for so long has stalled: its retries are over by then."""


class CatchUps:
    def __init__(self, world: ReplicationWorld, sessions: Sessions) -> None:
        self._world = world
        self._sessions = sessions
        self._sent = 0

    def perform(self, operation: CatchUp, consumer: ConsumerAtCluster) -> AnyOutcome:
        """Heal all links, and publish and acknowledge at a consumer's cluster until the others follow."""
        self._world.clusters.heal_all()
        with ExitStack() as producers:
            live = {label: self._producer(label, consumer.topic, producers) for label in consumer.topic.labels}
            self._world.await_connected(consumer.topic.links, consumer.topic.name)
            if (stalled := self._await_replicated(consumer.topic)) is not None:
                return stalled
            producer, sent = live[consumer.cluster], list[str]()
            lagged = self._lagged(operation, consumer, producer, sent) if operation.lag else None
            if isinstance(lagged, ReplicatorStalled):
                return lagged
            caught = self._published_until_followed(operation, consumer, producer, sent)
            return replace(caught, lagged=lagged) if isinstance(caught, CaughtUp) else caught

    def _producer(self, cluster: str, topic: TopicInClusters, producers: ExitStack) -> WireSession:
        """A producer of its own, for which a cluster opens the replicators that it closed while the topic was idle."""
        self._sent += 1
        topic.closed.discard(cluster)
        live = self._sessions.producer(f"catch-up-{cluster}-{self._sent}", topic, cluster)
        producers.callback(live.close)
        return live

    def _lagged(
        self, operation: CatchUp, consumer: ConsumerAtCluster, producer: WireSession, sent: list[str]
    ) -> Lagging | ReplicatorStalled | None:
        """Publish in every period, and acknowledge all but the last messages, until the others follow.

        Returns the cluster that does not follow. Two messages have no snapshot between them and are acknowledged one by
        one: an ack that passes no snapshot changes nothing. The others must follow the third pair, whose snapshots were
        cached while earlier messages were acknowledged.
        """
        topic, handle = consumer.topic, consumer.handle
        acknowledge_all(consumer, self._world)
        others = self._following(consumer)
        for _ in range(operation.lag):
            sent += self._publish(f"{operation.prefix}{len(sent)}", producer)
        if (stalled := self._await_replicated(topic)) is not None:
            return stalled
        for _ in range(PAIRS):
            self._publish_pair(operation, producer, sent)
            self._acknowledge_but(operation.lag, handle)
        wanted = sent[: -operation.lag]
        began = time.monotonic()
        while (lagging := _lagging(topic, handle.subscription, others, wanted)) is not None:
            periods = round((time.monotonic() - began) * 1000 / PERIOD_MS, 1)
            if periods > operation.most_periods:
                return Lagging(*lagging, periods)
            self._publish_pair(operation, producer, sent)
            self._acknowledge_but(operation.lag, handle)
        return None

    def _publish_pair(self, operation: CatchUp, producer: WireSession, sent: list[str]) -> None:
        for _ in range(2):
            sent += self._publish(f"{operation.prefix}{len(sent)}", producer)
        self._world.require_time()
        time.sleep(2 * PERIOD_MS / 1000)  # until there is a snapshot after them, so that an ack could lose it

    def _acknowledge_but(self, last: int, handle: WireMember) -> None:
        received(handle, EVERYTHING)
        for message in handle.unacknowledged[:-last]:
            handle.acknowledge([message], cumulative=False)

    def _following(self, consumer: ConsumerAtCluster) -> list[str]:
        """The other clusters that must follow a consumer's."""
        topic, subscription = consumer.topic, consumer.handle.subscription
        return [one for one in topic.followers_of(consumer.cluster) if self._follows(one, topic, subscription)]

    def _published_until_followed(
        self, operation: CatchUp, consumer: ConsumerAtCluster, producer: WireSession, sent: list[str]
    ) -> CaughtUp | Lagging | ReplicatorStalled:
        topic, subscription = consumer.topic, consumer.handle.subscription
        others = self._following(consumer)
        wanted = topic.reading.messages(consumer.cluster)
        began = time.monotonic()
        while True:
            acknowledge_all(consumer, self._world)
            lagging = _lagging(topic, subscription, others, wanted)
            periods = round((time.monotonic() - began) * 1000 / PERIOD_MS, 1)
            if lagging is None:
                if (stalled := self._await_replicated(topic)) is not None:
                    return stalled
                acknowledge_all(consumer, self._world)
                return CaughtUp(periods, tuple(sent))
            if periods > operation.most_periods:
                return Lagging(*lagging, periods, topic.read_back())
            sent += self._publish(f"{operation.prefix}{len(sent)}", producer)
            self._world.require_time()
            time.sleep(PERIOD_MS / 1000)  # one message for each snapshot suffices

    def _publish(self, message: str, producer: WireSession) -> tuple[str, ...]:
        """Publish a message; empty if it was not confirmed."""
        self._sent += 1
        try:
            producer.send((Entry((Message(self._sent, message),)),))
            return (message,) if isinstance(producer.collect()[0], Stored) else ()
        except (ConnectionLost, NoAnswer):
            return ()

    def _follows(self, label: str, topic: TopicInClusters, subscription: str) -> bool:
        """Whether a cluster must follow the others: not if its stats show an unreplicated subscription."""
        stats = self._world.clusters.cluster(label).admin.stats(topic.name).subscriptions.get(subscription)
        return stats is None or stats.replicated

    def _await_replicated(self, topic: TopicInClusters) -> ReplicatorStalled | None:
        return await_replicated(self._world, topic.reading, topic.labels)


def await_replicated(
    world: ReplicationWorld, reading: Reading, labels: Sequence[str], only: Link | None = None
) -> ReplicatorStalled | None:
    """Wait until all current messages of a topic are replicated, or a connected replicator has stalled.

    ``only``: over this link.
    """
    ends, deadline = reading.ends(), Deadline.after(CONNECT_TIMEOUT_S)
    positions: dict[Link, Position] = {}
    since: dict[Link, float] = {}
    while left := {link: at for link, at in reading.left(ends).items() if only in (None, link)}:
        now, stats = time.monotonic(), world.replicators(labels, reading.topic)
        for link, at in left.items():
            if positions.get(link) != at or link not in stats or not stats[link].connected:
                positions[link], since[link] = at, now
        link = min(left, key=since.__getitem__)
        stalled_s = now - since[link]
        if stalled_s > STALLED_S:
            return ReplicatorStalled(*link, round(stalled_s, 1), reading.not_replicated(link))
        if deadline.passed:
            raise LateToDeliver(f"messages of {reading.topic} {NOT_REPLICATED} {CONNECT_TIMEOUT_S:g} s")
        world.require_time()
        time.sleep(PAUSE_S)
    return None


def _lagging(
    topic: TopicInClusters, subscription: str, others: Sequence[str], wanted: Collection[str]
) -> tuple[str, Position] | None:
    """The first cluster whose subscription has not passed all of these messages, and its position."""
    for label in others:
        there = topic.reading.messages(label)
        last = max((there[message] for message in wanted if message in there), default=None)
        mark_delete = topic.reading.mark_delete(label, subscription) or EARLIEST
        if last is not None and mark_delete < last:
            return label, mark_delete
    return None
