"""Carries out the operations of document 001 on real clusters.

What happens between the clusters is not waited for, except in :class:`~model.replication.vocabulary.CatchUp`, which is
for that, and by :mod:`~conformance.lockstep.replication_reading`. What it means is judged elsewhere.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, assert_never

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ConnectionLost, NoAnswer, Receipt, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.producer import WireProducer
from conformance.harness_error import HarnessError
from conformance.lockstep.cursor_accounts import PAUSE_S
from conformance.lockstep.replication_members import ANSWER_TIMEOUT_S, Member, Topic
from conformance.lockstep.replication_reading import Reading, payload_of
from conformance.lockstep.replication_world import (
    CACHED,
    CONNECT_TIMEOUT_S,
    PERIOD_MS,
    TIMEOUT_MS,
    GeoWorld,
    Link,
    now_ms,
)
from conformance.wait import Deadline
from model.events import AnyOutcome, Done, Refused, Skipped, Unknown
from model.log import Position
from model.replication.agreement import SLACK_MS
from model.replication.vocabulary import (
    AcknowledgeAt,
    AwaitAnswered,
    AwaitIdle,
    AwaitMessage,
    AwaitTimedOut,
    Behind,
    CatchUp,
    CaughtUp,
    CreateReplicatedTopic,
    CutLink,
    GeoCreated,
    GeoOperation,
    HealLink,
    HoldLink,
    JoinAt,
    KillCluster,
    LeaveAt,
    LinkCut,
    LinkHealed,
    NotPassedOn,
    PublishAt,
    Published,
    ReadClusters,
    ReceiveAt,
    ReleaseLink,
    ReplicatorsClosed,
    RestartCluster,
    SlowLink,
    UnloadAt,
)

STANDSTILL_S: Final = 30.0
"""A replicator that is connected, and passes on nothing for so long, is not going to: it tries nothing by then."""

TOO_LATE_S: Final = (TIMEOUT_MS + 2 * PERIOD_MS + SLACK_MS) / 1000
"""After so long nobody can doubt that a snapshot which was to begin has been given up."""


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
            case PublishAt():
                return self._publish(operation)
            case JoinAt():
                return self._join(operation)
            case ReceiveAt(consumer, count):
                member = self._members.get(consumer)
                return _no_consumer() if member is None else member.receive(count)
            case AcknowledgeAt(consumer, messages, is_cumulative):
                member = self._members.get(consumer)
                return _no_consumer() if member is None else member.acknowledge(messages, is_cumulative=is_cumulative)
            case LeaveAt(consumer):
                return self._leave(consumer)
            case CutLink(source, target):
                return self._cut(source, target)
            case HealLink(source, target, is_awaited):
                return self._heal(source, target, is_awaited=is_awaited)
            case HoldLink() | SlowLink() | ReleaseLink():
                return self._hold_or_release(operation)
            case AwaitMessage() | AwaitAnswered():
                return self._await_stored(operation)
            case AwaitTimedOut(cluster):
                return self._await_timed_out(cluster)
            case AwaitIdle(cluster, topic):
                return self._await_idle(cluster, topic)
            case UnloadAt(cluster, topic):
                return self._unload(cluster, topic)
            case RestartCluster(cluster) | KillCluster(cluster):
                return self._bounce(cluster, is_kill=isinstance(operation, KillCluster))
            case CatchUp():
                return self._catch_up(operation)
            case ReadClusters(topic):
                found = self._topics.get(topic)
                return _no_topic() if found is None else found.read_back() or Skipped("there is too much to read")
            case _:
                assert_never(operation)

    def reading(self, topic: str) -> Reading:
        """What reads one of the example's topics back, at any moment. KeyError for one that was not created."""
        return self._topics[topic].reading

    def close(self) -> None:
        """End the example's sessions, and leave all links in order and nothing that goes on with its topics.

        A topic with a replicated subscription has a timer in each cluster, which looks in every period whether to begin
        a snapshot. Where brokers are too busy to complete theirs, or have a defect, they begin ever new ones, and are
        busier still: after some dozens of examples a cluster does nothing else. Without subscriptions, and loaded anew,
        a topic has no such timer.
        """
        for client in self._clients.values():
            client.abort()
        self._world.clusters.heal_all()
        for topic in self._topics.values():
            for label in topic.labels:
                with suppress(AdminError):  # it is being loaded, or its cluster is
                    _retire(self._world.clusters.cluster(label).admin, topic.name)

    # ----------------------------------------------------------------------------------------------------- operations

    def _create(self, operation: CreateReplicatedTopic) -> AnyOutcome:
        self._world.clusters.heal_all()
        labels = self._world.clusters.labels[: operation.clusters]
        namespace = self._world.namespace(
            labels, is_replicated=operation.is_replicated, deduplication=operation.deduplication
        )
        name = f"persistent://{namespace}/e{self._example}-{operation.topic}"
        for label in labels:
            self._world.clusters.cluster(label).admin.ensure_topic(name)
        if operation.is_replicated:
            self._world.await_connected(labels, name)
        reading = Reading(self._world, labels, name, is_replicated=operation.is_replicated)
        self._topics[operation.topic] = Topic(name, labels, reading, operation.is_replicated)
        return GeoCreated(
            clusters=labels,
            period_ms=PERIOD_MS,
            timeout_ms=TIMEOUT_MS,
            cached=CACHED,
            largest_bytes=self._world.largest_bytes,
        )

    def _publish(self, operation: PublishAt) -> AnyOutcome:
        topic = self._topic_at(operation.cluster, operation.topic)
        if topic is None:
            return _no_topic()
        payloads = [payload_of(message, operation.size_bytes) for message in operation.messages]
        return self._publish_to(operation.cluster, topic, payloads)

    def _publish_to(self, cluster: str, topic: Topic, payloads: Sequence[bytes]) -> AnyOutcome:
        try:
            producer = self._producer(cluster, topic)
            tickets = []
            for payload in payloads:
                self._sequence += 1
                tickets.append(producer.send(self._sequence, payload))
            answers = [producer.answer(ticket, timeout_s=ANSWER_TIMEOUT_S) for ticket in tickets]
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)
        except (ConnectionLost, NoAnswer) as error:
            return Unknown(str(error))
        positions = [
            answer.position for answer in answers if isinstance(answer, Receipt) and answer.position is not None
        ]
        return Published(tuple(positions)) if len(positions) == len(payloads) else Unknown("not all were confirmed")

    def _join(self, operation: JoinAt) -> AnyOutcome:
        topic = self._topic_at(operation.cluster, operation.topic)
        if topic is None:
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
        self._members[operation.consumer] = Member(
            operation.cluster, topic, operation.subscription, operation.is_replicated, consumer
        )
        return Done()

    def _leave(self, name: str) -> AnyOutcome:
        member = self._members.pop(name, None)
        if member is None:
            return _no_consumer()
        member.consumer.close(timeout_s=ANSWER_TIMEOUT_S)
        return Done()

    def _cut(self, source: str, target: str) -> AnyOutcome:
        link = (source, target)
        topics = [topic for topic in self._topics.values() if {source, target} <= set(topic.labels)]
        if not topics or self._world.clusters.is_cut(*link):
            return Skipped("there is no such link, or it is cut already")
        self._world.clusters.cut(*link)
        self._world.await_all(
            lambda: not any(self._world.is_connected(link, topic.name) for topic in topics),
            f"cluster {source} does not notice that its link to {target} is cut",
        )
        return LinkCut(now_ms())

    def _heal(self, source: str, target: str, *, is_awaited: bool) -> AnyOutcome:
        if not self._world.clusters.is_cut(source, target):
            return Skipped("the link is not cut")
        until_ms = now_ms()
        self._world.clusters.heal(source, target)
        for topic in self._topics.values():
            if is_awaited and topic.is_replicated:
                self._world.await_connected((source, target), topic.name)
        return LinkHealed(until_ms)

    def _hold_or_release(self, operation: HoldLink | SlowLink | ReleaseLink) -> AnyOutcome:
        source, target = operation.source, operation.target
        if self._world.clusters.is_cut(source, target):
            return Skipped("the link is cut")
        match operation:
            case HoldLink(what=what):
                self._world.clusters.hold(source, target, what)
            case SlowLink(delay_ms=delay_ms):
                self._world.clusters.slow(source, target, delay_ms / 1000)
            case ReleaseLink():
                self._world.clusters.release(source, target)
            case _:
                assert_never(operation)
        return Done()

    def _await_stored(self, operation: AwaitMessage | AwaitAnswered) -> AnyOutcome:
        """Wait for something that a cluster stores, for as long as a snapshot may take."""
        topic = self._topic_at(operation.cluster, operation.topic)
        if topic is None:
            return _no_topic()
        return _come(lambda: _is_stored(topic, operation), "it does not come")

    def _await_timed_out(self, cluster: str) -> AnyOutcome:
        if cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster")
        before, long_ago = self._world.timed_out(cluster), Deadline.after(TOO_LATE_S)
        waited = _come(
            lambda: self._world.timed_out(cluster) != before,
            "the cluster gives up no snapshot",
            pause_s=PERIOD_MS / 1000,  # it is read out of all that the cluster counts
        )
        time.sleep(long_ago.left_s)
        return waited

    def _await_idle(self, cluster: str, name: str) -> AnyOutcome:
        topic = self._topic_at(cluster, name)
        if topic is None:
            return _no_topic()
        told = self._world.clusters.cluster(cluster).admin.stats(topic.name)
        others = [label for label in topic.labels if label != cluster]
        is_held = any(self._world.is_connected((other, cluster), topic.name) for other in others)
        if told.subscriptions or told.publishers or topic.reading.messages(cluster) or not is_held:
            return Skipped("the topic is in use there, or would be deleted")
        self._world.close_idle(cluster, topic.labels, topic.name)
        topic.asleep.add(cluster)
        return ReplicatorsClosed(now_ms())

    def _unload(self, cluster: str, name: str) -> AnyOutcome:
        topic = self._topic_at(cluster, name)
        if topic is None:
            return _no_topic()
        self._world.clusters.cluster(cluster).admin.unload(topic.name)
        self._forget(cluster)
        return Done()

    def _bounce(self, cluster: str, *, is_kill: bool) -> AnyOutcome:
        if cluster not in self._world.clusters.labels:
            return Skipped("there is no such cluster")
        self._forget(cluster)
        self._world.bounce(cluster, is_kill=is_kill)
        return Done()

    # ------------------------------------------------------------------------------------------------------ catching up

    def _catch_up(self, operation: CatchUp) -> AnyOutcome:
        member = self._members.get(operation.consumer)
        if member is None:
            return _no_consumer()
        if not (member.is_replicated and member.topic.is_replicated):
            return Skipped("what is not replicated does not catch up")
        topic = member.topic
        others = [
            one for one in topic.labels if one != member.cluster and self._follows(one, topic, member.subscription)
        ]
        self._world.clusters.heal_all()
        for label in topic.labels:
            self._producer(label, topic)  # opens replicators that were closed with an idle topic
        self._world.await_connected(topic.labels, topic.name)
        if (stands_still := self._pass_on(topic)) is not None:
            return stands_still
        wanted = topic.reading.messages(member.cluster)
        began = time.monotonic()
        sent: list[str] = []
        while True:
            member.take_all(self._world.clusters.cluster(member.cluster).admin)
            behind = self._behind(topic, member.subscription, others, wanted)
            periods = (time.monotonic() - began) * 1000 / PERIOD_MS
            if behind is None:
                if (stands_still := self._pass_on(topic)) is not None:
                    return stands_still
                member.take_all(self._world.clusters.cluster(member.cluster).admin)
                return CaughtUp(round(periods, 1), tuple(sent))
            if periods > operation.most_periods:
                return Behind(*behind, round(periods, 1), topic.read_back())
            message = f"{operation.prefix}{len(sent)}"
            if isinstance(self._publish_to(member.cluster, topic, (payload_of(message),)), Published):
                sent.append(message)
            time.sleep(PERIOD_MS / 1000)  # a message for each snapshot is traffic enough

    def _pass_on(self, topic: Topic) -> NotPassedOn | None:
        """Wait until all that the clusters have by now is passed on, or a connected replicator has stood still."""
        ends, deadline = topic.reading.ends(), Deadline.after(CONNECT_TIMEOUT_S)
        stands: dict[Link, Position] = {}
        since: dict[Link, float] = {}
        while left := topic.reading.left(ends):
            now, told = time.monotonic(), self._world.replicators(topic.labels, topic.name)
            for link, at in left.items():
                if stands.get(link) != at or link not in told or not told[link].connected:
                    stands[link], since[link] = at, now
            link = min(left, key=since.__getitem__)
            still_s = now - since[link]
            if still_s > STANDSTILL_S:
                return NotPassedOn(*link, round(still_s, 1), topic.reading.not_passed_on(link))
            if deadline.passed:
                raise HarnessError(f"messages of {topic.name} are not passed on within {CONNECT_TIMEOUT_S:g} s")
            time.sleep(PAUSE_S)
        return None

    def _follows(self, label: str, topic: Topic, subscription: str) -> bool:
        """Whether a cluster is to follow the others: not if it says that its subscription is not replicated."""
        told = self._world.clusters.cluster(label).admin.stats(topic.name).subscriptions.get(subscription)
        return told is None or told.replicated

    def _behind(
        self, topic: Topic, subscription: str, others: Sequence[str], wanted: dict[str, Position]
    ) -> tuple[str, Position] | None:
        """The first of the clusters whose subscription has not passed all of these messages, and where it is."""
        for label in others:
            there = topic.reading.messages(label)
            last = max((there[message] for message in wanted if message in there), default=None)
            mark_delete = topic.reading.mark_delete(label, subscription) or Position(-1, -1)
            if last is not None and mark_delete < last:
                return label, mark_delete
        return None

    # ------------------------------------------------------------------------------------------------------ in private

    def _topic_at(self, cluster: str, name: str) -> Topic | None:
        """A topic of the example, if it is there and that cluster has it."""
        topic = self._topics.get(name)
        return topic if topic is not None and cluster in topic.labels else None

    def _client(self, cluster: str) -> WireClient:
        if cluster not in self._clients:
            address = self._world.clusters.cluster(cluster).broker.addresses.service
            self._clients[cluster] = WireClient.connect(address, timeout_s=ANSWER_TIMEOUT_S)
        return self._clients[cluster]

    def _producer(self, cluster: str, topic: Topic) -> WireProducer:
        key = (cluster, topic.name)
        if key not in self._producers or not self._producers[key].is_open:
            name = f"p-{cluster}-{self._sequence}"
            self._producers[key] = self._client(cluster).open_producer(
                topic.name, name=name, timeout_s=ANSWER_TIMEOUT_S
            )
            topic.asleep.discard(cluster)
        return self._producers[key]

    def _forget(self, cluster: str) -> None:
        """All sessions at a cluster end: its topics move, or its process goes away. They are loaded anew."""
        client = self._clients.pop(cluster, None)
        if client is not None:
            client.abort()
        for topic in self._topics.values():
            topic.asleep.discard(cluster)
        self._producers = {key: one for key, one in self._producers.items() if key[0] != cluster}
        self._members = {name: member for name, member in self._members.items() if member.cluster != cluster}


