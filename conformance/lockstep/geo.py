"""Carries out the operations of document 001 on real clusters.

What happens between the clusters is not waited for, except in :class:`~model.replication.words.CatchUp`, which is for
that, and by :mod:`~conformance.lockstep.geo_reading`. What it means is judged elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from conformance.lockstep.cursor_accounts import PAUSE_S
from conformance.lockstep.geo_reading import Reading
from conformance.lockstep.geo_world import CACHED, PERIOD_MS, TIMEOUT_MS, GeoWorld
from conformance.systems.deadline import Deadline
from conformance.systems.outcomes import ConnectionLost, NoAnswer, Receipt, ServerRefused
from conformance.systems.wire import WireClient
from conformance.systems.wire_consumer import WireConsumer
from conformance.systems.wire_producer import WireProducer
from conformance.trouble import Trouble
from model.log import Position
from model.operations import AnyOutcome, Done, Refused, Skipped, Unknown
from model.replication.words import (
    AcknowledgeAt,
    AcknowledgedAt,
    AwaitTimedOut,
    Behind,
    CatchUp,
    CaughtUp,
    CreateReplicatedTopic,
    CutLink,
    GeoCreated,
    GeoOperation,
    GivenMessage,
    HealLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    LinkCut,
    LinkHealed,
    PublishAt,
    Published,
    ReadClusters,
    ReceiveAt,
    ReceivedAt,
    RestartCluster,
    UnloadAt,
)

ANSWER_TIMEOUT_S: Final = 20.0
"""How long a cluster may take for what it is asked."""

LAST_MESSAGE_S: Final = 0.2
"""How long a consumer waits for one message more: what is under way between clusters comes when it comes."""


@dataclass(slots=True)
class Topic:
    """A topic of the example: its real name, which is the same everywhere, and the clusters that have it."""

    name: str
    labels: tuple[str, ...]
    reading: Reading


@dataclass(slots=True)
class Member:
    """A consumer of the example: where it is, what it was given and did not acknowledge, and permits it has left."""

    cluster: str
    topic: Topic
    subscription: str
    consumer: WireConsumer
    given: dict[str, Position] = field(default_factory=dict)
    permits: int = 0


class GeoPerformer:
    """One example on the clusters of a world."""

    def __init__(self, world: GeoWorld, *, example: int) -> None:
        self._world = world
        self._example = example
        self._topics: dict[str, Topic] = {}
        self._members: dict[str, Member] = {}
        self._clients: dict[str, WireClient] = {}
        self._producers: dict[tuple[str, str], WireProducer] = {}
        self._sequence = 0

    def perform(self, operation: GeoOperation) -> AnyOutcome:
        """Carry out one operation and say what was seen."""
        match operation:
            case CreateReplicatedTopic():
                return self._create(operation)
            case PublishAt(cluster, topic, messages):
                return self._publish(cluster, topic, messages)
            case JoinAt():
                return self._join(operation)
            case ReceiveAt(consumer, count):
                member = self._members.get(consumer)
                return _no_consumer() if member is None else ReceivedAt(tuple(self._receive(member, count)))
            case AcknowledgeAt(consumer, messages, is_cumulative):
                member = self._members.get(consumer)
                return _no_consumer() if member is None else _acknowledge(member, messages, is_cumulative)
            case LeaveAt(consumer):
                return self._leave(consumer)
            case CutLink(source, target):
                return self._cut(source, target)
            case HealLink(source, target):
                return self._heal(source, target)
            case AwaitTimedOut(cluster):
                return self._await_timed_out(cluster)
            case UnloadAt(cluster, topic):
                return self._unload(cluster, topic)
            case RestartCluster(cluster) | KillCluster(cluster):
                return self._bounce(cluster, is_kill=isinstance(operation, KillCluster))
            case CatchUp():
                return self._catch_up(operation)
            case ReadClusters(topic):
                found = self._topics.get(topic)
                return _no_topic() if found is None else found.reading.quiet()
            case _:
                assert_never(operation)

    def close(self) -> None:
        """End the example's sessions, and leave all links in order."""
        for client in self._clients.values():
            client.abort()
        self._world.heal_all()

    # ----------------------------------------------------------------------------------------------------- operations

    def _create(self, operation: CreateReplicatedTopic) -> AnyOutcome:
        self._world.heal_all()
        labels = self._world.clusters.labels[: operation.clusters]
        namespace = self._world.namespace(
            labels, is_replicated=operation.is_replicated, deduplication=operation.deduplication
        )
        name = f"persistent://{namespace}/e{self._example}-{operation.topic}"
        for label in labels:
            self._world.clusters.cluster(label).admin.ensure_topic(name)
        if operation.is_replicated:
            self._world.await_connected(labels, name)
        self._topics[operation.topic] = Topic(name, labels, Reading(self._world, labels, name))
        return GeoCreated(clusters=labels, period_ms=PERIOD_MS, timeout_ms=TIMEOUT_MS, cached=CACHED)

    def _publish(self, cluster: str, name: str, messages: Sequence[str]) -> AnyOutcome:
        topic = self._topics.get(name)
        if topic is None or cluster not in topic.labels:
            return _no_topic()
        return self._publish_to(cluster, topic, messages)

    def _publish_to(self, cluster: str, topic: Topic, messages: Sequence[str]) -> AnyOutcome:
        try:
            producer = self._producer(cluster, topic)
            tickets = []
            for message in messages:
                self._sequence += 1
                tickets.append(producer.send(self._sequence, message.encode()))
            answers = [producer.answer(ticket, timeout_s=ANSWER_TIMEOUT_S) for ticket in tickets]
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)
        except (ConnectionLost, NoAnswer) as error:
            return Unknown(str(error))
        positions = [
            answer.position for answer in answers if isinstance(answer, Receipt) and answer.position is not None
        ]
        return Published(tuple(positions)) if len(positions) == len(messages) else Unknown("not all were confirmed")

    def _join(self, operation: JoinAt) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None or operation.cluster not in topic.labels:
            return _no_topic()
        try:
            consumer = self._client(operation.cluster).subscribe(
                topic.name,
                operation.subscription,
                kind="Exclusive",
                initial="earliest",
                replicated=operation.is_replicated,
                timeout_s=ANSWER_TIMEOUT_S,
            )
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)
        self._members[operation.consumer] = Member(operation.cluster, topic, operation.subscription, consumer)
        return Done()

    def _receive(self, member: Member, count: int) -> list[GivenMessage]:
        """What a consumer is given now; what it is given again counts as well."""
        if member.permits < count:
            member.consumer.flow(count - member.permits)
            member.permits = count
        given: list[GivenMessage] = []
        while len(given) < count and (delivery := member.consumer.receive(timeout_s=LAST_MESSAGE_S)) is not None:
            member.permits -= 1
            message = delivery.payload.decode(errors="replace")
            member.given[message] = delivery.position
            given.append(GivenMessage(message, delivery.position))
        return given

    def _leave(self, name: str) -> AnyOutcome:
        member = self._members.pop(name, None)
        if member is None:
            return _no_consumer()
        member.consumer.close(timeout_s=ANSWER_TIMEOUT_S)
        return Done()

    def _cut(self, source: str, target: str) -> AnyOutcome:
        link = (source, target)
        topics = [topic for topic in self._topics.values() if {source, target} <= set(topic.labels)]
        if not topics or self._world.is_cut(link):
            return Skipped("there is no such link, or it is cut already")
        self._world.cut(link)
        self._world.await_all(
            lambda: not any(self._world.is_connected(link, topic.name) for topic in topics),
            f"cluster {source} does not notice that its link to {target} is cut",
        )
        return LinkCut(_now_ms())

    def _heal(self, source: str, target: str) -> AnyOutcome:
        if not self._world.is_cut((source, target)):
            return Skipped("the link is not cut")
        until_ms = _now_ms()
        self._world.heal((source, target))
        return LinkHealed(until_ms)

    def _await_timed_out(self, cluster: str) -> AnyOutcome:
        if cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster")
        before, deadline = self._world.timed_out(cluster), Deadline.after(3 * TIMEOUT_MS / 1000)
        while self._world.timed_out(cluster) == before:
            if deadline.passed:
                return Skipped("the cluster gives up no snapshot")
            time.sleep(PERIOD_MS / 1000)
        return Done()

    def _unload(self, cluster: str, name: str) -> AnyOutcome:
        topic = self._topics.get(name)
        if topic is None or cluster not in topic.labels:
            return _no_topic()
        self._world.clusters.cluster(cluster).admin.unload(topic.name)
        self._forget(cluster)
        return Done()

    def _bounce(self, cluster: str, *, is_kill: bool) -> AnyOutcome:
        if cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster")
        broker = self._world.clusters.cluster(cluster).broker
        self._forget(cluster)
        if is_kill:
            broker.kill()
            broker.start()
        else:
            broker.restart()
        return Done()

    # ------------------------------------------------------------------------------------------------------ catching up

    def _catch_up(self, operation: CatchUp) -> AnyOutcome:
        member = self._members.get(operation.consumer)
        if member is None:
            return _no_consumer()
        topic, others = member.topic, [label for label in member.topic.labels if label != member.cluster]
        self._world.heal_all()
        self._world.await_connected(topic.labels, topic.name)
        self._world.await_all(lambda: _is_everywhere(topic), f"messages of {topic.name} do not come to all clusters")
        wanted = topic.reading.messages(member.cluster)
        began = time.monotonic()
        sent: list[str] = []
        while True:
            self._take_all(member)
            behind = self._behind(topic, member.subscription, others, wanted)
            periods = (time.monotonic() - began) * 1000 / PERIOD_MS
            if behind is None:
                self._world.await_all(lambda: _is_everywhere(topic), f"messages of {topic.name} do not come everywhere")
                self._take_all(member)
                return CaughtUp(round(periods, 1), tuple(sent))
            if periods > operation.most_periods:
                return Behind(*behind, round(periods, 1))
            message = f"{operation.prefix}{len(sent)}"
            if isinstance(self._publish_to(member.cluster, topic, (message,)), Published):
                sent.append(message)
            time.sleep(PERIOD_MS / 1000)  # a message for each snapshot is traffic enough

    def _take_all(self, member: Member) -> None:
        """Have a consumer receive and acknowledge all that its cluster has."""
        deadline = Deadline.after(ANSWER_TIMEOUT_S)
        admin = self._world.clusters.cluster(member.cluster).admin
        while True:
            self._receive(member, 100)
            if member.given:
                member.consumer.ack(list(member.given.values()))
                member.given.clear()
            told = admin.stats(member.topic.name).subscriptions[member.subscription]
            if told.unacked_messages == 0 and not member.consumer.pending():
                return
            if deadline.passed:
                raise Trouble(f"{told.unacked_messages} messages stay unacknowledged at cluster {member.cluster}")
            time.sleep(PAUSE_S)

    def _behind(
        self, topic: Topic, subscription: str, others: Sequence[str], wanted: dict[str, Position]
    ) -> tuple[str, Position] | None:
        """The first of the clusters whose subscription has not passed all of these messages, and where it is."""
        for label in others:
            there = topic.reading.messages(label)
            last = max((there[message] for message in wanted), default=None)
            mark_delete = topic.reading.mark_delete(label, subscription) or Position(-1, -1)
            if last is not None and mark_delete < last:
                return label, mark_delete
        return None

    # ------------------------------------------------------------------------------------------------------ in private

    def _client(self, cluster: str) -> WireClient:
        if cluster not in self._clients:
            address = self._world.clusters.cluster(cluster).broker.addresses.service_url
            self._clients[cluster] = WireClient.connect(address, timeout_s=ANSWER_TIMEOUT_S)
        return self._clients[cluster]

    def _producer(self, cluster: str, topic: Topic) -> WireProducer:
        key = (cluster, topic.name)
        if key not in self._producers or not self._producers[key].is_open:
            name = f"p-{cluster}-{self._sequence}"
            self._producers[key] = self._client(cluster).open_producer(
                topic.name, name=name, timeout_s=ANSWER_TIMEOUT_S
            )
        return self._producers[key]

    def _forget(self, cluster: str) -> None:
        """All sessions at a cluster end: its topics move, or its process goes away."""
        client = self._clients.pop(cluster, None)
        if client is not None:
            client.abort()
        self._producers = {key: one for key, one in self._producers.items() if key[0] != cluster}
        self._members = {name: member for name, member in self._members.items() if member.cluster != cluster}


def _is_everywhere(topic: Topic) -> bool:
    """Whether all clusters have the same messages."""
    return len({frozenset(topic.reading.messages(label)) for label in topic.labels}) == 1


def _acknowledge(member: Member, messages: Sequence[str], is_cumulative: bool) -> AnyOutcome:
    positions = [member.given[message] for message in messages if message in member.given]
    if not positions:
        return Skipped("the consumer has none of these messages")
    if is_cumulative:
        positions = [max(positions)]
    begun_ms = _now_ms()
    member.consumer.ack(positions, cumulative=is_cumulative)
    last = positions[-1]
    done = [one for one, at in member.given.items() if at in positions or (is_cumulative and at <= last)]
    for message in done:
        del member.given[message]
    return AcknowledgedAt(begun_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _no_topic() -> Skipped:
    return Skipped("there is no such topic")


def _no_consumer() -> Skipped:
    return Skipped("there is no such consumer")
