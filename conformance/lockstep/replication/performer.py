"""Carries out the operations of document 001 on real clusters.

Only :class:`~model.cluster_operations.CatchUp` and :mod:`~conformance.lockstep.replication.cluster_reader` wait for
replication between the clusters. It judges nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import permutations
from typing import Final, assert_never

from conformance.brokers.interface import Capability
from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError, namespace_of
from conformance.lockstep.clusters import CACHED, PERIOD_MS, TIMEOUT_MS, Link, Loss, ReplicationWorld, now_ms
from conformance.lockstep.replication.administrators import administered
from conformance.lockstep.replication.catch_up import CatchUps, await_replicated
from conformance.lockstep.replication.cluster_reader import Reading
from conformance.lockstep.replication.links import Links
from conformance.lockstep.replication.sessions import NO_CONSUMER, ConsumerAtCluster, Sessions, TopicInClusters
from conformance.wait import PAUSE_S, Deadline, wait_until
from model.cluster_events import LinkCut, LinkHealed, ReplicationSettings, ReplicatorsClosed
from model.cluster_operations import (
    AdministerAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    CatchUp,
    LinkOperation,
    LoseCluster,
    ReadClusters,
    RecoverCluster,
    SetLink,
)
from model.events import AnyOutcome, Created, Done, Skipped
from model.operations import (
    AnyOperation,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    Kill,
    OpenProducer,
    Restart,
    Send,
    Unload,
)
from model.replication.evidence import SLACK_MS
from model.subscription_operations import AckById, CloseConsumer, CrashConsumer, Receive, Subscribe

_LOST: Final = Skipped("the cluster is lost")
_NEEDED: Final[dict[Loss, Capability]] = {"kill": Capability.KILL, "freeze": Capability.PAUSE}
_NO_TOPIC: Final = Skipped("there is no such topic")

TOO_LATE_S: Final = (TIMEOUT_MS + 2 * PERIOD_MS + SLACK_MS) / 1000
"""After so long a snapshot must have timed out."""


class ReplicationPerformer:
    """One example on the clusters of a world."""

    def __init__(self, world: ReplicationWorld, *, example: int) -> None:
        self._world = world
        self._example = example
        self._topics: dict[str, TopicInClusters] = {}
        self._sessions = Sessions(world)
        self._catch_ups = CatchUps(world, self._sessions)
        self._links = Links(world, self._replicated_over)

    def performs(self, operation: AnyOperation) -> bool:
        """Whether an operation is about a topic, session or consumer of several clusters."""
        return operation.topic in self._topics or self._sessions.has(operation.actor)

    def perform(self, operation: AnyOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        if operation.cluster in self._world.lost and not isinstance(operation, RecoverCluster):
            return _LOST
        match operation:
            case SetLink():
                return self._set_link(operation)
            case AdministerAt():
                return self._administer(operation)
            case LoseCluster(cluster, how):
                return self._lose(cluster, how)
            case RecoverCluster():
                return self._recover(operation)
            case CreateTopic():
                return self._create(operation)
            case CloseProducer(session):
                return self._sessions.leave_producer(session, lambda live: live.close())
            case CrashProducer(session):
                return self._sessions.leave_producer(session, lambda live: live.crash())
            case Send():
                return self._sessions.send(operation)
            case Receive(consumer, count):
                return self._sessions.receive(consumer, count)
            case AckById():
                return self._sessions.acknowledge(operation)
            case CloseConsumer(consumer):
                return self._sessions.leave_consumer(consumer, lambda handle: handle.close())
            case CrashConsumer(consumer):
                return self._sessions.leave_consumer(consumer, lambda handle: handle.crash())
            case Restart(cluster=str(cluster)) | Kill(cluster=str(cluster)):
                return self._bounce(cluster, is_kill=isinstance(operation, Kill))
            case CatchUp(consumer):
                return self._catch_up(operation, self._sessions.consumer(consumer))
            case ReadClusters(topic):
                found = self._topics.get(topic)
                return _NO_TOPIC if found is None else self._read(found)
            case _ if isinstance(operation, LinkOperation):
                if not self._world.lost.keys().isdisjoint((operation.source, operation.target)):
                    return _LOST
                return self._links.perform(operation)
            case AwaitTimedOut(cluster):
                return self._await_timed_out(cluster)
            case OpenProducer() | Subscribe() | Unload() | AwaitMessage() | AwaitAnswered() | AwaitIdle():
                return self._at_cluster(operation)
            case _:
                return Skipped("this is not done where several clusters have the topic")

    def _at_cluster(
        self, operation: OpenProducer | Subscribe | Unload | AwaitMessage | AwaitAnswered | AwaitIdle
    ) -> AnyOutcome:
        topic, cluster = self._topics.get(operation.topic), operation.cluster
        if topic is None or cluster is None or cluster not in topic.labels:
            return _NO_TOPIC
        match operation:
            case OpenProducer():
                return self._sessions.open(operation, topic, cluster)
            case Subscribe():
                return self._sessions.subscribe(operation, topic, cluster)
            case Unload():
                return self._unload(topic, cluster)
            case AwaitMessage() | AwaitAnswered():
                return _awaited(lambda: _is_stored(topic, operation), "it does not arrive")
            case AwaitIdle():
                return self._await_idle(topic, cluster)
            case _:
                assert_never(operation)

    def _replicated_over(self, link: Link) -> list[str] | None:
        topics = [topic for topic in self._topics.values() if set(link) <= set(topic.labels)]
        return [topic.name for topic in topics if topic.is_replicated] if topics else None

    def reading(self, topic: str) -> Reading:
        """The reading of one of the example's topics. Raises KeyError if it was not created."""
        return self._topics[topic].reading

    def close(self) -> None:
        """End the example's sessions, heal all links, and stop the snapshots of its topics.

        A topic with a replicated subscription has a timer in each cluster that begins snapshots. Brokers that are too
        busy to complete them, or have a defect, begin new ones all the time. After some dozens of examples a cluster
        does nothing else. Without subscriptions, a reloaded topic has no such timer.
        """
        self._sessions.close()
        for label in list(self._world.lost):
            self._world.recover(label)
        self._world.clusters.heal_all()
        for topic in self._topics.values():
            for label in topic.labels:
                with suppress(AdminError):  # the topic is being loaded, or the cluster is starting
                    _retire(self._world.clusters.cluster(label).admin, topic.name)

    # ----------------------------------------------------------------------------------------------------- operations

    def _create(self, operation: CreateTopic) -> AnyOutcome:
        if operation.deduplication not in ("namespace-on", "namespace-off"):
            return Skipped("the namespace of a topic in several clusters decides whether it is deduplicated")
        self._world.clusters.heal_all()
        labels = self._world.clusters.labels[: operation.clusters]
        deduplication = operation.deduplication == "namespace-on"
        links = operation.links or tuple(permutations(labels, 2)) if operation.is_replicated else ()
        is_by_policy = operation.replicated_by == "topic"
        own = f"of-{self._example}-{operation.topic}" if operation.links and not is_by_policy else None
        of_namespace = () if is_by_policy else links
        namespace = self._world.namespace(labels, of_namespace, deduplication=deduplication, of=own)
        name = f"persistent://{namespace}/e{self._example}-{operation.topic}"
        for label in labels:
            self._world.clusters.cluster(label).admin.ensure_topic(name)
        for label in labels if is_by_policy else ():
            self._world.set_topic_links(name, label, links)
        self._world.await_connected(links, name)
        reading = Reading(self._world, labels, name, links)
        self._topics[operation.topic] = TopicInClusters(
            name, labels, reading, may_change_links=own is not None or is_by_policy, is_by_policy=is_by_policy
        )
        settings = ReplicationSettings(labels, PERIOD_MS, TIMEOUT_MS, CACHED, self._world.largest_bytes)
        return Created(deduplication, self._world.snapshot_room, replication=settings)

    def _catch_up(self, operation: CatchUp, consumer: ConsumerAtCluster | None) -> AnyOutcome:
        if consumer is None:
            return NO_CONSUMER
        if not (consumer.is_replicated and consumer.topic.is_replicated):
            return Skipped("what is not replicated does not catch up")
        if self._world.lost:
            return _LOST
        if consumer.cluster in consumer.topic.emptied:
            return Skipped("nobody can follow a cluster that lost its data")
        return self._catch_ups.perform(operation, consumer)

    def _await_timed_out(self, cluster: str) -> AnyOutcome:
        if cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster")
        before, long_ago = self._world.timed_out(cluster), Deadline.after(TOO_LATE_S)
        waited = _awaited(
            lambda: self._world.timed_out(cluster) != before,
            "the cluster gives up no snapshot",
            pause_s=PERIOD_MS / 1000,  # each poll reads all metrics of the cluster
        )
        time.sleep(long_ago.left_s)
        return waited

    def _await_idle(self, topic: TopicInClusters, cluster: str) -> AnyOutcome:
        stats = self._world.clusters.cluster(cluster).admin.stats(topic.name)
        others = [label for label in topic.labels if label != cluster]
        is_held = any(self._world.is_connected((other, cluster), topic.name) for other in others)
        is_published_to = any(not publisher.is_replicator for publisher in stats.publishers)
        if stats.subscriptions or is_published_to or topic.reading.messages(cluster) or not is_held:
            return Skipped("the topic is in use there, or would be deleted")
        if not self._world.close_idle(cluster, topic.labels, topic.name):
            return Skipped("the cluster keeps the replicators of an idle topic")
        topic.closed.add(cluster)
        return ReplicatorsClosed(now_ms())

    def _unload(self, topic: TopicInClusters, cluster: str) -> AnyOutcome:
        self._world.clusters.cluster(cluster).admin.unload(topic.name)
        self._sessions.drop(cluster, topic)
        topic.closed.discard(cluster)
        return Done()

    def _set_link(self, operation: SetLink) -> AnyOutcome:
        topic, link = self._topics.get(operation.topic), (operation.source, operation.target)
        if topic is None or not topic.may_change_links or not set(link) <= set(topic.labels):
            return Skipped("there is no such topic with a policy of its own")
        if self._world.lost or self._is_disturbed or (link in topic.links) is operation.on:
            return Skipped("a cluster is lost, a link is disturbed, or nothing would change")
        if topic.is_by_policy:
            links = {*topic.links, link} if operation.on else set(topic.links) - {link}
            self._world.set_topic_links(topic.name, link[0], links)
        else:
            links = set(self._world.set_link(namespace_of(topic.name), link, on=operation.on))
        topic.reading.links = tuple(sorted(links))
        if operation.on:
            self._world.await_connected([link], topic.name)
        else:
            # 4.2.4 keeps the replicator in the stats, disconnected, also when the topic is reloaded.
            self._world.await_all(
                lambda: not self._world.is_connected(link, topic.name),
                f"cluster {link[0]} keeps its replicator to {link[1]} connected",
            )
        return Done()

    def _administer(self, operation: AdministerAt) -> AnyOutcome:
        topic, cluster = self._topics.get(operation.topic), operation.cluster
        if topic is None or cluster not in topic.labels:
            return _NO_TOPIC
        return administered(operation, topic, self._world.clusters.cluster(cluster).admin)

    def _read(self, topic: TopicInClusters) -> AnyOutcome:
        """Read a topic. While a cluster is lost, the others must have replicated everything between them."""
        if self._world.lost and not self._is_disturbed:
            stalled = await_replicated(self._world, topic.reading, topic.labels)
            if stalled is not None:
                return stalled
        return topic.read_back() or Skipped("there is too much to read")

    @property
    def _is_disturbed(self) -> bool:
        """Whether a link is cut or held."""
        clusters = self._world.clusters
        return any(clusters.is_cut(*link) or clusters.is_held(*link) for link in permutations(clusters.labels, 2))

    def _lose(self, cluster: str, how: Loss) -> AnyOutcome:
        if self._world.lost or cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster, or one is lost already")
        if _NEEDED[how] not in self._world.clusters.cluster(cluster).broker.capabilities:
            return Skipped("this broker cannot be lost so")
        topics = [topic for topic in self._topics.values() if cluster in topic.labels]
        self._sessions.drop(cluster)
        for topic in topics:
            topic.closed.discard(cluster)
            topic.reading.remember(cluster)
        self._world.lose(cluster, how)
        if how == "freeze":
            return Done()
        links = [(link, topic.name) for topic in topics for link in topic.links if link[1] == cluster]
        self._world.await_all(
            lambda: not any(self._world.is_connected(link, name) for link, name in links),
            f"the others do not notice that cluster {cluster} is gone",
        )
        return LinkCut(now_ms())

    def _recover(self, operation: RecoverCluster) -> AnyOutcome:
        cluster, is_empty = operation.cluster, operation.is_empty
        if cluster not in self._world.lost:
            return Skipped("the cluster is not lost")
        if is_empty and not self._world.may_lose_data(cluster):
            return Skipped("the cluster cannot come back empty")
        until_ms = now_ms()
        if not is_empty:
            self._world.recover(cluster)
            return LinkHealed(until_ms)
        topics = [topic for topic in self._topics.values() if cluster in topic.labels]
        unconnected = self._world.recover_empty(
            cluster, {topic.name: topic.links for topic in topics}, is_reached_early=operation.is_reached_early
        )
        for topic in topics:
            topic.lose_data(cluster)
            if operation.is_reached_early:
                self._reload_beside(topic, cluster)
        return LinkHealed(until_ms, tuple(sorted({source for source, _ in unconnected})))

    def _reload_beside(self, topic: TopicInClusters, cluster: str) -> None:
        """Reload a topic in all clusters but one, and wait until their replicators to that are connected."""
        for other in topic.labels:
            if other != cluster:
                self._unload(topic, other)
                self._world.clusters.cluster(other).admin.ensure_topic(topic.name)
        self._world.await_connected([link for link in topic.links if link[1] == cluster], topic.name)

    def _bounce(self, cluster: str, *, is_kill: bool) -> AnyOutcome:
        if cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster")
        self._sessions.drop(cluster)
        for topic in self._topics.values():
            topic.closed.discard(cluster)
        self._world.bounce(cluster, is_kill=is_kill)
        return Done()


