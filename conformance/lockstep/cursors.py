"""Carries out the operations of document 003 on a real broker: consumers, what they acknowledge, cursors.

It says what was seen and judges nothing. What an operation names may not be there, because histories are shortened by
leaving operations out: it is then skipped, and says so.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from conformance.lockstep.cursor_accounts import PAUSE_S, Watch
from conformance.lockstep.cursor_admin import CursorAdmin
from conformance.lockstep.cursor_consumers import IN_ORDER, Member, WireMember, chosen
from conformance.lockstep.whereabouts import Whereabout, Whereabouts
from conformance.lockstep.world import World
from conformance.systems.deadline import Deadline
from conformance.systems.outcomes import ServerRefused
from conformance.systems.wire_consumer import PartOfBatch
from conformance.trouble import Trouble
from model.cursors.words import (
    Acknowledge,
    Acknowledged,
    AcknowledgeOthers,
    Arrived,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CursorOperation,
    CursorRead,
    DeleteSubscription,
    Dispatched,
    Expire,
    ReadCursor,
    Redeliver,
    Redelivering,
    ResetCursor,
    Seek,
    SetTo,
    Skip,
    SkipAll,
    Starved,
    Subscribe,
    Subscribed,
    Take,
    TakeAll,
    Taken,
    TakenAll,
    Terminate,
    Trim,
)
from model.log import Position
from model.operations import AnyOutcome, Done, Refused, Skipped
from model.vocabulary import Client

DELIVERY_TIMEOUT_S: Final[dict[Client, float]] = {"wire": 10.0, "official": 40.0}
"""How long messages that must come may take; far beyond what was seen. pulsar-client may still be on its way back."""
LET_IN_TIMEOUT_S: Final = 30.0
"""How long a topic may take to let a consumer in again, after its broker was away or another consumer died."""
GONE_TIMEOUT_S: Final = 10.0
"""How long a broker may take to notice that a connection was cut."""
RETRIABLE: Final = frozenset({"ServiceNotReady", "MetadataError", "PersistenceError", "TopicTemporaryError"})
"""Refusals of a consumer that only say: not yet."""
ARRIVAL_S: Final[dict[Client, float]] = {"wire": 0.005, "official": 0.02}
"""How long messages take that are on their way already; only when none came is the broker asked for its accounts."""
EVERYTHING: Final = 10_000
"""More messages than an example has."""

_NO_TOPIC: Final = Skipped("there is no such topic")
_NO_CONSUMER: Final = Skipped("there is no such consumer")
_NOTHING_RECEIVED: Final = Skipped("the consumer has received nothing")
_NO_MESSAGE: Final = Skipped("no such message is known to be in the topic")
_NO_SUBSCRIPTION: Final = Skipped("there is no such subscription")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a subscription is to be set: the entry that is next then (None: the first), by time if there is one."""

    to: Position | None
    time_ms: int | None = None


