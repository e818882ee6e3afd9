"""Expiry by time on the simulated broker: by TTLs, which it looks at now and then, and by requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from model.events import AnyOutcome, Skipped
from model.expiry_operations import ExpireOlder, ExpiryRequest, OlderExpired, SetTtl, TtlSet
from tests.lockstep.simulated.consumers import Key
from tests.lockstep.simulated.readers import SimulatedReaders
from tests.lockstep.simulated.subscription import Clock, Subscription
from tests.lockstep.simulated.variants import SimulatedVariant


class SimulatedExpiry:
    """The TTLs of one example's topics. ``released``: called with each subscription that changed."""

    def __init__(
        self,
        chance: random.Random,
        clock: Clock,
        variant: SimulatedVariant,
        subscriptions: Mapping[Key, Subscription],
        released: Callable[[Key], None],
        readers: SimulatedReaders,
    ) -> None:
        self._chance = chance
        self._clock = clock
        self._variant = variant
        self._subscriptions = subscriptions
        self._released = released
        self._readers = readers
        self._ttls: dict[str, int] = {}

    def perform(self, operation: ExpiryRequest) -> AnyOutcome:
        """Perform one request, and return its outcome."""
        match operation:
            case SetTtl(scope="namespace"):
                return Skipped("the topic shares its namespace")
            case SetTtl(topic, seconds):
                if seconds is None:
                    self._ttls.pop(topic, None)
                else:
                    self._ttls[topic] = seconds
                    self._expire(topic, None, seconds, is_ttl=True)
                return TtlSet()
            case ExpireOlder(topic, subscription, seconds):
                if subscription is not None and (topic, subscription) not in self._subscriptions:
                    return Skipped("there is no such subscription")
                self._expire(topic, subscription, seconds)
                return OlderExpired()

    def look(self) -> None:
        """The broker may look for messages that are older than a TTL."""
        for topic, seconds in self._ttls.items():
            if self._chance.random() < 0.2:
                self._expire(topic, None, seconds, is_ttl=True)

    def _expire(self, topic: str, name: str | None, seconds: int, *, is_ttl: bool = False) -> None:
        limit_ms = self._clock.now_s * 1000 - seconds * 1000
        moves_readers = name is None and (
            self._variant.ttl_expires_messages_of_readers if is_ttl else self._variant.expiry_of_all_moves_readers
        )
        if moves_readers:
            self._readers.expired(topic, limit_ms)
        for key, one in list(self._subscriptions.items()):
            if key[0] != topic or name not in (None, key[1]) or not (one.durable or moves_readers):
                continue
            older = [at for at in one.left() if one.log.published_ms[at] < limit_ms]
            if self._variant.expires_younger and older:
                older = one.left()[: len(older) + 1]
            if self._variant.expires_one_at_a_time:
                older = older[:1]
            if older:
                one.acknowledge_through(older[-1])
                self._released(key)
