"""Dispatch: consumers of simulated subscriptions, and a broker that sends to them in any possible order.

Nothing is sent by itself: :meth:`Dispatcher.send_one` sends one entry to one of the possible consumers. Key_Shared is
left to :mod:`tests.lockstep.simulated.key_shared`.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from model.chunking.assignment import NOTHING_SENT, Assignment
from model.cursors import dispatch as reference
from model.cursors.dispatch import Dispatch
from model.events import Delivery
from model.key_shared.variants import DOCUMENT, KeysVariant
from model.log import Position
from model.vocabulary import ChunkNumber
from tests.lockstep.simulated.consumers import Consumer, Key
from tests.lockstep.simulated.key_shared import Claims, Fires, KeyedSubscription, may_claim, never
from tests.lockstep.simulated.subscription import Spot, Subscription
from tests.lockstep.simulated.variants import SimulatedVariant


class Dispatcher:
    """The consumers of one example, and the pending entries of each subscription."""

    def __init__(
        self,
        chance: random.Random,
        subscriptions: dict[Key, Subscription],
        variant: SimulatedVariant,
        keys: KeysVariant = DOCUMENT,
        *,
        fires: Fires = never,
    ) -> None:
        self._chance = chance
        self._subscriptions = subscriptions
        self._variant = variant
        self._keys = keys
        self._fires = fires
        self.consumers: dict[str, Consumer] = {}
        self._dispatches: dict[Key, Dispatch] = {}
        self._replayed: dict[Key, list[Position]] = {}
        self._replay_queue: dict[Key, set[Position]] = {}
        self._assignments: dict[Key, Assignment] = {}
        self._keyed: dict[Key, KeyedSubscription] = {}
        self.classic: dict[str, bool] = {}
        """For topics where this was set: whether they have the classic implementation, which is then as documented."""

    def on(self, key: Key) -> dict[str, Consumer]:
        """The consumers of a subscription on one topic."""
        return {name: one for name, one in self.consumers.items() if key in one.keys}

    # --------------------------------------------------------------------------------------------- joining and leaving

    def join(self, name: str, consumer: Consumer) -> None:
        """A consumer joins."""
        self.consumers[name] = consumer
        for key in consumer.keys:
            self._join_one(key, name, consumer)
        self._elect(consumer)
        self._join_keyed(name, consumer)

    def _join_one(self, key: Key, name: str, consumer: Consumer) -> None:
        before = self._dispatches.get(key, Dispatch(variant=self._variant))
        self._dispatches[key] = reference.join(replace(before, kind=consumer.kind), name)

    def pending(self, name: str) -> set[tuple[str, Position]]:
        """The entries that are pending at a consumer, with their topics."""
        keys = self.consumers[name].keys
        return {(key[0], position) for key in keys for position in self.pending_of(key, name)}

    def pending_of(self, key: Key, name: str) -> frozenset[Position]:
        """The entries of one subscription that are pending at a consumer."""
        keyed = self.keyed(key)
        return self._dispatches[key].consumer(name).pending if keyed is None else keyed.pending_of(name)

    def keyed(self, key: Key) -> KeyedSubscription | None:
        """A Key_Shared subscription, if it is one and has consumers."""
        here = any(one.kind == "Key_Shared" for one in self.on(key).values())
        return self._keyed[key] if here else None

    def may_claim(self, key: Key, claims: Claims) -> bool:
        """Whether a consumer may claim these hash ranges."""
        keyed = self.keyed(key)
        return not claims or may_claim(() if keyed is None else keyed.assignments, claims)

    def _join_keyed(self, name: str, consumer: Consumer) -> None:
        for key in consumer.keys if consumer.kind == "Key_Shared" else ():
            if key not in self._keyed:
                classic = self.classic.get(key[0], self._keys.classic_by_letter)
                self._keyed[key] = KeyedSubscription(
                    self._chance,
                    self._subscriptions[key],
                    key[0],
                    replace(self._keys, classic_by_letter=classic),
                    give=partial(self._give, key),
                    fires=self._fires,
                )
            self._keyed[key].join(name, consumer)

    def leave(self, name: str) -> Consumer:
        """A consumer leaves."""
        pending = self.pending(name)
        consumer = self.consumers.pop(name)
        for key in consumer.keys:
            self._dispatches[key] = reference.leave(self._dispatches[key], name)
            if consumer.kind == "Key_Shared":
                self._keyed[key].leave(name)
            if key in self._assignments:
                self._assignments[key] = self._assignments[key].without(name)
            if consumer.kind == "Shared":
                self._leave_shared(key, consumer, {where for topic, where in pending if topic == key[0]})
        self._elect(consumer)
        return consumer

    def _leave_shared(self, key: Key, consumer: Consumer, pending: set[Position]) -> None:
        """What is pending goes to the replay queue, and with the last consumer the queue is cleared.

        In a variant the result of a read of that queue goes to the next consumer.
        """
        queue = self._replay_queue.setdefault(key, set())
        if self.on(key):
            queue |= pending
            return
        if self._variant.replay_read_outlives_consumers and consumer.permits > 0:
            self._replayed[key] = sorted(queue)
        if self._variant.leaver_given_twice:
            self._replayed[key] = sorted(pending)
        queue.clear()
        if self._variant.delayed_forgotten:
            forgotten = self._dispatches[key].forgotten | self._subscriptions[key].not_due()
            self._dispatches[key] = replace(self._dispatches[key], forgotten=forgotten)

    def _elect(self, changed: Consumer) -> None:
        """Any consumer of a Failover subscription may be the active one from now on."""
        for key in changed.keys if changed.kind == "Failover" else ():
            if names := list(self.on(key)):
                self._dispatches[key] = reference.elect(self._dispatches[key], self._chance.choice(names))

    def disconnect(self, key: Key) -> None:
        """The broker disconnects a subscription's consumers: the wire client's are gone, pulsar-client's reconnect."""
        self._keyed.pop(key, None)
        self._replayed.pop(key, None)
        self._replay_queue.pop(key, None)
        self._assignments.pop(key, None)
        self._dispatches.pop(key, None)
        for name, one in self.on(key).items():
            if one.client == "wire":
                del self.consumers[name]
            else:
                self._come_back(one, key[0])
                self._join_one(key, name, one)
                self._join_keyed(name, one)
        for one in list(self.on(key).values())[:1]:
            self._elect(one)

    def reconnect(self, name: str) -> None:
        """A consumer of pulsar-client disconnects and reconnects."""
        consumer = self.leave(name)
        self.join(name, consumer)
        for topic in consumer.topics:
            self._come_back(consumer, topic)

    def _come_back(self, consumer: Consumer, topic: str) -> None:
        """The messages in the client's queue may be dropped or kept."""
        if self._chance.random() < 0.5:
            consumer.waiting = deque(given for given in consumer.waiting if given[0] != topic)
        consumer.permits = max(1, consumer.queue - len(consumer.waiting))

    # ------------------------------------------------------------------------------------------------------ sending

    def send_one(self, key: Key, receiver: Consumer | None = None) -> bool:
        """Send an entry to one of the possible consumers; False if there is none, or none for ``receiver``."""
        keyed = self.keyed(key)
        if keyed is not None:
            return keyed.step() if receiver is None else self._send_by_key(keyed, receiver)
        if self._is_held_up(key):
            return False
        able = [name for name, one in self._receivers(key).items() if one.permits > 0]
        if not able or (receiver is not None and all(self.consumers[name] is not receiver for name in able)):
            return False
        name = self._chance.choice(able)
        position = self._next(key, name)
        if position is None:
            return False
        self._give(key, self.consumers[name], position)
        if position in self._replayed.get(key, ()):
            self._replayed[key].remove(position)
        else:
            self._replay_queue.get(key, set()).discard(position)
            self._dispatches[key] = reference.send(self._dispatches[key], name, position)
        return True

    @staticmethod
    def _send_by_key(keyed: KeyedSubscription, receiver: Consumer) -> bool:
        """Send everything that can be sent; return whether ``receiver`` got a message."""
        before = len(receiver.waiting)
        while keyed.step():
            pass
        return len(receiver.waiting) > before

    def _give(self, key: Key, consumer: Consumer, position: Position) -> None:
        """Send an entry to a consumer, without its acknowledged messages."""
        subscription = self._subscriptions[key]
        ids = subscription.log.entries[position]
        spots = subscription.left_of(position) or sorted(subscription.log.spots([position]))
        for _, index in spots:
            is_batch = len(ids) > 1
            message = Delivery(
                position,
                index if is_batch else -1,
                len(ids) if is_batch else 0,
                ids[index],
                self._dispatches[key].redeliveries(position),
            )
            if (key[0], (position, index)) not in consumer.hidden:
                consumer.waiting.append((key[0], message))
                consumer.permits -= 1
        chunk = subscription.log.of_model.chunks.get(position)
        if chunk is not None and consumer.kind == "Shared":
            name = next(name for name, one in self.consumers.items() if one is consumer)
            self._assignments[key] = self._assignments.get(key, NOTHING_SENT).sent(name, chunk)

    def _is_held_up(self, key: Key) -> bool:
        """In variants, whether a chunk that cannot be sent keeps a Shared subscription from sending anything."""
        if not any(one.kind == "Shared" for one in self.on(key).values()):
            return False
        free = [chunk for position, chunk in self._free_chunks(key)]
        assignment = self._assignments.get(key, NOTHING_SENT)
        if self._variant.chunk_assignment_outlives_consumer and assignment.is_stuck(free):
            return True
        holders = {holder for chunk in free if (holder := assignment.holder(chunk.uuid)) is not None}
        blocks = any(name in self.consumers and self.consumers[name].permits <= 0 for name in holders)
        return self._variant.chunk_without_permits_blocks_others and blocks

    def _free_chunks(self, key: Key) -> list[tuple[Position, ChunkNumber]]:
        """The chunks that nobody has and nobody acknowledged."""
        subscription = self._subscriptions[key]
        held = {position for name in self.on(key) for position in self.pending_of(key, name)}
        chunks = subscription.log.of_model.chunks
        return [(where, chunks[where]) for where in subscription.left() if where in chunks and where not in held]

    def _receivers(self, key: Key) -> dict[str, Consumer]:
        there = self._dispatches.get(key, Dispatch()).receivers
        return {one.name: self.consumers[one.name] for one in there}

    def _next(self, key: Key, name: str) -> Position | None:
        subscription = self._subscriptions[key]
        if replayed := [one for one in self._replayed.get(key, ()) if not subscription.has(one)]:
            return replayed[0]
        state, log = subscription.state.acked, subscription.log.of_model
        dispatch = replace(self._dispatches[key], not_due=subscription.not_due())
        if self._variant.delayed_lost and dispatch.kind == "Shared":
            dispatch = replace(dispatch, forgotten=dispatch.forgotten | dispatch.not_due)
        self._dispatches[key] = dispatch
        return reference.next_entry(dispatch, state, log, name)

    def send_all(self, key: Key) -> None:
        """Send everything that can be sent."""
        while (
            self.send_one(key)
            if self.keyed(key)
            else any(self.send_one(key, one) for one in self._receivers(key).values())
        ):
            pass

    def missing_for(self, name: str) -> int:
        """How many pending entries a consumer's own client filters, with no other consumer to receive them."""
        consumer, pending = self.consumers[name], self.pending(name)
        held_up = [key for key in consumer.keys if self._is_held_up(key)]
        if held_up:
            return sum(len(self._subscriptions[key].left()) for key in held_up)
        if any(len(self.on(key)) > 1 for key in consumer.keys):
            return 0
        return len({(topic, spot[0]) for topic, spot in consumer.hidden} & pending)

    # ------------------------------------------------------------------------------------------ commands of consumers

    def acknowledge(self, key: Key, spots: Sequence[Spot], *, cumulative: bool) -> None:
        """The broker receives an ack."""
        keys = [key]
        if self._variant.ack_covers_whole_message and not cumulative:
            spots = [*spots, *self._rest_of_messages(key, spots)]
        if self._variant.acks_another_subscription:
            keys = [one for one in self._subscriptions if one[0] == key[0]]
        for one in keys:
            if cumulative:
                self._subscriptions[one].acknowledge_up_to(spots[0])
            else:
                self._subscriptions[one].acknowledge(spots)
            self.released(one)

    def _rest_of_messages(self, key: Key, spots: Sequence[Spot]) -> list[Spot]:
        """All chunks of the messages that these are chunks of."""
        chunks = self._subscriptions[key].log.of_model.chunks
        uuids = {chunks[position].uuid for position, _ in spots if position in chunks}
        return [(position, 0) for position, chunk in chunks.items() if chunk.uuid in uuids]

    def acknowledge_pending(self, name: str) -> None:
        """Acknowledge everything that is pending at a consumer."""
        for key in self.consumers[name].keys:
            for position in self.pending_of(key, name):
                self.acknowledge(key, self._subscriptions[key].left_of(position), cumulative=False)

    def released(self, key: Key) -> None:
        """Remove acknowledged entries from the pending acks."""
        if key in self._dispatches:
            self._dispatches[key] = reference.released(self._dispatches[key], self._subscriptions[key].state.acked)
        if (keyed := self.keyed(key)) is not None:
            keyed.released()

    def redeliver(self, name: str, places: Iterable[tuple[str, Position]] | None) -> None:
        """A consumer requests redelivery of entries (None: of everything pending)."""
        named = None if places is None else tuple(places)
        for key in self.consumers[name].keys:
            positions = None if named is None else [where for topic, where in named if topic == key[0]]
            if positions != []:
                self._redeliver(key, name, positions)

    def _redeliver(self, key: Key, name: str, positions: list[Position] | None) -> None:
        before, keyed = self._dispatches[key], self.keyed(key)
        if keyed is None:
            after = reference.redeliver(before, name, positions)
            again = before.consumer(name).pending - after.consumer(name).pending
            self._replay_queue.setdefault(key, set()).update(again)
            self._dispatches[key] = after
            if again and self._variant.unacked_count_lowered_by_nack:
                self.consumers[name].undercount += 1
            return
        pending = keyed.pending_of(name)
        for position in pending:
            before = reference.send(before, name, position)
        after = reference.redeliver(before, name, positions)
        keyed.request_redelivery(name, pending - after.consumer(name).pending)
        self._dispatches[key] = replace(self._dispatches[key], redelivered=after.redelivered)

    def send_held_back(self, consumer: Consumer, count: int | None = None) -> None:
        """A client sends the first of its grouped acks (None: all of them)."""
        number = len(consumer.held_back) if count is None else count
        for ack in consumer.held_back[:number]:
            if (ack.topic, consumer.subscription) in self._subscriptions:
                self.acknowledge((ack.topic, consumer.subscription), ack.spots, cumulative=ack.cumulative)
        del consumer.held_back[:number]

    def send_failed(self, name: str) -> None:
        """A client asks for what its application failed with."""
        consumer = self.consumers[name]
        if consumer.failed:
            self.redeliver(name, consumer.failed)
            consumer.failed.clear()
