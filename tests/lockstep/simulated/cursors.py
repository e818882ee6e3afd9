"""Performs the operations of document 003 on simulated subscriptions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import assert_never

import msgspec

from model.administrator_operations import AdministratorRequest, AtOnce, ClearBacklog, Concurrent
from model.cursors import reference
from model.cursors.acked import Acked, everything
from model.cursors.log import TopicLog
from model.events import (
    Acknowledged,
    AllReceived,
    AnyOutcome,
    ConsumerRead,
    Created,
    CursorRead,
    CursorReset,
    Done,
    Expired,
    LoggedEntry,
    ReceivedMessages,
    RedeliveryRequested,
    RedeliveryTimes,
    Refused,
    Skipped,
    Starved,
    Subscribed,
    Terminated,
    Trimmed,
)
from model.key_shared.variants import DOCUMENT, KeysVariant
from model.log import EARLIEST, Ledgers, Position
from model.operations import CursorOperation, Terminate, Trim
from model.read_operations import AnalyzeBacklog, BacklogAnalyzed
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
from model.subscriptions import backoff
from model.vocabulary import IN_ORDER, PERSISTED_PER_S, Persistence, Start, SubscriptionType
from tests.lockstep.simulated.administrators import SimulatedAdministrators
from tests.lockstep.simulated.broker import LEDGER_ROOM
from tests.lockstep.simulated.consumers import (
    Consumer,
    Given,
    HeldBack,
    Key,
    consumer_of,
    dispatched,
    of_entries,
    spot_of,
)
from tests.lockstep.simulated.dispatch import Dispatcher
from tests.lockstep.simulated.expiry import SimulatedExpiry
from tests.lockstep.simulated.holes import SimulatedHoles
from tests.lockstep.simulated.key_shared import Fires, never
from tests.lockstep.simulated.key_shares import SimulatedKeyShares
from tests.lockstep.simulated.network import NOTHING_RECEIVED, SimulatedNetwork
from tests.lockstep.simulated.readers import SimulatedReaders
from tests.lockstep.simulated.subscription import Clock, Limits, Log, Subscription
from tests.lockstep.simulated.variants import SimulatedVariant

FLUSH_S = 1.0
STORED_RANGES = 3
NACK_DELAY_S = 0.3
NO_CONSUMER = Skipped("there is no such consumer")
NO_MESSAGE = Skipped("no such message is known to be in the topic")
NO_SUBSCRIPTION = Refused("404", "there is no such subscription")
NOT_SHARED = Skipped("clients refuse cumulative acknowledgments on a shared subscription")

OnTopic = CreateSubscription | CursorRequest | NackRepeatedly | Terminate | Trim


class SimulatedCursors:
    """The subscriptions and consumers of one example."""

    def __init__(
        self,
        chance: random.Random,
        clock: Clock,
        variant: SimulatedVariant,
        keys: KeysVariant = DOCUMENT,
        *,
        fires: Fires = never,
    ) -> None:
        """``fires`` says whether a failpoint of a topic takes effect now."""
        self._chance = chance
        self._clock = clock
        self._variant = variant
        self._logs: dict[str, Log] = {}
        self._limits: dict[str, Limits] = {}
        self._ledgers: dict[str, Ledgers] = {}
        self._trimmed: dict[str, set[int]] = {}
        self._whole: set[str] = set()
        """The topics of which nothing is deleted."""
        self._partitions: dict[str, tuple[str, ...]] = {}
        self._subscriptions: dict[Key, Subscription] = {}
        self._has_draining_hashes = not keys.is_classic
        self._dispatcher = Dispatcher(chance, self._subscriptions, variant, keys, fires=fires)
        self.keys = SimulatedKeyShares(self._dispatcher, self._subscriptions, self._drift)
        self.readers = SimulatedReaders(self._logs, variant)
        self.expiry = SimulatedExpiry(
            chance, clock, variant, self._subscriptions, self._dispatcher.released, self.readers
        )
        self.holes = SimulatedHoles(variant)
        self._administrators = SimulatedAdministrators(chance, variant, self._subscriptions, self._by_administrator)
        self._network = SimulatedNetwork(
            chance,
            self._dispatcher,
            perform=self._of_consumer,
            leave=lambda name: self._leave(name, 0),
            lose=self._cut_off,
        )

    # ------------------------------------------------------------------------------------------ topics and the broker

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics created for this document; of a partitioned one, its partitions."""
        return tuple(self._logs)

    def create(
        self,
        topic: str,
        persistence: Persistence,
        partitions: Sequence[str],
        snapshot_room: int,
        *,
        has_markers: bool,
        is_trimmed: bool = False,
    ) -> Created:
        """Create a topic; the outcome."""
        rate = PERSISTED_PER_S[persistence]
        for name in partitions or (topic,):
            self._logs[name] = Log(of_model=TopicLog(has_markers=has_markers))
            self._trimmed[name] = set()
            if not is_trimmed:
                self._whole.add(name)
            self._limits[name] = Limits(
                interval_s=1 / rate if rate else 0.0, flush_s=FLUSH_S, stored_ranges=STORED_RANGES
            )
        if partitions:
            self._partitions[topic] = tuple(partitions)
        return Created(
            deduplication=False,
            snapshot_room=snapshot_room,
            ledger_room=LEDGER_ROOM,
            persisted_per_s=rate,
            flush_s=FLUSH_S,
            stored_ranges=STORED_RANGES,
            has_draining_hashes=self._has_draining_hashes,
            delay_tick_ms=1.0,
        )

    def has_consumer(self, name: str) -> bool:
        return name in self._dispatcher.consumers

    def consumers_on(self, topic: str, subscription: str | None = None) -> int:
        """How many consumers a topic has, or one of its subscriptions."""
        there = [one for one in self._dispatcher.consumers.values() if topic in one.topics]
        return sum(subscription in (None, one.subscription) for one in there)

    def subscriptions_on(self, topic: str) -> tuple[str, ...]:
        return tuple(name for where, name in self._subscriptions if where == topic)

    def is_terminated(self, topic: str) -> bool:
        """Whether nothing more is written to a topic."""
        return topic in self._logs and self._logs[topic].is_terminated

    def mark_deletes(self) -> Iterator[tuple[Key, Position]]:
        """The mark-delete position of each durable subscription."""
        return ((key, one.state.acked.mark_delete) for key, one in self._subscriptions.items() if one.durable)

    def learn(self, topic: str, logged: Sequence[LoggedEntry], ledgers: Ledgers) -> None:
        """Learn the log of a topic and its ledgers."""
        self._logs[topic].learn(logged, self._clock.now_s, self._clock.ages_s)
        self._ledgers[topic] = ledgers

    def moved(self, topics: Sequence[str], *, killed: bool = False) -> None:
        """Topics were unloaded gracefully, or, with ``killed``, lost with their broker, and loaded again."""
        self.holes.reload(topics, is_killed=killed)
        self.readers.reconnect(topics)
        for topic in topics:
            if topic in self._logs:
                self._logs[topic].is_reopened = self._logs[topic].is_terminated
        for key in [key for key in self._subscriptions if key[0] in topics]:
            for one in self._dispatcher.on(key).values():
                self._cut_off(one, key[0])
            if not self._subscriptions[key].durable:
                del self._subscriptions[key]
            elif killed:
                self._subscriptions[key].killed()
            else:
                self._subscriptions[key].unloaded()
            self._dispatcher.disconnect(key)

    def _cut_off(self, consumer: Consumer, topic: str) -> None:
        """Some of the client's grouped acks are sent just before; the rest is lost, or sent after the reconnect."""
        self._dispatcher.send_held_back(consumer, self._chance.randint(0, len(consumer.held_back)))
        if self._chance.random() < 0.5:
            lost = consumer.lose_held_back(topic)
            if self._variant.lost_ack_filters_redelivery:
                consumer.hidden |= {(topic, spot) for ack in lost for spot in ack.covered(self._logs[topic])}
            if lost and self._variant.unacked_hidden_by_client:
                mine = {(topic, spot_of(message)) for where, message in consumer.received if where == topic}
                consumer.hidden |= set(sorted(mine - consumer.acknowledged)[:1])

    # ----------------------------------------------------------------------------------------------------- operations

    def perform(self, operation: CursorOperation | AdministratorRequest) -> AnyOutcome:
        """Perform one operation, and return its outcome."""
        self._drift()
        if self._administrators.is_lost(operation):
            return Done()
        match operation:
            case ClearBacklog() | AtOnce() if operation.topic not in self._logs:
                return Skipped("there is no such topic")
            case AtOnce(first, second) if not (self._is_known(first) and self._is_known(second)):
                return NO_MESSAGE
            case ClearBacklog() | AtOnce():
                return self._administrators.perform(operation)
            case Subscribe():
                return self._subscribe(operation)
            case CloseConsumer(name) | CrashConsumer(name) | Receive(name) | Acknowledge(name) | AckById(name):
                return self._of_consumer(operation) if name in self._dispatcher.consumers else NO_CONSUMER
            case CutDuring(doing):
                there = doing.consumer in self._dispatcher.consumers
                return self._network.fails(doing) if there else NO_CONSUMER
            case CutConnection(name):
                return self._network.cuts(name) if name in self._dispatcher.consumers else NO_CONSUMER
            case Nack(name) | Seek(name) | Unsubscribe(name):
                return self._of_consumer(operation) if name in self._dispatcher.consumers else NO_CONSUMER
            case CreateSubscription(topic) | DeleteSubscription(topic) if topic in self._partitions:
                return self._on_partitions(operation)
            case _ if operation.topic in self._partitions:
                return Skipped("each partition has cursors of its own")
            case _ if operation.topic not in self._logs:
                return Skipped("there is no such topic")
            case _:
                return self._on_topic(operation)

    def _is_known(self, request: Concurrent) -> bool:
        """Whether the message that it names is known, if any."""
        named = request.to if isinstance(request, ResetCursor) else None
        return named is None or self._logs[request.topic].find(str(named)) is not None

    def _by_administrator(self, request: Concurrent) -> AnyOutcome:
        if isinstance(request, AnalyzeBacklog):
            return self.analyze(request.topic, request.subscription)
        return self._on_topic(request)

    def analyze(self, topic: str, name: str) -> AnyOutcome:
        """The entries and messages of a subscription's backlog."""
        if (subscription := self._subscriptions.get((topic, name))) is None:
            return NO_SUBSCRIPTION
        left = subscription.left()
        return BacklogAnalyzed(len(left), sum(subscription.log.of_model.size(position) for position in left))

    def _drift(self) -> None:
        """Let some time pass: the broker dispatches, clients flush grouped acks, or nothing happens."""
        self._clock.advance(self._chance.choice((0.001, 0.001, 0.003, 0.01, 0.03)))
        if self._chance.random() < 0.05:
            self._clock.advance(self._chance.uniform(0.2, 2.5))
        self.expiry.look()
        for key in list(self._subscriptions):
            for _ in range(self._chance.choice((0, 0, 1, 5))):
                self._dispatcher.send_one(key)
        for name, one in self._dispatcher.consumers.items():
            if self._chance.random() < 0.3:
                self._dispatcher.send_held_back(one)
            if self._chance.random() < 0.3:
                self._dispatcher.send_failed(name)

    def _of_consumer(
        self,
        operation: CloseConsumer | CrashConsumer | Receive | Acknowledge | AckById | Nack | Seek | Unsubscribe,
    ) -> AnyOutcome:
        name = operation.consumer
        consumer = self._dispatcher.consumers[name]
        match operation:
            case CloseConsumer():
                return self._leave(name, 0 if self._variant.close_loses_acks else None)
            case CrashConsumer():
                if self._variant.crash_acknowledges:
                    self._dispatcher.acknowledge_pending(name)
                return self._leave(name, self._chance.randint(0, len(consumer.held_back)))
            case Receive(count=count):
                return self._take(name, consumer, count)
            case Acknowledge(nth=nth, cumulative=cumulative):
                if cumulative and consumer.kind not in IN_ORDER:
                    return NOT_SHARED if consumer.received else NOTHING_RECEIVED
                return self._acknowledge(consumer, consumer.chosen(nth[:1] if cumulative else nth), cumulative)
            case AckById():
                return self._acknowledge_others(consumer, operation)
            case Nack(nth=nth):
                return self._redeliver(name, consumer, nth)
            case Seek():
                if consumer.client != "wire":
                    return Skipped("pulsar-client's seeks are not asked for")
                key = (consumer.topics[0], consumer.subscription)
                return self._set(key, operation.to, later_ms=operation.later_ms if operation.by_time else None)
            case Unsubscribe():
                return self._unsubscribe(name, consumer)
            case _:
                assert_never(operation)

    def _on_topic(self, operation: OnTopic) -> AnyOutcome:
        match operation:
            case NackRepeatedly():
                return self._fail_often(operation)
            case Terminate(topic):
                self._logs[topic].is_terminated = True
                return Terminated(max(self._logs[topic].entries, default=EARLIEST))
            case Trim():
                return self._trim(operation.topic)
            case CreateSubscription(topic, name, start, at):
                return self._create(topic, name, start) if at is None else self._create_at(topic, name, at)
            case _:
                key = (operation.topic, operation.subscription)
                return self._on_subscription(operation, key) if key in self._subscriptions else NO_SUBSCRIPTION

    def _on_subscription(
        self,
        operation: CursorRequest,
        key: Key,
    ) -> AnyOutcome:
        subscription = self._subscriptions[key]
        match operation:
            case DeleteSubscription():
                return self._delete(key, by_force=operation.by_force)
            case Skip(count=count):
                subscription.skip(count)
            case SkipAll():
                subscription.skip_all()
            case Expire(up_to=up_to):
                return self._expire(key, str(up_to))
            case ResetCursor():
                to = None if operation.to is None else str(operation.to)
                later_ms = operation.later_ms if operation.by_time else None
                return self._set(key, to, later_ms=later_ms, after=operation.after)
            case ReadCursor(after_delays=after_delays):
                if after_delays:
                    self._clock.await_delayed()
                return self._read(key)
            case PeekMessage(nth=nth):
                return subscription.peek(nth)
            case ReadStoredCursor():
                return subscription.stored()
            case AwaitPersisted():
                self._quiet(key)
                return subscription.await_persisted()
            case ReceiveAll():
                return self._take_all(key, operation.kind)
            case _:
                assert_never(operation)
        self._dispatcher.released(key)
        return Done()

    # ------------------------------------------------------------------------------------------------------ consumers

    def _subscribe(self, operation: Subscribe) -> AnyOutcome:
        topics = self._partitions.get(operation.topic, (operation.topic,))
        if operation.topic in self._partitions and operation.client == "wire":
            return Skipped("each partition has cursors of its own")
        if any(topic not in self._logs for topic in topics):
            return Skipped("there is no such topic")
        if operation.consumer in self._dispatcher.consumers:
            return Skipped("a consumer of this name is subscribed")
        for topic in topics:
            here = self._dispatcher.on((topic, operation.subscription)).values()
            if any(one.kind != operation.kind or one.kind == "Exclusive" for one in here):
                return Refused("ConsumerBusy")
            if self._variant.key_shared_policies_mixed:
                operation = _with_policy_of(next(iter(here), None), operation)
            policy = (bool(operation.sticky), not operation.out_of_order)
            if any((bool(one.claims), one.keeps_keys) != policy for one in here):
                return Refused("ConsumerBusy")
            names = {one.known_as for one in here if one.kind == "Key_Shared"} - {None}
            if self._variant.name_in_use_refused and operation.known_as in names:
                return Refused("ConsumerBusy")
            if not self._dispatcher.may_claim((topic, operation.subscription), operation.sticky):
                return Refused("ConsumerAssignError")
        for topic in topics:
            self._create(topic, operation.subscription, operation.start, durable=operation.durable)
        self._dispatcher.join(operation.consumer, consumer_of(operation, topics))
        return Subscribed()

    def _leave(self, name: str, sent: int | None) -> Done:
        """A consumer is gone, and its client sent this many of its grouped acks (None: all)."""
        self._dispatcher.send_held_back(self._dispatcher.consumers[name], sent)
        for key in self._dispatcher.leave(name).keys:
            if not self._subscriptions[key].durable and not self._dispatcher.on(key):
                del self._subscriptions[key]
        return Done()

    def _take(self, name: str, consumer: Consumer, count: int) -> ReceivedMessages | Starved:
        consumer.ask_for(count)
        taken = consumer.take(count)
        keys = consumer.keys
        while len(taken) < count:
            self._chance.shuffle(keys)
            if not any(self._dispatcher.send_one(key, consumer) for key in keys):
                if not consumer.failed:
                    break
                self._clock.advance(2 * NACK_DELAY_S)
                self._dispatcher.send_failed(name)
            taken += consumer.take(count - len(taken))
        messages = tuple(message for _, message in taken)
        if len(taken) < count and (missing := self._dispatcher.missing_for(name)):
            return Starved(f"{missing} entries that no consumer has are not delivered", messages)
        is_settled = consumer.client == "wire" and consumer.permits <= 0 and not consumer.waiting
        return ReceivedMessages(messages, settled=is_settled)

    def _acknowledge(self, consumer: Consumer, messages: list[Given], cumulative: bool) -> AnyOutcome:
        if not messages:
            return NOTHING_RECEIVED
        covered = messages
        if cumulative:
            last = spot_of(messages[0][1])
            covered = [given for given in consumer.received if spot_of(given[1]) <= last]
        consumer.acknowledged |= {(topic, spot_of(message)) for topic, message in covered}
        if self._variant.acknowledges_entries:
            messages = of_entries(self._logs, consumer, messages, cumulative=cumulative)
        for topic in consumer.topics:
            spots = tuple(spot_of(message) for where, message in messages if where == topic)
            if not spots:
                continue
            if consumer.client == "official":
                consumer.held_back.append(HeldBack(topic, spots, cumulative))
                continue
            entries = {position for position, _ in spots}
            if not cumulative:  # the broker replaces its batch index acks by those in the command
                spots = tuple(spot for _, spot in consumer.acknowledged if spot[0] in entries)
            self._dispatcher.acknowledge((topic, consumer.subscription), spots, cumulative=cumulative)
        sent = tuple(message for _, message in messages)
        return Acknowledged(sent, receipt=consumer.client == "wire" and bool(sent))

    def _acknowledge_others(self, consumer: Consumer, operation: AckById) -> AnyOutcome:
        if consumer.client != "wire":
            return Skipped("only the wire client acknowledges what it did not receive")
        if operation.cumulative and consumer.kind not in IN_ORDER:
            return NOT_SHARED
        topic, log = consumer.topics[0], self._logs[consumer.topics[0]]
        ids = operation.ids[:1] if operation.cumulative else tuple(dict.fromkeys(operation.ids))
        known = {name: spot for name in ids if (spot := log.find(name)) is not None}
        if not known:
            return NO_MESSAGE
        if self._variant.unacked_count_lowered_by_any_ack:
            holders = self._dispatcher.on((topic, consumer.subscription))
            held = {position for holder in holders for position in self._dispatcher.pending(holder)}
            consumer.undercount += sum((topic, position) not in held for position, _ in known.values())
        key = (topic, consumer.subscription)
        self._dispatcher.acknowledge(key, list(known.values()), cumulative=operation.cumulative)
        return Acknowledged(tuple(dispatched(log, name, spot) for name, spot in known.items()), receipt=True)

    def _redeliver(self, name: str, consumer: Consumer, nth: tuple[int, ...] | None) -> AnyOutcome:
        if nth is not None:
            chosen = consumer.chosen(nth)
            if not chosen:
                return NOTHING_RECEIVED
            consumer.failed += [(topic, message.position) for topic, message in chosen]
            if consumer.client == "wire":
                self._dispatcher.send_failed(name)
            return RedeliveryRequested(tuple(message for _, message in chosen))
        if consumer.client == "wire" and consumer.permits > 0:
            self._clock.await_delayed()
            for key in consumer.keys:
                self._dispatcher.send_all(key)
        asked = [given for given in consumer.received if (given[0], spot_of(given[1])) not in consumer.acknowledged]
        asked = list(dict.fromkeys((*asked, *consumer.waiting)))
        if consumer.client == "wire" or self._chance.random() < 0.5:
            consumer.permits += len(consumer.waiting)
            consumer.waiting.clear()
        self._dispatcher.redeliver(name, None)
        return RedeliveryRequested(tuple(message for _, message in asked))

    def _fail_often(self, operation: NackRepeatedly) -> AnyOutcome:
        log = self._logs[operation.topic]
        if not log.entries:
            return Skipped("the topic has no message")
        delays_s = [backoff.delay(NACK_DELAY_S, number) for number in range(operation.times)]
        if self._variant.nack_backoff_missing:
            delays_s = [NACK_DELAY_S] * operation.times
        if self._variant.back_off_too_short:
            delays_s = [NACK_DELAY_S / 2] * operation.times
        after_ms = tuple(1000 * (delay_s + self._chance.uniform(0.0, 0.1)) for delay_s in delays_s)
        self._clock.advance(sum(after_ms) / 1000)
        messages = [
            dispatched(log, name, (position, index))
            for position, ids in log.entries.items()
            for index, name in enumerate(ids)
        ]
        others = tuple(messages[1:2]) if self._variant.nack_redelivers_all else ()
        return RedeliveryTimes(messages[0], NACK_DELAY_S * 1000, after_ms, others)

    # -------------------------------------------------------------------------------------------------- subscriptions

    def _create(self, topic: str, name: str, start: Start, *, durable: bool = True) -> Done | Refused:
        if (topic, name) in self._subscriptions:
            return Refused("409", "it exists")
        log = self._logs[topic]
        latest, earliest = everything(log.of_model), Acked(self._deleted_up_to(topic))
        state = reference.created(latest if start == "latest" else earliest, self._variant)
        if self._variant.created_cursor_persisted_at_latest:
            state = msgspec.structs.replace(state, persisted=reference.record_of(latest))
        self._subscriptions[topic, name] = Subscription(
            log, self._clock, self._chance, self._limits[topic], self._variant, state, durable
        )
        return Done()

    def _create_at(self, topic: str, name: str, message: str) -> AnyOutcome:
        """A new subscription that begins with a message, or the first retained one after it."""
        spot = self._logs[topic].find(message)
        if spot is None:
            return NO_MESSAGE
        created = self._create(topic, name, "latest")
        if isinstance(created, Done):
            self._subscriptions[topic, name].set_to(self._retained(topic, spot[0]))
            return CursorReset(spot[0])
        return created

    def _deleted_up_to(self, topic: str) -> Position:
        """The last entry that is deleted; EARLIEST if none is."""
        gone = self._trimmed[topic]
        return max((at for at in self._logs[topic].entries if at.ledger in gone), default=EARLIEST)

    def _retained(self, topic: str, to: Position | None) -> Position | None:
        """The first entry at or after one (None: any) that is not deleted; the position after the last, if all are."""
        deleted = self._deleted_up_to(topic)
        if deleted == EARLIEST or (to is not None and to > deleted):
            return to
        following = self._logs[topic].of_model.after(deleted)
        return Position(deleted.ledger, deleted.entry + 1) if following is None else following

    def _on_partitions(self, operation: CreateSubscription | DeleteSubscription) -> AnyOutcome:
        """An administrator creates or deletes a subscription on each partition."""
        if isinstance(operation, CreateSubscription) and operation.at is not None:
            return NO_MESSAGE
        parts = self._partitions[operation.topic]
        done = [self._on_topic(msgspec.structs.replace(operation, topic=part)) for part in parts]
        return next((one for one in done if not isinstance(one, Done)), Done())

    def _unsubscribe(self, name: str, consumer: Consumer) -> Done | Refused:
        if any(other != name for key in consumer.keys for other in self._dispatcher.on(key)):
            return Refused("MetadataError", "Unconnected or shared consumer attempting to unsubscribe")
        keys = list(consumer.keys)
        self._leave(name, len(consumer.held_back))
        for key in keys:
            self._subscriptions.pop(key, None)
            self._dispatcher.disconnect(key)
        return Done()

    def _delete(self, key: Key, *, by_force: bool) -> Done | Refused:
        """By force also with consumers. Those of pulsar-client reconnect, which creates the subscription again."""
        consumers = self._dispatcher.on(key)
        if consumers and not by_force:
            return Refused("412", "it has consumers")
        for one in consumers.values():
            self._cut_off(one, key[0])
        del self._subscriptions[key]
        if any(one.client == "official" for one in consumers.values()):
            self._create(*key, "earliest")
        self._dispatcher.disconnect(key)
        return Done()

    def _expire(self, key: Key, up_to: str) -> AnyOutcome:
        spot = self._logs[key[0]].find(up_to)
        if spot is None:
            return NO_MESSAGE
        self._subscriptions[key].expire(spot[0])
        self._dispatcher.released(key)
        left = [position for position in self._subscriptions[key].left() if position <= spot[0]]
        return Starved(f"{len(left)} entries up to {spot[0]} do not expire") if left else Expired()

    def _set(self, key: Key, to: str | None, *, later_ms: int | None, after: bool = False) -> AnyOutcome:
        """Reset a subscription. ``later_ms``: by time, so much later than the message's; ``after``: to the next one."""
        log, target = self._logs[key[0]], None
        if to is not None:
            spot = log.find(to)
            if spot is None:
                return NO_MESSAGE
            target = Position(spot[0].ledger, spot[0].entry + 1) if after else spot[0]
            if later_ms is not None:
                if spot[0] <= self._deleted_up_to(key[0]):
                    return Skipped("the message was deleted")
                time_ms = log.published_ms[spot[0]] + later_ms
                since = (one for one, ms in log.published_ms.items() if ms >= time_ms)
                last = log.of_model.last
                target = min(since, default=Position(last.ledger, last.entry + 1))
        for one in self._dispatcher.on(key).values():
            self._cut_off(one, key[0])
        self._subscriptions[key].set_to(self._retained(key[0], target))
        self._dispatcher.disconnect(key)
        return CursorReset(target)

    def _quiet(self, key: Key) -> None:
        """Wait until clients hold no grouped acks."""
        for name, one in self._dispatcher.on(key).items():
            self._dispatcher.send_held_back(one)
            self._dispatcher.send_failed(name)
            if one.client == "official":
                self._clock.advance(2 * NACK_DELAY_S)

    def _read(self, key: Key) -> CursorRead:
        self._quiet(key)
        self._dispatcher.send_all(key)
        subscription = self._subscriptions[key]
        arrived, total = list[ConsumerRead](), 0
        for name, one in self._dispatcher.on(key).items():
            count = sum(len(subscription.left_of(position)) for position in self._dispatcher.pending_of(key, name))
            total += count - one.undercount
            if one.client == "wire":
                given = one.take(len(one.waiting))
                arrived.append(ConsumerRead(name, tuple(message for _, message in given), count - one.undercount))
        info = subscription.shown()
        return CursorRead(
            info.mark_delete, info.ranges, subscription.backlog, total, tuple(arrived), written=subscription.written
        )

    def _take_all(self, key: Key, kind: SubscriptionType) -> AllReceived:
        for name, one in list(self._dispatcher.on(key).items()):
            self._leave(name, self._chance.randint(0, len(one.held_back)))
        taker = Consumer((key[0],), key[1], kind, "wire", queue=0, permits=10_000)
        self._dispatcher.join("", taker)
        self._clock.await_delayed()
        self._dispatcher.send_all(key)
        self._dispatcher.leave("")
        return AllReceived(tuple(message for _, message in taker.waiting))

    def _trim(self, topic: str) -> Trimmed:
        """Delete closed ledgers, from the first one on, until one with an unacknowledged message."""
        log, current = self._logs[topic], self._ledgers[topic]
        ledgers = sorted({position.ledger for position in log.entries})
        is_full = current.used >= current.room and self._chance.random() < 0.5
        closed = [ledger for ledger in ledgers if ledger < current.current or is_full]
        here = [one for (where, _), one in self._subscriptions.items() if where == topic and one.durable]
        if topic not in self._whole:
            self._trimmed[topic].update(reference.deletable(log.of_model, closed, tuple(one.state for one in here)))
        return Trimmed(tuple(sorted({*ledgers, current.current} - self._trimmed[topic])))


def _with_policy_of(first: Consumer | None, operation: Subscribe) -> Subscribe:
    """The same with the policy of the first connected consumer, of which all are treated."""
    if first is None:
        return operation
    return msgspec.structs.replace(
        operation, sticky=operation.sticky if first.claims else (), out_of_order=not first.keeps_keys
    )