def _come(condition: Callable[[], bool], otherwise: str, *, pause_s: float = PAUSE_S) -> Done | Skipped:
    """Wait for something for as long as a snapshot may take."""
    deadline = Deadline.after(2 * TIMEOUT_MS / 1000)
    while not condition():
        if deadline.passed:
            return Skipped(otherwise)
        time.sleep(pause_s)
    return Done()


def _is_stored(topic: Topic, operation: AwaitMessage | AwaitAnswered) -> bool:
    """Whether a cluster has a message; or answers to a snapshot, or has given it up and begun another."""
    if isinstance(operation, AwaitMessage):
        return operation.message in topic.reading.messages(operation.cluster)
    begun = topic.reading.snapshots(operation.cluster, behind=operation.behind)
    wanted = Counter(operation.by)
    if any(wanted <= Counter(answer.cluster for answer in snapshot.answers) for snapshot in begun):
        return True
    times_ms = [topic.reading.began_ms(operation.cluster, snapshot) for snapshot in begun]
    return bool(times_ms) and times_ms[-1] - times_ms[0] >= TIMEOUT_MS


def _retire(admin: Admin, topic: str) -> None:
    """Have a cluster load a topic anew, without its subscriptions."""
    for subscription in admin.stats(topic).subscriptions:
        admin.delete_subscription(topic, subscription, force=True)
    admin.unload(topic)


def _no_topic() -> Skipped:
    return Skipped("there is no such topic")


def _no_consumer() -> Skipped:
    return Skipped("there is no such consumer")
