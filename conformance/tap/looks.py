"""Reads topics through the admin API for the tap, beside the traffic, in a thread of its own.

A look is requested when a producer or consumer is connected. Topics that cannot be read yet are tried again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.http import AdminError
from conformance.clients.admin.stored_log import last_stored, stored_positions
from conformance.clients.admin.types import DEDUPLICATION_CURSOR, InternalStats, SubscriptionStats, TopicStats
from conformance.clients.outcomes import ConnectionLost, NoAnswer
from conformance.clients.security.service import Service
from conformance.history.lane_recorder import now_ns
from conformance.tap.handles import FailedLook, SubscriptionLook, TopicLook
from conformance.topic_reader import first_ledger_of
from model.log import Position

UNANSWERED: Final = (AdminError, ConnectionLost, NoAnswer)
TIMES: Final = 3
"""How often a topic that cannot be read is tried."""
AGAIN_AFTER_S: Final = 0.2


def look_at(admin: Admin, topic: str, *, carries: Callable[[str | None], bool]) -> TopicLook:
    """Read a topic now; ``carries``: whether a consumer's address is one of the tap's. Raises as the admin API."""
    invoked_ns = now_ns()
    stats, internal = admin.stats(topic), admin.internal_stats(topic)
    dedup = internal.cursors.get(DEDUPLICATION_CURSOR)
    return TopicLook(
        topic=topic,
        invoked_ns=invoked_ns,
        completed_ns=now_ns(),
        is_deduplicated=stats.is_deduplicated,
        is_replicated=bool(stats.replication),
        first_ledger=first_ledger_of(internal),
        first=None if last_stored(internal) is None else next(stored_positions(internal), None),
        producers=frozenset() if dedup is None else frozenset(dedup.properties),
        subscriptions=_subscriptions(stats, internal, carries),
    )


def _subscriptions(
    stats: TopicStats, internal: InternalStats, carries: Callable[[str | None], bool]
) -> dict[str, SubscriptionLook]:
    return {
        name: SubscriptionLook(
            mark_delete=Position.parse(internal.cursors[name].mark_delete_position),
            is_replicated=one.replicated,
            has_ranges=bool(internal.cursors[name].acknowledged_ranges),
            expired=one.total_expired,
            strangers=_strangers(one, carries),
        )
        for name, one in stats.subscriptions.items()
        if one.durable and name in internal.cursors
    }


def _strangers(subscription: SubscriptionStats, carries: Callable[[str | None], bool]) -> tuple[str, ...]:
    return tuple(one.address or "an unknown address" for one in subscription.consumers if not carries(one.address))


class Looks(threading.Thread):
    """Looks at the topics that are requested, one after the other, and passes on what it saw."""

    def __init__(
        self,
        admin: Service,
        deliver: Callable[[TopicLook | FailedLook], None],
        *,
        carries: Callable[[str | None], bool],
    ) -> None:
        super().__init__(name="looks", daemon=True)
        self._admin = admin
        self._deliver = deliver
        self._carries = carries
        self._requested: queue.SimpleQueue[str | Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: set[str] = set()
        self._ending = threading.Event()

    def request(self, topic: str) -> None:
        """Have it look at a topic, unless it is about to."""
        if topic not in self._waiting:
            self._waiting.add(topic)
            self._requested.put(topic)

    def do(self, something: Callable[[], None]) -> None:
        """Have it do something after the looks that were requested before."""
        self._requested.put(something)

    def stop(self) -> None:
        """End after the look in progress."""
        self._ending.set()
        self._requested.put(None)
        self.join()

    def run(self) -> None:
        with Admin(self._admin) as admin:
            while (request := self._requested.get()) is not None and not self._ending.is_set():
                if callable(request):
                    request()
                else:
                    self._waiting.discard(request)
                    self._deliver(self._look(admin, request))

    def _look(self, admin: Admin, topic: str) -> TopicLook | FailedLook:
        for _ in range(TIMES):
            try:
                return look_at(admin, topic, carries=self._carries)
            except UNANSWERED:
                self._ending.wait(AGAIN_AFTER_S)
        return FailedLook(topic)
