"""Who has what: consumers of simulated subscriptions, and a broker that sends to them in any order that it may.

Nothing is sent by itself: :meth:`Dispatcher.send_one` sends one entry, to one of those that may get it. What is sent by
keys is :mod:`tests.lockstep.simulated_key_shared`'s business.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from model.events import Delivery
from model.key_shared.variants import DOCUMENT, KeysVariant
from model.log import Position
from tests.lockstep.cursor_variants import CursorVariant
from tests.lockstep.simulated_consumers import Consumer, Key
from tests.lockstep.simulated_key_shared import Claims, Fires, KeyedSubscription, never
from tests.lockstep.simulated_subscription import Spot, Subscription


class Dispatcher:
    """The consumers of one example, and who has what of which subscription."""

    def __init__(
        self,
        chance: random.Random,
        subscriptions: dict[Key, Subscription],
        variant: CursorVariant,
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
        self._active: dict[Key, str] = {}
        self._forgotten: set[tuple[Key, Position]] = set()
        self._asked_again: Counter[tuple[Key, Position]] = Counter()
        self._replayed: dict[Key, list[Position]] = {}
        self._keyed: dict[Key, KeyedSubscription] = {}
        self.classic: dict[str, bool] = {}
        """Where topics were told so, whether they have the classic implementation, which is then as documented."""

    def on(self, key: Key) -> dict[str, Consumer]:
        """The consumers of a subscription on one topic."""
        return {name: one for name, one in self.consumers.items() if key in one.keys}

    # --------------------------------------------------------------------------------------------- coming and going

    def join(self, name: str, consumer: Consumer) -> None:
        """A consumer comes."""
        self.consumers[name] = consumer
        self._elect(consumer)
        self._join_keyed(name, consumer)

    def keyed(self, key: Key) -> KeyedSubscription | None:
        """A subscription that goes by keys, if it is one and consumers are there."""
        here = any(one.kind == "Key_Shared" for one in self.on(key).values())
        return self._keyed[key] if here else None

    def may_claim(self, key: Key, claims: Claims) -> bool:
        """Whether a consumer may have these hash ranges for itself."""
        keyed = self.keyed(key)
        return keyed is None or not claims or keyed.may_claim(claims)

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
        """A consumer is gone; what it had is free."""
        consumer = self.consumers.pop(name)
        if self._variant.left_forgotten:
            self._forgotten |= {((topic, consumer.subscription), where) for topic, where in consumer.outstanding}
        self._elect(consumer)
        for key in consumer.keys:
            if consumer.kind == "Key_Shared":
                self._keyed[key].leave(name)
            self._forget_counts(key)
            if self._variant.replay_read_outlives_consumers and consumer.kind == "Shared" and not self.on(key):
                self._replayed[key] = sorted(where for topic, where in consumer.outstanding if topic == key[0])
        return consumer

    def _forget_counts(self, key: Key) -> None:
        """With its last consumer a subscription forgets how often it was asked for what again."""
        if not self.on(key):
            for place in [place for place in self._asked_again if place[0] == key]:
                del self._asked_again[place]

    def _elect(self, changed: Consumer) -> None:
        """Of a Failover subscription, any consumer may be the active one from now on, which then begins anew."""
        for topic in changed.topics if changed.kind == "Failover" else ():
            key = (topic, changed.subscription)
            names = list(self.on(key))
            active = self._chance.choice(names) if names else ""
            if active != self._active.get(key):
                self._active[key] = active
                self.free(key)

    def free(self, key: Key) -> None:
        """Nobody has anything of a subscription any more."""
        for one in self.on(key).values():
            one.outstanding = {place for place in one.outstanding if place[0] != key[0]}

    def disconnect(self, key: Key) -> None:
        """The broker disconnects a subscription's consumers: the wire client's are gone, pulsar-client's come back."""
        self.free(key)
        self._keyed.pop(key, None)
        self._replayed.pop(key, None)
        self._forgotten = {place for place in self._forgotten if place[0] != key}
        for name, one in self.on(key).items():
            if one.client == "wire":
                del self.consumers[name]
            else:
                self._come_back(one, key[0])
                self._join_keyed(name, one)
        self._active.pop(key, None)
        for place in [place for place in self._asked_again if place[0] == key]:
            del self._asked_again[place]
        for one in list(self.on(key).values())[:1]:
            self._elect(one)

    def reconnect(self, name: str) -> None:
        """A consumer of pulsar-client is gone for a moment, and comes back."""
        consumer = self.leave(name)
        consumer.outstanding.clear()
        self.join(name, consumer)
        for topic in consumer.topics:
            self._come_back(consumer, topic)

    def _come_back(self, consumer: Consumer, topic: str) -> None:
        """What waits in the client's queue may be dropped there, and may not."""
        if self._chance.random() < 0.5:
            consumer.waiting = deque(given for given in consumer.waiting if given[0] != topic)
        consumer.permits = max(1, consumer.queue - len(consumer.waiting))

    # ------------------------------------------------------------------------------------------------------ sending

    def send_one(self, key: Key, receiver: Consumer | None = None) -> bool:
        """Send an entry to one of those that may get it; False where there is none, or none for ``receiver``."""
        keyed = self.keyed(key)
        if keyed is not None:
            return keyed.step() if receiver is None else self._send_by_key(keyed, receiver)
        able = [one for one in self._receivers(key) if one.permits > 0]
        if not able or (receiver is not None and receiver not in able):
            return False
        consumer = self._chance.choice(able)
        position = self._next(key, consumer)
        if position is None:
            return False
        self._give(key, consumer, position)
        if position in self._replayed.get(key, ()):
            self._replayed[key].remove(position)
        else:
            consumer.outstanding.add((key[0], position))
        return True

    @staticmethod
    def _send_by_key(keyed: KeyedSubscription, receiver: Consumer) -> bool:
        """Send all that can be sent; whether ``receiver`` got something."""
        before = len(receiver.waiting)
        while keyed.step():
            pass
        return len(receiver.waiting) > before

    def _give(self, key: Key, consumer: Consumer, position: Position) -> None:
        """An entry is on its way to a consumer, without what is acknowledged of it."""
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
                0 if self._variant.nack_uncounted else self._asked_again[key, position],
            )
            if (key[0], (position, index)) not in consumer.hidden:
                consumer.waiting.append((key[0], message))
                consumer.permits -= 1

    def _receivers(self, key: Key) -> list[Consumer]:
        here = self.on(key)
        if any(one.kind == "Failover" for one in here.values()):
            return [one for name, one in here.items() if name == self._active.get(key)]
        return list(here.values())

    def _next(self, key: Key, consumer: Consumer) -> Position | None:
        """The first entry that is not acknowledged and that nobody has."""
        subscription = self._subscriptions[key]
        held = {position for one in self.on(key).values() for topic, position in one.outstanding if topic == key[0]}
        if self._variant.delivered_to_two:
            held = {position for topic, position in consumer.outstanding if topic == key[0]}
        if replayed := [one for one in self._replayed.get(key, ()) if not subscription.has(one)]:
            return replayed[0]
        free = [
            position
            for position in subscription.left()
            if position not in held and (key, position) not in self._forgotten
        ]
        if self._variant.acknowledged_delivered and len(passed := subscription.passed()) > 1 and passed[-1] not in held:
            return passed[-1]
        return free[0] if free else None

    def send_all(self, key: Key) -> None:
        """Send all that can be sent."""
        while self.send_one(key) if self.keyed(key) else any(self.send_one(key, one) for one in self._receivers(key)):
            pass

    def missing_for(self, consumer: Consumer) -> int:
        """How many entries of what it has are kept from it by its own client, and nobody else is there to get them."""
        if any(len(self.on((topic, consumer.subscription))) > 1 for topic in consumer.topics):
            return 0
        return len({(topic, spot[0]) for topic, spot in consumer.hidden if (topic, spot[0]) in consumer.outstanding})

    # ------------------------------------------------------------------------------------------ what consumers ask

    def acknowledge(self, key: Key, spots: Sequence[Spot], *, cumulative: bool) -> None:
        """The broker is told of an acknowledgment."""
        keys = [key]
        if self._variant.acks_another_subscription:
            keys = [one for one in self._subscriptions if one[0] == key[0]]
        for one in keys:
            if cumulative:
                self._subscriptions[one].acknowledge_up_to(spots[0])
            else:
                self._subscriptions[one].acknowledge(spots)
            self.released(one)

    def released(self, key: Key) -> None:
        """What is acknowledged nobody has any more."""
        subscription = self._subscriptions[key]
        for one in self.on(key).values():
            one.outstanding = {
                (topic, position)
                for topic, position in one.outstanding
                if topic != key[0] or not subscription.has(position)
            }
        if (keyed := self.keyed(key)) is not None:
            keyed.released()

    def redeliver(self, name: str, places: Iterable[tuple[str, Position]] | None) -> None:
        """A consumer asks for entries again, None: for all that it has; of one that is active, it is always all."""
        consumer = self.consumers[name]
        if self._variant.nack_ignored:
            return
        before = set(consumer.outstanding)
        if consumer.kind == "Failover":
            named = consumer.topics if places is None else {topic for topic, _ in places}
            topics = {t for t in named if self._active.get((t, consumer.subscription)) == name}
            consumer.outstanding = {place for place in consumer.outstanding if place[0] not in topics}
        elif places is None or self._variant.nack_redelivers_all:
            consumer.outstanding.clear()
        elif consumer.kind == "Exclusive":
            topics = {topic for topic, _ in places}
            consumer.outstanding = {place for place in consumer.outstanding if place[0] not in topics}
        else:
            consumer.outstanding -= set(places)
        for key in consumer.keys if consumer.kind == "Key_Shared" else ():
            self._keyed[key].give_back(
                name, [where for topic, where in before - consumer.outstanding if topic == key[0]]
            )
        self._asked_again.update(
            ((topic, consumer.subscription), where) for topic, where in before - consumer.outstanding
        )

    def send_held_back(self, consumer: Consumer, count: int | None = None) -> None:
        """A client sends the first of the acknowledgments that it holds back, None: all of them."""
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
