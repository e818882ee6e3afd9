"""Performs expiry by time, each request by a function that is found by the type of the operation.

The broker reports neither the beginning nor the end of an expiry. So a request ends when no subscription has an older
message left, by the publish times in the entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import singledispatchmethod
from http import HTTPStatus
from typing import Final

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.http import namespace_of
from conformance.lockstep.cursors.admin import WORK_TIMEOUT_S, CursorAdmin, surely
from conformance.lockstep.cursors.key_shared import KeyShares
from conformance.lockstep.cursors.members import Members
from conformance.lockstep.cursors.persistence import PersistedStates
from conformance.lockstep.world import World
from conformance.wait import wait_until
from model.events import AnyOutcome, Refused, Skipped
from model.expiry_operations import ExpireOlder, ExpiryRequest, OlderExpired, SetTtl, TtlSet
from model.log import Position

_CONFLICT: Final = str(int(HTTPStatus.CONFLICT))
"""The status of an expiry that the broker does not begin, in one subscription or another: it is busy with another one,
or there is nothing to do."""
LONGEST_PERIOD_S: Final = 90.0
"""The longest period of the broker's check for a request to wait for the next one."""
AGAIN_S: Final = 2.0
"""How long to wait before a policy is set again, because the broker looks for older messages when it changes."""


