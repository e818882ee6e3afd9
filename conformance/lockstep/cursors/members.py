"""Who consumes from what in one example: consumers come, receive, and go, in good order or not.

When one went, the broker has noticed before anything else is done, so that the next one finds things as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from conformance.clients.outcomes import ConnectionLost, ServerRefused
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import LateForStats, LateToReturn
from conformance.lockstep.cursors.accounts import Watch, account_of, port_of
from conformance.lockstep.cursors.consumers import Member, WireMember
from conformance.lockstep.cursors.official import OfficialMember
from conformance.lockstep.positions import Whereabouts
from conformance.lockstep.world import World
from conformance.wait import Deadline, wait_until
from model.events import Delivery, Refused
from model.log import Position
from model.subscription_operations import Subscribe
from model.vocabulary import Client

DELIVERY_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 15.0}
"""How long messages that must come may take; far beyond what was seen. pulsar-client may still be on its way back."""
LET_IN_TIMEOUT_S: Final = 30.0
"""How long a topic may take to let a consumer in again, after its broker was away or another consumer died."""
GONE_TIMEOUT_S: Final = 10.0
"""How long a broker may take to notice that a connection was cut."""
ARRIVAL_S: Final[dict[Client, float]] = {"wire": 0.005, "official": 0.02}
"""How long messages take that are on their way already; only when none came is the broker asked for its accounts."""


class Members:
    """The consumers of one example, by their names in the history."""

    def __init__(self, world: World, whereabouts: Whereabouts) -> None:
        self._world = world
        self._whereabouts = whereabouts
        self._there: dict[str, Member] = {}
        self._partitions: dict[str, tuple[str, ...]] = {}
        self._stuck: dict[tuple[str, str], set[Position]] = {}

    def knows_partitions(self, topic: str, partitions: tuple[str, ...]) -> None:
        """A partitioned topic has these partitions; all by their real names."""
        self._partitions[topic] = partitions

    def get(self, consumer: str) -> Member | None:
        """A consumer that is there."""
        return self._there.get(consumer)

    def on(self, topic: str, subscription: str) -> dict[str, Member]:
        """The consumers of a subscription that are there, those of the whole partitioned topic included."""
        return {
            consumer: member
            for consumer, member in self._there.items()
            if member.subscription == subscription and topic in self.parts(member.topic)
        }

    def parts(self, topic: str) -> tuple[str, ...]:
        """The topics that have cursors: a topic's partitions, or itself."""
        return self._partitions.get(topic, (topic,))

    def watch(self, topic: str, subscription: str) -> Watch:
        """Something to look at a subscription with."""
        return Watch(
            self._world.admin,
            topic,
            subscription,
            list(self.on(topic, subscription).values()),
            partial(self._whereabouts.begun, topic),
            self._stuck.setdefault((topic, subscription), set()),
        )

    # --------------------------------------------------------------------------------------------------------- coming

    def subscribe(self, operation: Subscribe, topic: str) -> Refused | None:
        """Let a consumer come; what the broker refused, if it did not let it in."""
        member = self.new(operation, topic)
        if isinstance(member, Refused):
            return member
        self._there[operation.consumer] = member
        return None

    def new(self, operation: Subscribe, topic: str) -> Member | Refused:
        """A consumer that is subscribed and known to nobody yet; tried again while it can only be a matter of time."""
        is_taken = any(self.on(part, operation.subscription) for part in self.parts(topic))

        def may_pass(error: HarnessError) -> bool:
            is_busy = isinstance(error, ServerRefused) and error.code == "ConsumerBusy"
            return error.may_pass or (is_busy and not is_taken)

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

    def _connect(self, operation: Subscribe, topic: str) -> Member:
        # Its name in the history, because who gets which hashes goes by names: a replay is to come to the same.
        url, name = self._world.service, operation.known_as or operation.consumer
        traits = self._world.traits
        if operation.client == "wire":
            return WireMember(url, operation, topic, name, self._whereabouts, traits)
        traits = traits.of_pulsar_client()
        return OfficialMember(url, operation, topic, name, self._whereabouts, traits, self._batch_size_of)

    def _batch_size_of(self, topic: str, position: Position) -> int:
        """How many messages an entry holds, as it was sent, or, if the answer to that was lost, as it is stored."""
        known = self._whereabouts.batch_size(topic, position)
        return len(self._world.admin.read_entry(topic, position).messages) if known is None else known

    # -------------------------------------------------------------------------------------------------------- receiving

    def take(self, member: Member, count: int) -> tuple[tuple[Delivery, ...], str | None]:
        """Receive until there are so many, or can be no more; and why they do not come, if they must and do not."""
        return receive(member, count, [self.watch(part, member.subscription) for part in self.parts(member.topic)])

    def take_while_connected(self, member: WireMember, count: int) -> tuple[Delivery, ...]:
        """Receive until there are so many, or can be no more, or the connection has ended; nothing must come."""
        watch = self.watch(member.topic, member.subscription)
        deadline = Deadline.after(DELIVERY_TIMEOUT_S["wire"])
        taken: list[Delivery] = []
        with suppress(ConnectionLost):
            member.ask_for(count)
            while member.is_open and len(taken) < count and not deadline.passed:
                member.pump(ARRIVAL_S["wire"])
                came = member.take(count - len(taken))
                taken += came
                if not came and watch.has_nothing_for(member):
                    break
            member.pump()
            taken += member.take(count - len(taken))
        return tuple(taken)

    # ------------------------------------------------------------------------------------------------------------ going

    def close(self, consumer: str) -> None:
        """Let a consumer leave in good order."""
        member = self._there.pop(consumer)
        member.close()

    def can_crash(self, member: Member) -> bool:
        """Whether its connections can be cut: pulsar-client's only where the broker keeps it to the proxy."""
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
        """Cut the connections of pulsar-client, and wait until it has come back; LateToReturn if it does not."""
        before = member.ports
        member.cut_off()
        deadline = Deadline.after(LET_IN_TIMEOUT_S)
        for topic in self.parts(member.topic):
            if not wait_until(partial(self._is_back, member, topic, before), deadline):
                raise LateToReturn(f"in {LET_IN_TIMEOUT_S:g} s pulsar-client did not reconnect")

    def _is_back(self, member: Member, topic: str, before: Sequence[int]) -> bool:
        found = self._world.admin.stats(topic).subscriptions.get(member.subscription)
        account = None if found is None else account_of(member, found.consumers)
        return account is not None and port_of(account) not in before

    def await_gone(self, member: Member) -> None:
        """Wait until the broker has noticed that a consumer is gone."""
        deadline = Deadline.after(GONE_TIMEOUT_S)
        for topic in self.parts(member.topic):
            if not wait_until(partial(self._is_gone, member, topic), deadline):
                raise LateForStats(f"in {GONE_TIMEOUT_S:g} s the broker did not notice that a consumer was cut off")

    def _is_gone(self, member: Member, topic: str) -> bool:
        found = self._world.admin.stats(topic).subscriptions.get(member.subscription)
        return found is None or account_of(member, found.consumers) is None

    def keep(self, topic: str) -> dict[str, WireMember]:
        """The broker of a topic is frozen, and goes on by itself one day: its consumers of the wire client, which are
        not among those that are there any more."""
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
        """The broker closed the consumers of a topic, or of a subscription of it, or, with None, all.

        The wire client's do not come back: those that are gone now. pulsar-client's do, and are given again what they
        had.
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
        """The wire client's consumers that are closed and ought to be there: name, real topic, why.

        Those that come through a proxy are left out: the network may have closed them.
        """
        for consumer, member in self._there.items():
            if isinstance(member, WireMember) and member.proxy is None and member.why_closed is not None:
                yield consumer, member.topic, member.why_closed

    def cut_all(self) -> None:
        """Cut all consumers off, whatever the broker makes of it."""
        for member in self._there.values():
            member.crash()
        self._there.clear()


def receive(member: Member, count: int, watches: list[Watch]) -> tuple[tuple[Delivery, ...], str | None]:
    """As :meth:`Members.take`, with something to look at each of the member's topics with."""
    deadline = Deadline.after(DELIVERY_TIMEOUT_S[member.client])
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
        if all(watch.has_nothing_for(member) for watch in watches):
            member.pump()
            taken += member.take(count - len(taken))
            return tuple(taken), None
        if deadline.passed or any(watch.is_held_up for watch in watches):
            return tuple(taken), "; ".join(watch.missing() for watch in watches)
