"""What an example does to the links between the home of its topics and the other cluster, and what it does there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from conformance.clients.outcomes import ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.lockstep.clusters import CONNECT_TIMEOUT_S, ReplicationWorld
from conformance.lockstep.cursors.consumers import WireMember
from conformance.lockstep.cursors.members import receive
from conformance.lockstep.cursors.poller import Poller
from conformance.lockstep.log_reader import read_whole_log
from conformance.lockstep.performer import Performed
from conformance.lockstep.positions import Positions
from conformance.lockstep.replication.catch_up import await_replicated
from conformance.lockstep.replication.cluster_reader import Reading
from conformance.lockstep.replication.links import Links
from conformance.lockstep.sessions import WireSession
from conformance.lockstep.settings.traits import MANY
from conformance.wait import retry
from model.cluster_events import ReplicatorStalled
from model.cluster_operations import AWAY, HOME, LinkOperation
from model.events import AllReceived, AnyOutcome, Done, LogRead, Opened, Refused, Sent, Skipped, Starved
from model.operations import AnyOperation, CloseProducer, CrashProducer, OpenProducer, ReadLog, Send
from model.subscription_operations import ReceiveAll, Subscribe

_CLUSTERS: Final = (HOME, AWAY)
_LINKS: Final = ((HOME, AWAY), (AWAY, HOME))


class Replica:
    """``topics``: the real names of the example's topics."""

    def __init__(self, world: ReplicationWorld, topics: Mapping[str, str]) -> None:
        self._world = world
        self._topics = topics
        self._sessions: dict[str, WireSession] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._links = Links(
            world, lambda link: list(topics.values()) if topics and set(link) == set(_CLUSTERS) else None
        )

    def performs(self, operation: AnyOperation) -> bool:
        """Whether an operation is about a link, or names a cluster, or a session at the other one."""
        is_there = operation.actor in self._sessions
        return isinstance(operation, LinkOperation) or operation.cluster is not None or is_there

    def perform(self, operation: AnyOperation) -> AnyOutcome:
        if isinstance(operation, LinkOperation):
            return self._links.perform(operation)
        topic = self._topics.get(operation.topic or "")
        match operation:
            case OpenProducer(cluster=cluster) if topic is not None and cluster == AWAY:
                return self._open(operation, topic)
            case Send(session) if session in self._sessions:
                return self._send(operation, self._sessions[session])
            case CloseProducer(session) if session in self._sessions:
                self._sessions.pop(session).close()
                return Done()
            case CrashProducer(session) if session in self._sessions:
                self._sessions.pop(session).crash()
                return Done()
            case ReadLog(cluster=cluster) if topic is not None and cluster == AWAY:
                return self._read_log(topic)
            case ReceiveAll(cluster=cluster) if topic is not None and cluster == AWAY:
                return self._fail_over(operation, topic)
            case _:
                return Skipped("the topic is not replicated to such a cluster, or this is not done there")

    def _open(self, operation: OpenProducer, topic: str) -> AnyOutcome:
        """Open a producer at the other cluster, and close the session's former one."""
        if (before := self._sessions.pop(operation.session, None)) is not None:
            before.close()
        if operation.client != "wire" or (topic, operation.producer) in map(self._names.get, self._sessions):
            return Skipped("only the wire client produces at the other cluster, under a name of its own")
        try:
            live = retry(lambda: WireSession(self._world.service(AWAY), topic, operation.producer), CONNECT_TIMEOUT_S)
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)
        self._sessions[operation.session] = live
        self._names[operation.session] = (topic, operation.producer)
        return Opened(live.last_sequence_id)

    @staticmethod
    def _send(operation: Send, live: WireSession) -> AnyOutcome:
        if not operation.wait:
            return Skipped("at the other cluster, all answers are awaited")
        if not live.is_open:
            return Skipped("the session was closed from the other side")
        live.send(operation.entries)
        return Sent(live.collect(), last_sequence_id=live.last_sequence_id)

    def with_replicated(self, topic: str, read: Callable[[str], Performed]) -> Performed:
        """Heal the link to home, wait until everything is replicated to it, and ``read`` its log."""
        name, link = self._topics.get(topic), (AWAY, HOME)
        if name is None:
            return Performed(Skipped("there is no such topic"))
        self._world.clusters.release(*link)
        self._world.clusters.heal(*link)
        reading = Reading(self._world, _CLUSTERS, name, _LINKS)
        if (stalled := await_replicated(self._world, reading, _CLUSTERS, only=link)) is not None:
            return Performed(stalled)
        performed = read(topic)
        assert isinstance(performed.outcome, LogRead)
        has_reconnected = self._world.has_reconnected(link, name)
        return performed._replace(outcome=replace(performed.outcome, has_reconnected=has_reconnected))

    def _read_log(self, topic: str) -> LogRead | ReplicatorStalled:
        """Heal all links, and read a topic's log in the other cluster once everything is replicated."""
        self._world.clusters.heal_all()
        reading = Reading(self._world, _CLUSTERS, topic, _LINKS)
        if (stalled := await_replicated(self._world, reading, _CLUSTERS)) is not None:
            return stalled
        away = self._world.clusters.cluster(AWAY)
        reader = WireClient.connect(away.broker.addresses.service, timeout_s=CONNECT_TIMEOUT_S)
        try:
            return LogRead(
                read_whole_log(away.admin, reader, topic, has_markers=True),
                is_deduplicated=away.admin.stats(topic).is_deduplicated is True,
                has_reconnected=self._world.has_reconnected((HOME, AWAY), topic),
            )
        finally:
            reader.abort()

    def _fail_over(self, operation: ReceiveAll, topic: str) -> AllReceived | Starved | Skipped:
        """A consumer at the other cluster receives what is left of a subscription."""
        away, subscription = self._world.clusters.cluster(AWAY), operation.subscription
        if subscription not in away.admin.internal_stats(topic).cursors:
            return Skipped("the other cluster has no such subscription")
        taking = Subscribe("fails over", topic, subscription, kind=operation.kind, queue=MANY)
        member = WireMember(self._world.service(AWAY), taking, topic, taking.consumer, Positions(), self._world.traits)
        try:
            messages, why = receive(member, MANY, [Poller(away.admin, topic, subscription, [member])])
        finally:
            member.close()
        return AllReceived(messages) if why is None else Starved(why, messages)

    def close(self) -> None:
        """Cut all connections, and heal all links."""
        for live in self._sessions.values():
            live.crash()
        self._sessions.clear()
        self._world.clusters.heal_all()