class Expiry:
    """Expiry by time of one example; ``topics`` maps a history's names to real ones and grows during the example."""

    def __init__(
        self,
        world: World,
        topics: Mapping[str, str],
        members: Members,
        persisted: PersistedStates,
        keys: KeyShares,
    ) -> None:
        self._world = world
        self._topics = topics
        self._members = members
        self._persisted = persisted
        self._keys = keys
        self._admin = CursorAdmin(world.admin)
        self._times: dict[tuple[str, Position], int] = {}
        self._own: dict[str, int] = {}
        self._namespaces: dict[str, int] = {}

    def perform(self, operation: ExpiryRequest) -> AnyOutcome:
        """Carry out one request and return the outcome."""
        topic = self._topics.get(operation.topic)
        return Skipped("there is no such topic") if topic is None else self._perform(operation, topic)

    @singledispatchmethod
    def _perform(self, operation: ExpiryRequest, topic: str) -> AnyOutcome:
        raise NotImplementedError(type(operation).__name__)

    @_perform.register
    def _(self, operation: SetTtl, topic: str) -> AnyOutcome:
        if operation.scope == "namespace":
            namespace = namespace_of(topic)
            if not self._world.namespaces.is_of_one_topic(namespace):
                return Skipped("the topic shares its namespace")
            request = lambda: self._world.admin.set_namespace_ttl(namespace, operation.seconds)  # noqa: E731
        else:
            request = lambda: self._world.admin.set_topic_ttl(topic, operation.seconds)  # noqa: E731
        subscriptions = self.changing(topic)
        answer = surely(request)
        if isinstance(answer, Refused):
            return answer
        seconds = self._in_force(topic, operation)
        if seconds is None:
            return TtlSet()
        asked_ms = _now_ms()
        left = self._await(topic, subscriptions, seconds, asked_ms, request)
        is_over = not left or self._period_s <= LONGEST_PERIOD_S
        self._uncounted(topic, subscriptions)
        return TtlSet(is_over=is_over, not_expired=left)

    @_perform.register
    def _(self, operation: ExpireOlder, topic: str) -> AnyOutcome:
        subscriptions = [one for one in self.changing(topic) if operation.subscription in (None, one)]
        if operation.subscription is not None and not subscriptions:
            return Skipped("there is no such subscription")
        asked_ms = _now_ms()
        answer = surely(lambda: self._ask(operation, topic))
        while isinstance(answer, Refused) and answer.code == _CONFLICT:
            left = self._not_expired(topic, subscriptions, operation.seconds, asked_ms)
            if not left or _now_ms() > asked_ms + 1000 * WORK_TIMEOUT_S:
                break
            answer = surely(lambda: self._ask(operation, topic))
        if isinstance(answer, Refused) and answer.code != _CONFLICT:
            return answer
        left = self._await(topic, subscriptions, operation.seconds, asked_ms, None)
        self._uncounted(topic, subscriptions)
        return OlderExpired(left)

    def _ask(self, operation: ExpireOlder, topic: str) -> None:
        if operation.subscription is None:
            self._world.admin.expire_all(topic, older_than_s=operation.seconds)
        else:
            self._world.admin.expire(topic, operation.subscription, older_than_s=operation.seconds)

    # ----------------------------------------------------------------------------------------------------- its effect

    def changing(self, topic: str) -> list[str]:
        """The subscriptions of a topic, which are about to change."""
        stats = self._world.admin.internal_stats(topic)
        durable = self._world.admin.stats(topic).subscriptions
        names = [name for name in stats.cursors if name in durable and durable[name].durable]
        for name in names:
            self._persisted.changing(topic, name)
            self._keys.administered(topic, name)
        return names

    def await_eviction(self, topic: str, period_s: float) -> dict[str, int]:
        """Wait until a quota on the backlog left at most one entry of each subscription; how many others have more."""
        left: dict[str, int] = {}

        def is_done() -> bool:
            nonlocal left
            stats = self._world.admin.internal_stats(topic)
            has = {name: len(unacknowledged(stats, name)) for name in names if name in stats.cursors}
            left = {name: number for name, number in has.items() if number > 1}
            return not left

        names = self.changing(topic)
        wait_until(is_done, period_s + WORK_TIMEOUT_S)
        self._uncounted(topic, names)
        return left

    def _in_force(self, topic: str, operation: SetTtl) -> int | None:
        """The TTL that is in force once this operation has taken effect."""
        of = self._own if operation.scope == "topic" else self._namespaces
        if operation.seconds is None:
            of.pop(topic, None)
        else:
            of[topic] = operation.seconds
        return self._own.get(topic, self._namespaces.get(topic))

    def _await(
        self,
        topic: str,
        subscriptions: Iterable[str],
        seconds: int,
        asked_ms: int,
        again: Callable[[], object] | None,
    ) -> dict[str, int]:
        """Wait until nothing older is left; how many older entries each subscription has in the end.

        ``again``: what to repeat, because brokers look when a policy changes, unless they are looking then. Else they
        look once a period.
        """
        names, left = list(subscriptions), dict[str, int]()

        def is_done() -> bool:
            nonlocal left
            left = self._not_expired(topic, names, seconds, asked_ms)
            return not left

        if wait_until(is_done, AGAIN_S):
            return {}
        if again is not None:
            surely(again)
        timeout_s = WORK_TIMEOUT_S
        if again is not None and self._period_s <= LONGEST_PERIOD_S:
            timeout_s += self._period_s
        wait_until(is_done, timeout_s)
        return left

    def _not_expired(self, topic: str, names: Iterable[str], seconds: int, asked_ms: int) -> dict[str, int]:
        """How many entries that are older each subscription has, before the first that is not."""
        stats = self._world.admin.internal_stats(topic)
        found: dict[str, int] = {}
        for name in names:
            for position in sorted(unacknowledged(stats, name)) if name in stats.cursors else ():
                if self._published_ms(topic, position) + 1000 * seconds >= asked_ms:
                    break
                found[name] = found.get(name, 0) + 1
        return found

    def _published_ms(self, topic: str, position: Position) -> int:
        if (topic, position) not in self._times:
            published_ms = self._admin.publish_time_ms(topic, position)
            if isinstance(published_ms, Refused):  # it may have been deleted
                return _now_ms()
            self._times[topic, position] = published_ms
        return self._times[topic, position]

    def _uncounted(self, topic: str, subscriptions: Iterable[str]) -> None:
        for name in subscriptions:
            self._members.poller(topic, name).await_uncounted()

    @property
    def _period_s(self) -> float:
        return self._world.traits.expiry_period_s


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
