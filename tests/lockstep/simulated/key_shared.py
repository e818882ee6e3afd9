"""A Key_Shared subscription of a simulated broker: the reference of document 004, with the consumers of an example.

It adds what the reference (:mod:`model.key_shared.dispatcher`) leaves to others: the owners of hashes, the entries of
the log, batches (an entry takes as many permits as it has messages), and the counters of brokers. Nothing is sent by
itself: :meth:`KeyedSubscription.step` takes one step, and anything may happen before the next one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from model.events import ConsumerRead, Delivery, DrainingHash
from model.failpoints import FailpointKind
from model.key_shared import dispatcher
from model.key_shared.dispatcher import DispatchOutcome, Owners
from model.key_shared.hashes import AUTO_SPLIT_HASHES, CLASSIC_HASHES, STICKY_HASHES, sticky_hash
from model.key_shared.ranges import Assignments, owner_of, ranges_of
from model.key_shared.selectors import RangesRefused, Ring, assignments_of, claimed, joined, left, without
from model.key_shared.variants import KeysVariant
from model.log import Position
from model.vocabulary import HashRange
from tests.lockstep.simulated.consumers import Consumer
from tests.lockstep.simulated.subscription import Subscription

Claims = tuple[tuple[int, int], ...]
"""Hash ranges that a consumer claims, ends included."""
Fires = Callable[[str, FailpointKind], bool]
"""Whether a failpoint of a topic takes effect now."""


def never(_topic: str, _kind: FailpointKind) -> bool:
    """No failpoint."""
    return False


class KeyedSubscription:
    """The subscription, as long as only its consumers change its acks."""

    def __init__(
        self,
        chance: random.Random,
        subscription: Subscription,
        topic: str,
        variant: KeysVariant,
        *,
        give: Callable[[Consumer, Position], None],
        fires: Fires,
    ) -> None:
        """``give`` sends an entry to a consumer."""
        self._chance = chance
        self._subscription = subscription
        self._topic = topic
        self._variant = variant
        self._give = give
        self._fires = fires
        self._pauses = 0
        self._consumers: dict[str, Consumer] = {}
        self._hashes = CLASSIC_HASHES if variant.is_classic else AUTO_SPLIT_HASHES
        self._ring = Ring(hashes=self._hashes)
        self._assignments: Assignments = ()
        self._positions: list[Position] = []
        self._cleared: Counter[str] = Counter()
        self._state = dispatcher.new_subscription((), variant=variant)
        self._learn()

    # ------------------------------------------------------------------------------------------ owners of hashes

    @property
    def _claims(self) -> bool:
        return any(one.claims for one in self._consumers.values())

    def _owners(self) -> Owners:
        hashes = sorted(set(self._state.hashes))
        return tuple((hashed, name) for hashed in hashes if (name := owner_of(self._assignments, hashed)) is not None)

    @property
    def assignments(self) -> Assignments:
        """Which consumer has which hashes."""
        return self._assignments

    # -------------------------------------------------------------------------------------------- joining and leaving

    def join(self, name: str, consumer: Consumer) -> None:
        """A consumer joins. The first one decides how hashes are shared, and all entries are read again."""
        self._learn()
        if not self._consumers:
            self._begin(keeps_keys=consumer.keeps_keys)
        self._consumers[name] = consumer
        if consumer.claims:
            self._assignments = claimed(self._assignments, name, _ranges(consumer.claims))
        else:
            self._ring = joined(self._ring, name, name=consumer.known_as or name)
            self._assignments = assignments_of(self._ring)
        if len(self._consumers) == 1:
            self._learn()
        self._fires(self._topic, "join-slow")
        self._becomes(dispatcher.join(self._state, name, permits=0, owners=self._owners()))

    def _begin(self, *, keeps_keys: bool) -> None:
        variant = self._variant if keeps_keys else replace(self._variant, no_draining=True)
        self._state = dispatcher.new_subscription((), variant=variant)
        self._positions.clear()

    def leave(self, name: str) -> None:
        """A consumer leaves."""
        self._learn()
        consumer = self._consumers.pop(name)
        if consumer.claims:
            self._assignments = without(self._assignments, name)
        else:
            self._ring = left(self._ring, name)
            self._assignments = assignments_of(self._ring)
        self._fires(self._topic, "leave-slow")
        self._becomes(dispatcher.leave(self._state, name, owners=self._owners()))
        self._cleared.pop(name, None)

    # --------------------------------------------------------------------------------------------------- steps

    def released(self) -> None:
        """Remove acknowledged entries from the pending acks and the replay queue."""
        for index, position in enumerate(self._positions):
            if index in self._state.acknowledged or not self._subscription.has(position):
                continue
            holder = next((one.name for one in self._state.consumers if index in one.pending), None)
            if holder is not None:
                self._becomes(dispatcher.acknowledge(self._state, holder, index))
            acknowledged = self._state.acknowledged | {index}
            waits = tuple(one for one in self._state.replay if one != index)
            self._becomes(replace(self._state, acknowledged=acknowledged, replay=waits))

    def pending_of(self, name: str) -> frozenset[Position]:
        """The entries that are pending at a consumer."""
        known = self._state.consumer(name)
        return frozenset(() if known is None else (self._positions[index] for index in known.pending))

    def request_redelivery(self, name: str, positions: Iterable[Position]) -> None:
        """A consumer nacks some of its entries."""
        indexes = [self._positions.index(position) for position in positions]
        self._becomes(dispatcher.request_redelivery(self._state, name, sorted(indexes)))

    def step(self) -> bool:
        """Choose a consumer for one message, or send it the chosen one; False if there is nothing to do."""
        self._learn()
        for index in sorted(self._state.delayed):
            if self._subscription.is_due(self._positions[index]):
                self._state = dispatcher.time_came(self._state, index)
        self._ask()
        if self._state.leaving and self._chance.random() < 0.5:
            self._becomes(dispatcher.register(self._state))
            return True
        if self._state.sending is not None:
            if self._pauses:
                self._pauses -= 1
            else:
                self._send()
            return True
        if not self._state.awake:
            return bool(self._state.leaving)
        after, outcome, _ = dispatcher.choose(self._state)
        self._becomes(after)
        if outcome is DispatchOutcome.CHOSEN and self._fires(self._topic, "dispatch-slow"):
            self._pauses = self._chance.choice((2, 5, 10))
        return outcome is not DispatchOutcome.RESTS or bool(after.leaving)

    def _send(self) -> None:
        sending = self._state.sending
        assert sending is not None
        if sending.position in self._state.acknowledged:
            self._state = replace(self._state, sending=None)
            return
        after, outcome = dispatcher.add(self._state)
        consumer = self._consumers.get(sending.consumer)
        if outcome is DispatchOutcome.SENT and consumer is not None:
            self._give(consumer, self._positions[sending.position])
        self._becomes(after)

    # ------------------------------------------------------------------------------------------------ stats

    def share(self, name: str, messages: tuple[Delivery, ...]) -> ConsumerRead:
        """A consumer's stats, with the messages that arrived at it."""
        draining = tuple(
            DrainingHash(hashed, entry.pending, entry.blocked)
            for hashed, entry in self._state.draining.entries
            if entry.consumer == name
        )
        return ConsumerRead(
            name,
            messages,
            permits=self._consumers[name].permits,
            unacknowledged=len(self.pending_of(name)),
            ranges=ranges_of(self._assignments, name),
            draining=draining,
            cleared=self._cleared[name],
        )

    # ----------------------------------------------------------------------------------------------- the reference

    def _learn(self) -> None:
        """Add new entries of the log to the reference."""
        log = self._subscription.log
        new = list(log.entries)[len(self._positions) :]
        if not new:
            return
        within = STICKY_HASHES if self._claims else self._hashes
        hashes = tuple(sticky_hash(log.of_model.keys[position].hashed_by, within) for position in new)
        first = len(self._positions)
        self._positions += new
        has = {first + number for number, position in enumerate(new) if self._subscription.has(position)}
        delayed = {first + number for number, position in enumerate(new) if not self._subscription.is_due(position)}
        self._state = replace(
            self._state,
            hashes=(*self._state.hashes, *hashes),
            acknowledged=self._state.acknowledged | has,
            delayed=self._state.delayed | delayed,
            awake=bool(self._consumers),
        )
        self._state = replace(self._state, owners=self._owners())

    def _ask(self) -> None:
        """Give the reference the permits of each consumer; only more permits wake it."""
        for name, consumer in self._consumers.items():
            known, permits = self._state.consumer(name), max(0, consumer.permits)
            assert known is not None
            if permits > known.permits:
                self._state = dispatcher.ask(self._state, name, permits=permits)
            elif permits < known.permits:
                fewer = replace(known, permits=permits)
                others = (fewer if one is known else one for one in self._state.consumers)
                self._state = replace(self._state, consumers=tuple(others))

    def _becomes(self, after: dispatcher.KeySharedSubscription) -> None:
        """The next state of the reference; drained hashes are counted."""
        before, self._state = self._state, after
        for hashed, entry in before.draining.entries:
            if after.draining.of(hashed) is None:
                self._cleared[entry.consumer] += 1


def may_claim(assignments: Assignments, claims: Claims) -> bool:
    """Whether a consumer may claim these hash ranges."""
    try:
        claimed(assignments, "", _ranges(claims))
    except RangesRefused:
        return False
    return True


def _ranges(claims: Claims) -> tuple[HashRange, ...]:
    return tuple(HashRange(first, last) for first, last in claims)
