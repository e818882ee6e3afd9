"""Carries out the operations of document 003 on a real broker: consumers, acks, cursors.

It judges nothing. An operation may name a consumer or message that shortening left out: it is skipped with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, assert_never

from conformance.clients.admin.stored_log import stored_positions
from conformance.clients.driver.connect import connect
from conformance.clients.outcomes import ServerRefused
from conformance.clients.wire.consumer import Excess
from conformance.lockstep.cursors.admin import CursorAdmin
from conformance.lockstep.cursors.administrators import Administrators
from conformance.lockstep.cursors.backoff import LATEST_S, fail_often
from conformance.lockstep.cursors.consumers import Member, WireMember, chosen, part_of
from conformance.lockstep.cursors.expiry import Expiry
from conformance.lockstep.cursors.holes import HoleTopics
from conformance.lockstep.cursors.key_shared import KeyShares
from conformance.lockstep.cursors.members import Members, receive
from conformance.lockstep.cursors.official import OfficialMember, lacking_at
from conformance.lockstep.cursors.persistence import PersistedStates
from conformance.lockstep.cursors.poller import Poller
from conformance.lockstep.cursors.readers import Readers
from conformance.lockstep.cursors.targets import NO_MESSAGE, Target, following, target_of
from conformance.lockstep.network import fault_of
from conformance.lockstep.positions import MessagePosition, Positions
from conformance.lockstep.settings.traits import MANY
from conformance.lockstep.world import World
from conformance.wait import Deadline
from model.administrator_operations import AdministratorRequest, AtOnce, ClearBacklog
from model.events import (
    Acknowledged,
    AllReceived,
    AnyOutcome,
    ConsumerRead,
    CursorRead,
    CursorReset,
    Delivery,
    Done,
    Expired,
    ReceivedMessages,
    RedeliveryRequested,
    Refused,
    Skipped,
    Starved,
    Subscribed,
)
from model.log import EARLIEST, Position
from model.operations import CursorOperation, Terminate, Trim
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CursorRequest,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    PeekMessage,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
    Unsubscribe,
)
from model.vocabulary import IN_ORDER, Withheld

_NO_TOPIC: Final = Skipped("there is no such topic")
_NO_CONSUMER: Final = Skipped("there is no such consumer")
_NOTHING_RECEIVED: Final = Skipped("the consumer has received nothing")
_CANNOT_BE_CUT: Final = Skipped("pulsar-client connects to this broker by another way than the one that can be cut")
_NO_SUBSCRIPTION: Final = Refused("404", "there is no such subscription")


class Cursors:
    """The consumers and cursors of one example."""

    def __init__(self, world: World, topics: Mapping[str, str], positions: Positions) -> None:
        """``topics`` maps a history's names to real ones and grows during the example."""
        self._world = world
        self._topics = topics
        self._partitioned: dict[str, str] = {}
        self._positions = positions
        self._admin = CursorAdmin(world.admin)
        self._members = Members(world, positions)
        self.keys = KeyShares(world, self._topics, self._members, positions)
        self._persisted = PersistedStates(world.admin, flush_interval_s=world.flush_interval_s)
        self.readers = Readers(world, self._topics, self._members, positions)
        self._administrators = Administrators(world, self._members, self._persisted, self.keys, positions)
        self.holes = HoleTopics(world, self._topics, self._persisted)
        self.expiry = Expiry(world, self._topics, self._members, self._persisted, self.keys)

    def add_partitioned(self, name: str, topic: str, partitions: tuple[str, ...]) -> None:
        """Register a partitioned topic; its partitions are among the topics, under names of their own."""
        self._partitioned[name] = topic
        self._members.add_partitions(topic, partitions)

    def set_limit(self, topic: str, persisted_per_s: float) -> None:
        """Set how often per second the cursors of a topic may be persisted; without a limit, with every ack."""
        self._persisted.set_limit(topic, persisted_per_s)

    def topic_of(self, consumer: str) -> str | None:
        """The real name of a consumer's topic."""
        member = self._members.get(consumer)
        return self.readers.topic_of(consumer) if member is None else member.topic

    def closed(self) -> Iterator[tuple[str, str, str]]:
        """The consumers that the broker has closed: name, real topic, reason."""
        return self._members.closed()

    def connected_to(self, topic: str) -> tuple[str, ...]:
        return self._members.connected_to(topic)

    def excesses(self) -> Iterator[tuple[str, str, Excess]]:
        return self._members.excesses()

    def keep(self, topic: str) -> dict[str, WireMember]:
        """Remove and return the wire client's consumers at a frozen owner of a topic."""
        return self._members.keep(topic)

    def reloaded(self, topic: str | None = None) -> None:
        """A topic, or, with None, every topic was reloaded."""
        self._members.lost(topic)
        self._persisted.reloaded(topic)
        self.readers.reloaded(topic)

    def perform(self, operation: CursorOperation | AdministratorRequest) -> AnyOutcome:
        outcome = self._perform(operation)
        if isinstance(outcome, Starved):
            self._world.assert_alive()
        return outcome

    def _perform(self, operation: CursorOperation | AdministratorRequest) -> AnyOutcome:
        match operation:
            case Subscribe():
                return self._subscribe(operation)
            case CloseConsumer(consumer):
                return self._with(consumer, lambda _: self._close(consumer))
            case CrashConsumer(consumer):
                return self._with(consumer, lambda member: self._crash(consumer, member))
            case Receive(consumer, count):
                return self._with(consumer, lambda member: self._take(member, count))
            case Acknowledge(consumer):
                return self._with(consumer, lambda one: lacking_at(one, operation) or self._acknowledge(one, operation))
            case AckById(consumer):
                return self._with(consumer, lambda member: self._acknowledge_others(member, operation))
            case Nack(consumer, nth):
                return self._with(consumer, lambda one: lacking_at(one, operation) or self._redeliver(one, nth))
            case CutDuring(doing):
                return self._with(doing.consumer, lambda member: self._cut_off(member, operation))
            case CutConnection(consumer):
                return self._with(consumer, self._cut_connection)
            case Seek(consumer):
                return self._with(consumer, lambda member: self._seek(member, operation))
            case Unsubscribe(consumer):
                return self._with(consumer, lambda member: self._unsubscribe(consumer, member))
            case CreateSubscription(name) | DeleteSubscription(name) if name in self._partitioned:
                return self._on_topic(operation, self._partitioned[name])
            case _:
                topic = self._topics.get(operation.topic)
                return self._no_topic(operation.topic) if topic is None else self._on_topic(operation, topic)

    def _on_topic(
        self,
        operation: CreateSubscription | CursorRequest | AdministratorRequest | NackRepeatedly | Terminate | Trim,
        topic: str,
    ) -> AnyOutcome:
        match operation:
            case CreateSubscription():
                return self._create(operation, topic)
            case DeleteSubscription(scope="topic"):
                return self._delete(operation, topic)
            case Skip(subscription=subscription):
                self._persisted.changing(topic, subscription)
                self.keys.administered(topic, subscription)
                return self._uncounted(topic, subscription, self._admin.skip(operation, topic))
            case SkipAll(subscription=subscription, scope="topic"):
                self._persisted.changing(topic, subscription)
                self.keys.administered(topic, subscription)
                return self._uncounted(topic, subscription, self._admin.skip_all(topic, subscription))
            case DeleteSubscription() | SkipAll() | ClearBacklog() | AtOnce():
                return self._administrators.perform(operation, topic)
            case Expire():
                return self._expire(operation, topic)
            case ResetCursor():
                return self._reset(operation, topic)
            case ReadCursor(subscription=subscription, after_delays=after_delays):
                return self._read(topic, subscription, after_delays=after_delays)
            case PeekMessage(subscription=subscription, nth=nth):
                self._members.poller(topic, subscription).await_quiet()
                return self._admin.peek(topic, subscription, nth)
            case ReadStoredCursor(subscription=subscription):
                return self._admin.stored(topic, subscription)
            case AwaitPersisted(subscription=subscription):
                self._members.poller(topic, subscription).await_quiet()
                return self._persisted.wait(topic, subscription)
            case ReceiveAll():
                return self._take_all(operation, topic)
            case NackRepeatedly(times=times, library=library):
                subscription, stats = f"often-{self._world.fresh()}", self._world.admin.internal_stats(topic)
                parts, entries = self._world.traits.of_released(library).acknowledges_parts, stats.number_of_entries
                with connect(self._world.service, timeout_s=LATEST_S, library=library) as client:
                    return fail_often(client, topic, subscription, times, entries=entries, acknowledges_parts=parts)
            case Terminate():
                return self._admin.terminate(topic)
            case Trim():
                return self._admin.trim(topic)
            case _:
                assert_never(operation)

    def _with(self, consumer: str, act: Callable[[Member], AnyOutcome]) -> AnyOutcome:
        """Do something with an open consumer; a refusal of the broker is an outcome."""
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

    # -------------------------------------------------------------------------------------------------------- consumers

    def _subscribe(self, operation: Subscribe) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if topic is None and operation.client == "official":
            topic = self._partitioned.get(operation.topic)
        if topic is None:
            return self._no_topic(operation.topic)
        is_key_shared, dispatchers = operation.kind == "Key_Shared", self._world.dispatchers
        if is_key_shared and operation.topic in self._partitioned and not dispatchers.are_alike:
            return Skipped("the partitions may have different implementations of Key_Shared")
        if self._members.get(operation.consumer) is not None:
            return Skipped("a consumer of this name is subscribed")
        self._world.answers.opened(operation.consumer, topic)
        if (refused := self._members.subscribe(operation, topic)) is not None:
            return refused
        return Subscribed(dispatchers.drains_on(topic) if is_key_shared else None)

    def _close(self, consumer: str) -> AnyOutcome:
        self._members.close(consumer)
        return Done()

    def _crash(self, consumer: str, member: Member) -> AnyOutcome:
        if not self._members.can_crash(member):
            return _CANNOT_BE_CUT
        self._members.crash([consumer])
        return Done()

    # -------------------------------------------------------------------------------------------------------- consuming

    def _take(self, member: Member, count: int) -> AnyOutcome:
        if isinstance(member, WireMember):
            member.is_blocked, member.withheld = False, None
        messages, why = self._members.take(member, count)
        if why is not None:
            return Starved(why, messages)
        is_settled = isinstance(member, WireMember) and member.permits_left <= 0 and not member.waiting_count
        is_blocked = isinstance(member, WireMember) and member.is_blocked and len(messages) < count
        return ReceivedMessages(messages, settled=is_settled, blocked=is_blocked, withheld=self._withheld(member))

    def _withheld(self, member: Member) -> Withheld | None:
        """Whether the broker withheld messages at the last poll; while slowed, it may still complete a read."""
        withheld = member.withheld if isinstance(member, WireMember) else None
        if withheld is None or self._world.failpoints is None or not self._world.failpoints.are_armed:
            return withheld
        return Withheld(withheld.unacknowledged, read_pending=True)

    def _acknowledge(self, member: Member, operation: Acknowledge) -> AnyOutcome:
        messages = chosen(member, operation.nth[:1] if operation.cumulative else operation.nth)
        if not messages:
            return _NOTHING_RECEIVED
        if operation.cumulative and member.kind not in IN_ORDER:
            return Skipped("clients refuse cumulative acknowledgments on a shared subscription")
        self._changing(member)
        return member.acknowledge(messages, cumulative=operation.cumulative)

    def _cut_off(self, member: Member, operation: CutDuring) -> AnyOutcome:
        doing = operation.doing
        if not isinstance(member, WireMember) or member.proxy is None:
            return Skipped("the consumer does not come through a proxy")
        member.proxy.inject(fault_of(operation.fault))
        outcome = self._failed_by_network(member, doing)
        if isinstance(outcome, Skipped):
            member.proxy.lift_all()
        else:
            self._members.crash([doing.consumer])
        return outcome

    def _failed_by_network(self, member: WireMember, doing: Receive | Acknowledge) -> AnyOutcome:
        if isinstance(doing, Receive):
            return ReceivedMessages(self._members.take_while_connected(member, doing.count))
        try:
            return self._acknowledge(member, doing)
        except ServerRefused as refused:
            return Refused(refused.code, refused.message)

    def _cut_connection(self, member: Member) -> AnyOutcome:
        if not isinstance(member, OfficialMember):
            return Skipped("only pulsar-client comes back by itself")
        if not self._members.can_crash(member):
            return _CANNOT_BE_CUT
        self._members.cut_connection(member)
        return Done()

    def _changing(self, member: Member) -> None:
        """Register that a consumer is about to acknowledge."""
        for topic in self._members.parts(member.topic):
            self._persisted.changing(topic, member.subscription)

    def _acknowledge_others(self, member: Member, operation: AckById) -> AnyOutcome:
        if not isinstance(member, WireMember):
            return Skipped("only the wire client acknowledges what it did not receive")
        if operation.cumulative and member.kind not in IN_ORDER:
            return Skipped("clients refuse cumulative acknowledgments on a shared subscription")
        ids = operation.ids[:1] if operation.cumulative else tuple(dict.fromkeys(operation.ids))
        known = {name: found for name in ids if (found := self._positions.find(name, topic=member.topic)) is not None}
        if not known:
            return NO_MESSAGE
        entries: dict[Position, list[MessagePosition]] = {}
        for found in known.values():
            entries.setdefault(found.position, []).append(found)
        parts = [part_of(found, cumulative=operation.cumulative) for found in entries.values()]
        if not self._world.traits.acknowledges_parts:
            parts = [part for part in parts if isinstance(part, Position)]
        if parts:
            self._changing(member)
            member.acknowledge_others(parts, cumulative=operation.cumulative)
        sent = {part if isinstance(part, Position) else part.position for part in parts}
        return Acknowledged(
            tuple(
                Delivery(found.position, found.batch_index, found.batch_size, name)
                for name, found in known.items()
                if found.position in sent
            ),
            receipt=bool(parts),
        )

    def _redeliver(self, member: Member, nth: tuple[int, ...] | None) -> AnyOutcome:
        messages = None if nth is None else chosen(member, nth)
        if messages is not None and member.kind == "Key_Shared":
            # Others may be in flight already, and could be confused with the redelivery.
            messages = [message for message in messages if message.position in member.pending]
        if messages == []:
            return _NOTHING_RECEIVED
        if messages is None and isinstance(member, WireMember) and member.permits_left > 0:
            # New messages in flight could be confused with the redelivery.
            if self._world.failpoints is not None and self._world.failpoints.are_armed:
                return Skipped("the broker is slowed, so the messages in flight to the consumer are unknown")
            time.sleep(self._positions.all_due_in_s(member.topic))
            self._members.poller(member.topic, member.subscription).settle(
                Deadline.after(self._members.delivery_timeout_s())
            )
        return RedeliveryRequested(member.redeliver(messages))

    # ---------------------------------------------------------------------------------------------------------- cursors

    def _create(self, operation: CreateSubscription, topic: str) -> AnyOutcome:
        if operation.at is None:
            return self._admin.create(operation, topic)
        found = self._positions.find(operation.at, topic=topic)
        if found is None:
            return NO_MESSAGE
        created = self._admin.create(operation, topic, found.position)
        return CursorReset(found.position) if isinstance(created, Done) else created

    def _delete(self, operation: DeleteSubscription, topic: str) -> AnyOutcome:
        """Deletion by force disconnects all consumers."""
        deleted = self._admin.delete(operation, topic)
        if isinstance(deleted, Done):
            self._persisted.deleted(self._members.parts(topic), operation.subscription)
        if isinstance(deleted, Done) and operation.by_force:
            self._members.lost(topic, operation.subscription)
        return deleted

    def _unsubscribe(self, consumer: str, member: Member) -> AnyOutcome:
        member.unsubscribe()
        self._persisted.deleted(self._members.parts(member.topic), member.subscription)
        self._members.close(consumer)
        return Done()

    def _seek(self, member: Member, operation: Seek) -> AnyOutcome:
        if not isinstance(member, WireMember):
            return Skipped("pulsar-client's seeks are not asked for")
        target = self._target(member.topic, operation.to, operation.later_ms if operation.by_time else None)
        if not isinstance(target, Target):
            return target
        self._changing(member)
        if target.time_ms is not None:
            member.seek(None, target.time_ms)
        else:
            member.seek(target.to or EARLIEST, None)
        return self._was_reset(member.topic, member.subscription, target)

    def _reset(self, operation: ResetCursor, topic: str) -> AnyOutcome:
        to = None if operation.to is None else str(operation.to)
        target = self._target(topic, to, operation.later_ms if operation.by_time else None)
        if not isinstance(target, Target):
            return target
        is_after = operation.after and target.to is not None and target.time_ms is None
        self._persisted.changing(topic, operation.subscription)
        if target.time_ms is not None:
            outcome = self._admin.reset_to_time(topic, operation.subscription, target.time_ms)
        else:
            outcome = self._admin.reset(topic, operation.subscription, target.to, after=is_after)
        if is_after and target.to is not None:
            target = Target(following(target.to))
        return self._was_reset(topic, operation.subscription, target) if isinstance(outcome, Done) else outcome

    def _target(self, topic: str, to: str | None, later_ms: int | None) -> Target | Refused | Skipped:
        return target_of(self._admin, self._positions, topic, to, later_ms)

    def _was_reset(self, topic: str, subscription: str, target: Target) -> CursorReset:
        """A reset disconnects all consumers."""
        for member in self._members.lost(topic, subscription):
            self._members.await_gone(member)
        return CursorReset(target.to)

    def _expire(self, operation: Expire, topic: str) -> AnyOutcome:
        found = self._positions.find(str(operation.up_to), topic=topic)
        if found is None:
            return NO_MESSAGE
        self._persisted.changing(topic, operation.subscription)
        self.keys.administered(topic, operation.subscription)
        expired = self._admin.expire(topic, operation.subscription, found.position)
        return self._uncounted(topic, operation.subscription, expired)

    def _uncounted(self, topic: str, subscription: str, outcome: AnyOutcome) -> AnyOutcome:
        """The outcome of a skip or an expiry, after the broker had time to lower its counts."""
        if isinstance(outcome, Done | Expired):
            self._members.poller(topic, subscription).await_uncounted()
        return outcome

    def _read(self, topic: str, subscription: str, *, after_delays: bool) -> AnyOutcome:
        poller = self._members.poller(topic, subscription, after_delays=after_delays)
        try:
            view = poller.settle(Deadline.after(self._members.delivery_timeout_s()))
        except KeyError:
            return _NO_SUBSCRIPTION
        if view is None:
            why, members = poller.missing(), self._members.on(topic, subscription).values()
            wire = [member for member in members if isinstance(member, WireMember)]
            # Of several consumers it would be unknown who has what: it is left there, and the next read shows it.
            return Starved(why, tuple(wire[0].collect()) if len(wire) == 1 else ())
        arrived = tuple(
            ConsumerRead(consumer, member.collect(), view.unacknowledged_at(member))
            for consumer, member in self._members.on(topic, subscription).items()
            if isinstance(member, WireMember)
        )
        return CursorRead(
            view.mark_delete,
            view.ranges,
            view.subscription.backlog,
            view.subscription.unacked_messages,
            arrived,
            view.cursor.written,
            view.withheld,
            self._stored_after(topic, view.mark_delete),
        )

    def _stored_after(self, topic: str, mark_delete: Position) -> int | None:
        """How many entries the log has after mark-delete by now, where clusters write markers at any time."""
        if not self._world.is_home:
            return None
        return sum(position > mark_delete for position in stored_positions(self._world.admin.internal_stats(topic)))

    def _take_all(self, operation: ReceiveAll, topic: str) -> AnyOutcome:
        self._members.crash(self._members.on(topic, operation.subscription))
        if operation.subscription not in self._world.admin.internal_stats(topic).cursors:
            return _NO_SUBSCRIPTION
        everything = Subscribe("the rest", topic, operation.subscription, kind=operation.kind, queue=MANY)
        member = self._members.new(everything, topic)
        if isinstance(member, Refused):
            return member
        poller = Poller(self._world.admin, topic, operation.subscription, [member])
        messages, why = receive(member, MANY, [poller], timeout_s=self._members.delivery_timeout_s())
        member.close()
        return AllReceived(messages) if why is None else Starved(why, messages)

    def close(self) -> None:
        self._members.cut_all()
        self.readers.cut_all()
