"""The consumers of one example: they subscribe, receive, and close or crash.

After a crash, the next operation waits until the broker has noticed the disconnect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from conformance.clients.outcomes import ConnectionLost, ServerRefused
from conformance.clients.wire.consumer import Excess
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import LateForStats, LateToReturn
from conformance.lockstep.cursors.consumers import Member, WireMember
from conformance.lockstep.cursors.official import OfficialMember
from conformance.lockstep.cursors.poller import Poller, none_of, port_of, stats_of
from conformance.lockstep.positions import Positions
from conformance.lockstep.world import World
from conformance.wait import Deadline, wait_until
from model.events import Delivery, Refused
from model.log import Position
from model.subscription_operations import Subscribe
from model.vocabulary import Client

DELIVERY_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 15.0}
"""How long due messages may take; far longer than ever measured. pulsar-client may still be reconnecting."""
LIMIT: Final = "max consumers limit"
"""In the words of a refusal because of a policy."""
LET_IN_TIMEOUT_S: Final = 30.0
"""How long a topic may take to accept consumers again after a restart, or after a consumer crashed."""
GONE_TIMEOUT_S: Final = 10.0
"""How long a broker may take to notice a disconnect."""
ARRIVAL_S: Final[dict[Client, float]] = {"wire": 0.005, "official": 0.02}
"""How long to wait for messages in flight before the poller requests stats."""


class Members:
    """The consumers of one example, by their names in the history."""

    def __init__(self, world: World, positions: Positions) -> None:
        self._world = world
        self._positions = positions
        self._there: dict[str, Member] = {}
        self._partitions: dict[str, tuple[str, ...]] = {}
        self._stuck: dict[tuple[str, str], set[Position]] = {}

    def add_partitions(self, topic: str, partitions: tuple[str, ...]) -> None:
        """Register the partitions of a topic, all by their real names."""
        self._partitions[topic] = partitions

    def get(self, consumer: str) -> Member | None:
        """An open consumer."""
        return self._there.get(consumer)

    def on(self, topic: str, subscription: str) -> dict[str, Member]:
        """The open consumers of a subscription, including those of the whole partitioned topic."""
        return {
            consumer: member
            for consumer, member in self._there.items()
            if member.subscription == subscription and topic in self.parts(member.topic)
        }

    def subscriptions(self, topic: str) -> tuple[str, ...]:
        """The subscriptions of a topic that have consumers."""
        there = (member.subscription for member in self._there.values() if topic in self.parts(member.topic))
        return tuple(dict.fromkeys(there))

    def parts(self, topic: str) -> tuple[str, ...]:
        """The topics with cursors: a topic's partitions, or itself."""
        return self._partitions.get(topic, (topic,))

    def poller(self, topic: str, subscription: str, *, after_delays: bool = False) -> Poller:
        """``after_delays``: it waits for delayed messages whose time has not come, too."""
        return Poller(
            self._world.admin,
            topic,
            subscription,
            list(self.on(topic, subscription).values()),
            partial(self._positions.begun, topic),
            none_of if after_delays else partial(self._positions.not_due, topic),
            self._stuck.setdefault((topic, subscription), set()),
            0.0 if self._world.failpoints is None else self._world.failpoints.slow_s,
        )

    # --------------------------------------------------------------------------------------------------------- coming

    def subscribe(self, operation: Subscribe, topic: str) -> Refused | None:
        """Subscribe a consumer."""
        member = self.new(operation, topic)
        if isinstance(member, Refused):
            return member
        self._there[operation.consumer] = member
        return None

    def new(self, operation: Subscribe, topic: str) -> Member | Refused:
        """A consumer that is subscribed and not registered; retries while the refusal may pass."""
        is_taken = any(self.on(part, operation.subscription) for part in self.parts(topic))

        def may_pass(error: HarnessError) -> bool:
            is_busy = isinstance(error, ServerRefused) and error.code == "ConsumerBusy"
            return error.may_pass or (is_busy and not is_taken and not self._is_limited(error, topic))

        try:
            return self._world.answers.retry(
                lambda: self._connect(operation, topic),
                LET_IN_TIMEOUT_S,
                what=f"subscribing {operation.consumer}",
                topic=topic,
                may_pass=may_pass,
            )
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)

    def _is_limited(self, error: HarnessError, topic: str) -> bool:
        """Whether a policy refuses a consumer, and the broker has none that it will remove."""
        if LIMIT not in str(error):
            return False
        for part in self.parts(topic):
            there = sum(part in self.parts(member.topic) for member in self._there.values())
            stats = self._world.admin.stats(part).subscriptions.values()
            if not 0 < sum(len(one.consumers) for one in stats) <= there:
                return False
        return True

    def _connect(self, operation: Subscribe, topic: str) -> Member:
        # The selector assigns hashes by consumer name: with the history's name, a replay assigns the same.
        url, name = self._world.service, operation.known_as or operation.consumer
        traits = self._world.traits
        if operation.client == "wire":
            return WireMember(url, operation, topic, name, self._positions, traits)
        traits = traits.of_released(operation.library)
        return OfficialMember(url, operation, topic, name, self._positions, traits, self._batch_size_of)

    def _batch_size_of(self, topic: str, position: Position) -> int:
        """How many messages an entry has, as it was sent, or as it is stored if the receipt was lost."""
        known = self._positions.batch_size(topic, position)
        return len(self._world.admin.read_entry(topic, position).messages) if known is None else known

    # -------------------------------------------------------------------------------------------------------- receiving

    def take(self, member: Member, count: int) -> tuple[tuple[Delivery, ...], str | None]:
        """Receive up to ``count`` messages; the second value says which due ones are missing."""
        pollers = [self.poller(part, member.subscription) for part in self.parts(member.topic)]
        return receive(member, count, pollers, timeout_s=self.delivery_timeout_s(member.client))

    def delivery_timeout_s(self, client: Client = "wire") -> float:
        """How long a due message may take, which a broker may read again some time after a read has failed."""
        return DELIVERY_TIMEOUT_S[client] + self._world.failed_reads_s

    def take_while_connected(self, member: WireMember, count: int) -> tuple[Delivery, ...]:
        """Receive up to ``count`` messages until the connection ends; none is due."""
        poller = self.poller(member.topic, member.subscription)
        deadline = Deadline.after(DELIVERY_TIMEOUT_S["wire"])
        taken: list[Delivery] = []
        with suppress(ConnectionLost):
            member.ask_for(count)
            while member.is_open and len(taken) < count and not deadline.passed:
                member.pump(ARRIVAL_S["wire"])
                came = member.take(count - len(taken))
                taken += came
                if not came and poller.has_nothing_for(member):
                    break
            member.pump()
            taken += member.take(count - len(taken))
        return tuple(taken)

    # ------------------------------------------------------------------------------------------------------------ going

    def close(self, consumer: str) -> None:
        """Close a consumer gracefully."""
        member = self._there.pop(consumer)
        member.close()

    def can_crash(self, member: Member) -> bool:
        """Whether its connections can be cut: pulsar-client's only if the broker redirects it to no other address."""
        if not isinstance(member, OfficialMember):
            return True
        for topic in self.parts(member.topic):
            found = self._world.admin.stats(topic).subscriptions.get(member.subscription)
            for consumer in found.consumers if found is not None else ():
                if consumer.consumer_name == member.name and not member.can_be_cut(consumer.address):
                    return False
        return True

    def crash(self, consumers: Iterable[str]) -> None:
        """Cut consumers off, and wait until the broker has noticed."""
        members = [self._there.pop(consumer) for consumer in list(consumers)]
        for member in members:
            member.crash()
        for member in members:
            self.await_gone(member)

    def cut_connection(self, member: OfficialMember) -> None:
        """Cut the connections of pulsar-client, and wait until it has reconnected. Raises LateToReturn."""
        before = member.ports
        member.cut_off()
        deadline = Deadline.after(LET_IN_TIMEOUT_S)
        for topic in self.parts(member.topic):
            if not wait_until(partial(self._is_back, member, topic, before), deadline):
                raise LateToReturn(f"in {LET_IN_TIMEOUT_S:g} s pulsar-client did not reconnect")

    def _is_back(self, member: Member, topic: str, before: Sequence[int]) -> bool:
        found = self._world.admin.stats(topic).subscriptions.get(member.subscription)
        stats = None if found is None else stats_of(member, found.consumers)
        return stats is not None and port_of(stats) not in before

    def await_gone(self, member: Member) -> None:
        """Wait until the broker has noticed that a consumer disconnected."""
        deadline = Deadline.after(GONE_TIMEOUT_S)
        for topic in self.parts(member.topic):
            if not wait_until(partial(self._is_gone, member, topic), deadline):
                raise LateForStats(f"in {GONE_TIMEOUT_S:g} s the broker did not notice that a consumer was cut off")

    def _is_gone(self, member: Member, topic: str) -> bool:
        found = self._world.admin.stats(topic).subscriptions.get(member.subscription)
        return found is None or stats_of(member, found.consumers) is None

    def keep(self, topic: str) -> dict[str, WireMember]:
        """Remove and return the wire client's consumers at a frozen owner of a topic."""
        of_topic = (topic, *self.parts(topic))
        kept = {
            consumer: member
            for consumer, member in self._there.items()
            if isinstance(member, WireMember) and member.topic in of_topic
        }
        for consumer in kept:
            del self._there[consumer]
        return kept

    def lost(self, topic: str | None = None, subscription: str | None = None) -> list[Member]:
        """The broker closed the consumers of a topic, or of one subscription, or, with None, all.

        Returns the wire client's, which do not reconnect. pulsar-client's reconnect and receive pending messages again.
        """
        gone: list[Member] = []
        for consumer, member in list(self._there.items()):
            if topic is not None and topic not in (member.topic, *self.parts(member.topic)):
                continue
            if subscription is not None and member.subscription != subscription:
                continue
            if isinstance(member, OfficialMember):
                member.lost(self.parts(member.topic) if topic is None else self.parts(topic))
            else:
                gone.append(self._there.pop(consumer))
                member.crash()
        return gone

    def closed(self) -> Iterator[tuple[str, str, str]]:
        """The wire client's consumers that the broker closed: name, real topic, reason.

        Without those behind a proxy: a network fault may have closed them.
        """
        for consumer, member in self._there.items():
            if isinstance(member, WireMember) and member.proxy is None and member.why_closed is not None:
                yield consumer, member.topic, member.why_closed

    def connected_to(self, topic: str) -> tuple[str, ...]:
        """The wire client's consumers that are connected to a topic."""
        there = self._there.items()
        return tuple(name for name, one in there if isinstance(one, WireMember) and one.is_open and one.topic == topic)

    def excesses(self) -> Iterator[tuple[str, str, Excess]]:
        """What the wire client's consumers were sent beyond their permits since the last call: name, topic, excess."""
        for consumer, member in self._there.items():
            if isinstance(member, WireMember) and (excess := member.take_excess()) is not None:
                yield consumer, member.topic, excess

    def cut_all(self) -> None:
        """Cut all consumers off without waiting for the broker."""
        for member in self._there.values():
            member.crash()
        self._there.clear()


def receive(
    member: Member, count: int, pollers: list[Poller], *, timeout_s: float | None = None
) -> tuple[tuple[Delivery, ...], str | None]:
    """As :meth:`Members.take`, with pollers of the member's topics."""
    deadline = Deadline.after(DELIVERY_TIMEOUT_S[member.client] if timeout_s is None else timeout_s)
    member.ask_for(count)
    taken: list[Delivery] = []
    while True:
        member.pump(ARRIVAL_S[member.client])
        came = member.take(count - len(taken))
        taken += came
        if len(taken) >= count:
            return tuple(taken), None
        if came:
            continue
        if all(poller.has_nothing_for(member) for poller in pollers):
            member.pump()
            taken += member.take(count - len(taken))
            return tuple(taken), None
        if deadline.passed or any(poller.misses_chunks for poller in pollers):
            return tuple(taken), "; ".join(poller.missing() for poller in pollers)