def _awaited(condition: Callable[[], bool], otherwise: str, *, pause_s: float = PAUSE_S) -> Done | Skipped:
    """Wait for something for as long as a snapshot may take."""
    return Done() if wait_until(condition, 2 * TIMEOUT_MS / 1000, pause_s=pause_s) else Skipped(otherwise)


def _is_stored(topic: TopicInClusters, operation: AwaitMessage | AwaitAnswered) -> bool:
    """Whether a cluster has a message; or the responses to a snapshot, or a later snapshot."""
    if isinstance(operation, AwaitMessage):
        return operation.message in topic.reading.messages(operation.cluster)
    begun = topic.reading.snapshots(operation.cluster, after=operation.after)
    wanted = Counter(operation.by)
    if any(wanted <= Counter(answer.cluster for answer in snapshot.answers) for snapshot in begun):
        return True
    times_ms = [topic.reading.began_ms(operation.cluster, snapshot) for snapshot in begun]
    return bool(times_ms) and times_ms[-1] - times_ms[0] >= TIMEOUT_MS


def _retire(admin: Admin, topic: str) -> None:
    """Reload a topic at a cluster, without its subscriptions."""
    for subscription in admin.stats(topic).subscriptions:
        admin.delete_subscription(topic, subscription, force=True)
    admin.unload(topic)