class Cursors:
    """The consumers and cursors of one example."""

    def __init__(self, world: World, example: int, topics: Mapping[str, str], whereabouts: Whereabouts) -> None:
        """``topics``: the names of the history to the real ones; it fills up while the example goes on."""
        self._world = world
        self._topics = topics
        self._whereabouts = whereabouts
        self._admin = CursorAdmin(world.admin)
        self._members: dict[str, Member] = {}
        self._partitioned: dict[str, str] = {}
        self._names = (f"e{example}-c{number}" for number in itertools.count())

    def knows_partitioned(self, name: str, topic: str) -> None:
        """There is a partitioned topic; its partitions are among the topics, under names of their own."""
        self._partitioned[name] = topic

    def perform(self, operation: CursorOperation) -> AnyOutcome:
        """Carry out one operation and say what was seen."""
        outcome = self._perform(operation)
        if isinstance(outcome, Starved):
            self._world.assert_alive()
        return outcome

    def _perform(self, operation: CursorOperation) -> AnyOutcome:
        match operation:
            case Subscribe():
                return self._subscribe(operation)
            case CloseConsumer(consumer):
                return self._with(consumer, lambda member: self._close(consumer, member))
            case CrashConsumer(consumer):
                return self._with(consumer, lambda member: self._crash(consumer, member))
            case Take(consumer, count):
                return self._with(consumer, lambda member: self._take(member, count))
            case Acknowledge(consumer):
                return self._with(consumer, lambda member: self._acknowledge(member, operation))
            case AcknowledgeOthers(consumer):
                return self._with(consumer, lambda member: self._acknowledge_others(member, operation))
            case Redeliver(consumer, nth):
                return self._with(consumer, lambda member: self._redeliver(member, nth))
            case Seek(consumer):
                return self._with(consumer, lambda member: self._seek(member, operation))
            case _:
                topic = self._topics.get(operation.topic)
                return self._no_topic(operation.topic) if topic is None else self._on_topic(operation, topic)

    def _on_topic(
        self,
        operation: CreateSubscription
        | DeleteSubscription
        | Skip
        | SkipAll
        | Expire
        | ResetCursor
        | ReadCursor
        | AwaitPersisted
        | TakeAll
        | Terminate
        | Trim,
        topic: str,
    ) -> AnyOutcome:
        match operation:
            case CreateSubscription():
                return self._admin.create(operation, topic)
            case DeleteSubscription():
                return self._admin.delete(operation, topic)
            case Skip():
                return self._admin.skip(operation, topic)
            case SkipAll(subscription=subscription):
                return self._admin.skip_all(topic, subscription)
            case Expire(subscription=subscription, up_to=up_to):
                found = self._whereabouts.find(up_to, topic=topic)
                return _NO_MESSAGE if found is None else self._admin.expire(topic, subscription, found.position)
            case ResetCursor():
                return self._reset(operation, topic)
            case ReadCursor(subscription=subscription):
                return self._read(topic, subscription)
            case AwaitPersisted():
                return Skipped("waiting for what is persisted is being built")
            case TakeAll():
                return self._take_all(operation, topic)
            case Terminate():
                return self._admin.terminate(topic)
            case Trim():
                return self._admin.trim(topic)
            case _:
                assert_never(operation)

    def _with(self, consumer: str, act: Callable[[Member], AnyOutcome]) -> AnyOutcome:
        """Do something with a consumer that is there; what the broker refuses is an outcome."""
        member = self._members.get(consumer)
        if member is None:
            return _NO_CONSUMER
        if not member.is_open:
            return Skipped("the consumer was closed from the other side")
        try:
            return act(member)
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)

    def _no_topic(self, name: str) -> Skipped:
        return Skipped("each partition has cursors of its own") if name in self._partitioned else _NO_TOPIC

    # ----------------------------------------------------------------------------------------- who is connected to what

    def _subscribe(self, operation: Subscribe) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None:
            return self._no_topic(operation.topic)
        if operation.consumer in self._members:
            return Skipped("a consumer of this name is subscribed")
        member = self._member(operation, topic)
        if isinstance(member, Refused):
            return member
        self._members[operation.consumer] = member
        return Subscribed()

    def _member(self, operation: Subscribe, topic: str) -> Member | Refused:
        """Subscribe, again and again while it can only be a matter of time; what the broker refused otherwise."""
        is_taken = bool(self._on(topic, operation.subscription))
        deadline = Deadline.after(LET_IN_TIMEOUT_S)
        while True:
            try:
                return WireMember(
                    self._world.broker.addresses.service_url,
                    operation,
                    topic,
                    next(self._names),
                    marks_parts_of_batches=self._world.marks_parts_of_batches,
                )
            except ServerRefused as refused:
                may_pass = refused.code in RETRIABLE or (refused.code == "ConsumerBusy" and not is_taken)
                if not may_pass or deadline.passed:
                    return Refused(refused.code, refused.message)
            time.sleep(PAUSE_S)

    def _on(self, topic: str, subscription: str) -> list[Member]:
        """The consumers of a subscription that are there."""
        return [one for one in self._members.values() if (one.topic, one.subscription) == (topic, subscription)]

    def _close(self, consumer: str, member: Member) -> AnyOutcome:
        del self._members[consumer]
        member.close()
        return Done()

    def _crash(self, consumer: str, member: Member) -> AnyOutcome:
        del self._members[consumer]
        member.crash()
        self._await_gone(member.topic, member.subscription, {member.name})
        return Done()

    def _await_gone(self, topic: str, subscription: str, names: Iterable[str]) -> None:
        """Wait until the broker has noticed that these consumers are gone; who comes next finds things as they are."""
        gone = frozenset(names)
        deadline = Deadline.after(GONE_TIMEOUT_S)
        while True:
            found = self._world.admin.stats(topic).subscriptions.get(subscription)
            if found is None or gone.isdisjoint(consumer.consumer_name for consumer in found.consumers):
                return
            if deadline.passed:
                raise Trouble(f"the broker did not notice in {GONE_TIMEOUT_S:g} s that a consumer's connection was cut")
            time.sleep(PAUSE_S)

    def lose(self, topic: str | None = None, subscription: str | None = None) -> None:
        """The broker closed all consumers, of a topic or a subscription of it: the wire client's do not come back."""
        for consumer, member in list(self._members.items()):
            if (topic is None or member.topic == topic) and (
                subscription is None or member.subscription == subscription
            ):
                if isinstance(member, WireMember):
                    del self._members[consumer]
                    member.crash()
                else:
                    member.held.clear()

    # -------------------------------------------------------------------------------------------------------- consuming

    def _watch(self, topic: str, subscription: str) -> Watch:
        return Watch(self._world.admin, topic, subscription, self._on(topic, subscription))

    def _take(self, member: Member, count: int) -> AnyOutcome:
        deadline = Deadline.after(DELIVERY_TIMEOUT_S[member.client])
        watch = self._watch(member.topic, member.subscription)
        member.ask_for(count)
        messages, why = self._take_messages(member, count, watch, deadline)
        if why is not None:
            return Starved(why, messages)
        is_settled = isinstance(member, WireMember) and member.permits_left <= 0 and not member.waiting_count
        return Taken(messages, settled=is_settled)

    def _take_messages(
        self, member: Member, count: int, watch: Watch, deadline: Deadline
    ) -> tuple[tuple[Dispatched, ...], str | None]:
        """Receive until there are so many, or can be no more; and why they do not come, if they must and do not."""
        taken: list[Dispatched] = []
        why: str | None = None
        while True:
            member.pump(ARRIVAL_S[member.client])
            came = member.take(count - len(taken))
            taken += came
            if len(taken) >= count:
                break
            if came:
                continue
            if watch.has_nothing_for(member):
                member.pump()
                taken += member.take(count - len(taken))
                break
            if deadline.passed:
                why = watch.missing()
                break
        return self._received(member.topic, tuple(taken)), why

    def _received(self, topic: str, messages: tuple[Dispatched, ...]) -> tuple[Dispatched, ...]:
        for message in messages:
            self._whereabouts.delivered(topic, message)
        return messages

    def _acknowledge(self, member: Member, operation: Acknowledge) -> AnyOutcome:
        messages = chosen(member, operation.nth[:1] if operation.cumulative else operation.nth)
        if not messages:
            return _NOTHING_RECEIVED
        if operation.cumulative and member.kind not in IN_ORDER:
            return Skipped("clients refuse cumulative acknowledgments on a shared subscription")
        return member.acknowledge(messages, cumulative=operation.cumulative)

    def _acknowledge_others(self, member: Member, operation: AcknowledgeOthers) -> AnyOutcome:
        if not isinstance(member, WireMember):
            return Skipped("only the wire client acknowledges what it did not receive")
        if operation.cumulative and member.kind not in IN_ORDER:
            return Skipped("clients refuse cumulative acknowledgments on a shared subscription")
        ids = operation.ids[:1] if operation.cumulative else tuple(dict.fromkeys(operation.ids))
        known = {name: found for name in ids if (found := self._whereabouts.find(name, topic=member.topic)) is not None}
        if not known:
            return _NO_MESSAGE
        entries: dict[Position, list[Whereabout]] = {}
        for found in known.values():
            entries.setdefault(found.position, []).append(found)
        parts = [_part(found, cumulative=operation.cumulative) for found in entries.values()]
        if not self._world.marks_parts_of_batches:
            parts = [part for part in parts if isinstance(part, Position)]
        if parts:
            member.acknowledge_others(parts, cumulative=operation.cumulative)
        sent = {part if isinstance(part, Position) else part.position for part in parts}
        return Acknowledged(
            tuple(
                Dispatched(found.position, found.batch_index, found.batch_size, name)
                for name, found in known.items()
                if found.position in sent
            ),
            receipt=bool(parts),
        )

    def _redeliver(self, member: Member, nth: tuple[int, ...] | None) -> AnyOutcome:
        messages = None if nth is None else chosen(member, nth)
        if messages == []:
            return _NOTHING_RECEIVED
        if messages is None and isinstance(member, WireMember) and member.permits_left > 0:
            # What is on its way would come behind what is asked for, and be taken for it.
            self._watch(member.topic, member.subscription).settle(Deadline.after(DELIVERY_TIMEOUT_S["wire"]))
        return Redelivering(self._received(member.topic, member.redeliver(messages)))

    # ---------------------------------------------------------------------------------------------------------- cursors

    def _seek(self, member: Member, operation: Seek) -> AnyOutcome:
        if not isinstance(member, WireMember):
            return Skipped("pulsar-client's seeks are not asked for")
        target = self._target(member.topic, operation.to, by_time=operation.by_time)
        if not isinstance(target, Target):
            return target
        if target.time_ms is not None:
            member.seek(None, target.time_ms)
        else:
            member.seek(target.to or BEGINNING, None)
        return self._was_reset(member.topic, member.subscription, target)

    def _reset(self, operation: ResetCursor, topic: str) -> AnyOutcome:
        target = self._target(topic, operation.to, by_time=operation.by_time)
        if not isinstance(target, Target):
            return target
        if target.time_ms is not None:
            outcome = self._admin.reset_to_time(topic, operation.subscription, target.time_ms)
        else:
            outcome = self._admin.reset(topic, operation.subscription, target.to)
        return self._was_reset(topic, operation.subscription, target) if isinstance(outcome, Done) else outcome

    def _target(self, topic: str, to: str | None, *, by_time: bool) -> Target | AnyOutcome:
        """Where to set a cursor, or why not."""
        if to is None:
            return Target(None, 0 if by_time else None)
        found = self._whereabouts.find(to, topic=topic)
        if found is None:
            return _NO_MESSAGE
        return self._target_by_time(topic, found.position) if by_time else Target(found.position)

    def _target_by_time(self, topic: str, position: Position) -> Target | AnyOutcome:
        """The time when an entry was published, and the first entry that was published then or later."""
        time_ms = self._admin.publish_time_ms(topic, position)
        if isinstance(time_ms, Refused):
            return time_ms
        for earlier in self._whereabouts.entries_before(topic, position):
            published_ms = self._admin.publish_time_ms(topic, earlier)
            if isinstance(published_ms, Refused) or published_ms < time_ms:
                break
            position = earlier
        return Target(position, time_ms)

    def _was_reset(self, topic: str, subscription: str, target: Target) -> SetTo:
        """All consumers were disconnected."""
        names = [one.name for one in self._on(topic, subscription) if isinstance(one, WireMember)]
        self.lose(topic, subscription)
        self._await_gone(topic, subscription, names)
        return SetTo(target.to)

    def _read(self, topic: str, subscription: str) -> AnyOutcome:
        watch = self._watch(topic, subscription)
        try:
            account = watch.settle(Deadline.after(DELIVERY_TIMEOUT_S["wire"]))
        except KeyError:
            return _NO_SUBSCRIPTION
        if account is None:
            return Starved(watch.missing())
        counts = {one.consumer_name: one.unacked_messages for one in account.subscription.consumers}
        arrived = tuple(
            Arrived(consumer, self._received(topic, member.collect()), counts.get(member.name, 0))
            for consumer, member in self._members.items()
            if member in watch.members and isinstance(member, WireMember)
        )
        return CursorRead(
            account.mark_delete,
            account.ranges,
            account.subscription.backlog,
            account.subscription.unacked_messages,
            arrived,
        )

    def _take_all(self, operation: TakeAll, topic: str) -> AnyOutcome:
        self._cut_off(topic, operation.subscription)
        if operation.subscription not in self._world.admin.internal_stats(topic).cursors:
            return _NO_SUBSCRIPTION
        everything = Subscribe("", topic, operation.subscription, kind=operation.kind, queue=EVERYTHING)
        member = self._member(everything, topic)
        if isinstance(member, Refused):
            return member
        watch = Watch(self._world.admin, topic, operation.subscription, [member])
        deadline = Deadline.after(DELIVERY_TIMEOUT_S["wire"])
        messages, why = self._take_messages(member, EVERYTHING, watch, deadline)
        member.close()
        return TakenAll(messages) if why is None else Starved(why, messages)

    def _cut_off(self, topic: str, subscription: str) -> None:
        """Cut whoever is connected, and wait until the broker has noticed."""
        members = self._on(topic, subscription)
        self._members = {name: one for name, one in self._members.items() if one not in members}
        for member in members:
            member.crash()
        if members:
            self._await_gone(topic, subscription, [member.name for member in members])

    def close(self) -> None:
        """Cut all consumers off."""
        for member in self._members.values():
            member.crash()
        self._members.clear()


BEGINNING: Final = Position(-1, -1)
"""What a broker is told that is to set a cursor back to the first entry there is."""


def partition_name(topic: str, number: int) -> str:
    """What a partition of a topic is called."""
    return f"{topic}-partition-{number}"


def _part(found: list[Whereabout], *, cumulative: bool) -> Position | PartOfBatch:
    """What of one entry is acknowledged by these of its messages."""
    size = found[0].batch_size
    acknowledged = {one.batch_index for one in found}
    if cumulative:
        acknowledged = set(range(max(acknowledged) + 1))
    left = frozenset(range(size)) - acknowledged
    if not left:
        return found[0].position
    return PartOfBatch(position=found[0].position, batch_size=size, still_unacknowledged=left)
