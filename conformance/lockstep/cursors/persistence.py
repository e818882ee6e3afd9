"""Concludes from the stats whether a cursor's state has been persisted.

The broker does not show whether a cursor is dirty, nor the content of the cursor's ledger, but only its number of
entries. A write from before a change may land after it. So a change is persisted in either case:

(a) The ledger grows after all earlier writes must have landed.
(b) The ledger has grown since before the change, and the cursor was clean then, or the bound has passed.

If every ack is written, the only wait is for the write itself, which takes milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import CursorStats
from model.events import NotPersisted, Persisted, Skipped

LANDED_S: Final = 0.25
"""The longest write to a cursor's ledger; 1 to 5 ms were measured, and up to 60 with a new ledger."""
SLACK_S: Final = 3.0
"""The tolerance on the time of persisting, for a broker on a busy machine."""
LONGEST_S: Final = 30.0
"""The longest wait for a state to be persisted; with the shipped settings it takes over a minute."""
_LOOK_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class _Before:
    """A cursor before an operation that may change it."""

    at_s: float
    content: tuple[str, str]
    entries: int
    was_clean: bool


class PersistedStates:
    """Tracks the persisting of an example's cursors."""

    def __init__(self, admin: Admin, *, flush_interval_s: float) -> None:
        self._admin = admin
        self._flush_interval_s = flush_interval_s
        self._persisted_per_s: dict[str, float] = {}
        self._last: dict[tuple[str, str], _Before] = {}
        self._effective: dict[tuple[str, str], _Before] = {}

    def set_limit(self, topic: str, persisted_per_s: float) -> None:
        """Set how often per second the cursors of a topic may be persisted; without a limit, with every change."""
        self._persisted_per_s[topic] = persisted_per_s

    def limit(self, topic: str) -> float | None:
        """How often per second the cursors of a topic may be persisted, as far as that was set."""
        return self._persisted_per_s.get(topic)

    def bound_s(self, topic: str) -> float:
        """How long a cursor may stay dirty: until the first flush that the rate limiter allows."""
        rate = self._persisted_per_s.get(topic)
        return self._flush_interval_s + (1 / rate if rate else 0.0) + SLACK_S

    def changing(self, topic: str, subscription: str) -> None:
        """Note a cursor before an operation that may change it; requests stats only if there is a limit."""
        if topic in self._persisted_per_s and (cursor := self._cursor(topic, subscription)) is not None:
            self._note(topic, subscription, cursor)

    def all_changing(self, topic: str) -> None:
        """The same for all cursors of a topic."""
        for subscription in self._admin.internal_stats(topic).cursors if topic in self._persisted_per_s else ():
            self.changing(topic, subscription)

    def _note(self, topic: str, subscription: str, cursor: CursorStats) -> _Before | None:
        """Note the cursor, and return it as it was before the last operation that changed it."""
        place, now_s = (topic, subscription), time.monotonic()
        before = self._last.get(place)
        if before is not None and before.content != _content(cursor):
            self._effective[place] = before
        was_clean = before is None or now_s - before.at_s > self.bound_s(topic)
        self._last[place] = _Before(now_s, _content(cursor), cursor.written, was_clean)
        return self._effective.get(place)

    def reloaded(self, topic: str | None = None) -> None:
        """A topic, or every topic, was reloaded: its cursors are as persisted, and have new ledgers."""
        for known in (self._last, self._effective):
            for place in [place for place in known if topic in (None, place[0])]:
                del known[place]

    def deleted(self, topics: Collection[str], subscription: str) -> None:
        """A subscription was deleted. One that is created again under its name has a cursor and a ledger of its own."""
        for known in (self._last, self._effective):
            for topic in topics:
                known.pop((topic, subscription), None)

    def wait(self, topic: str, subscription: str) -> Persisted | NotPersisted | Skipped:
        """Wait until the last change of a cursor is persisted, or the bound has passed."""
        cursor = self._cursor(topic, subscription)
        if cursor is None:
            return Skipped("there is no such subscription")
        if topic not in self._persisted_per_s:
            return self._wait_for_standstill(topic, subscription)
        if self.bound_s(topic) > LONGEST_S:
            return Skipped(f"this broker may leave a cursor dirty for {self.bound_s(topic) - SLACK_S:g} s")
        change = self._note(topic, subscription, cursor)
        if change is None:
            return Persisted(0.0, cursor.written)
        outcome = self._wait_for_growth(topic, subscription, change)
        if isinstance(outcome, Persisted):
            del self._last[topic, subscription], self._effective[topic, subscription]
        return outcome

    def _wait_for_standstill(self, topic: str, subscription: str) -> Persisted | NotPersisted:
        began_s = since_s = time.monotonic()
        before: CursorStats | None = None
        while (now_s := time.monotonic()) - began_s < self.bound_s(topic):
            cursor = self._cursor(topic, subscription)
            if cursor is None or cursor != before or cursor.state == "SwitchingLedger":
                before, since_s = cursor, now_s
            elif now_s - since_s >= LANDED_S or cursor.state == "NoLedger":
                return Persisted(_ms(since_s - began_s), cursor.written)
            time.sleep(_LOOK_S)
        return NotPersisted(_ms(time.monotonic() - began_s))

    def _wait_for_growth(self, topic: str, subscription: str, change: _Before) -> Persisted | NotPersisted:
        grown_at_s: float | None = None
        landed: int | None = None
        began_s = time.monotonic()
        while True:
            cursor = self._cursor(topic, subscription)
            now_s = time.monotonic()
            entries = cursor.written if cursor is not None else 0
            after_s = now_s - change.at_s
            if entries > change.entries and grown_at_s is None:
                grown_at_s = now_s
            has_landed = after_s >= LANDED_S and cursor is not None and cursor.state != "SwitchingLedger"
            if landed is not None and entries > landed:
                return Persisted(_ms(after_s), entries)
            if has_landed and grown_at_s is not None and (change.was_clean or after_s >= self.bound_s(topic)):
                return Persisted(_ms(grown_at_s - change.at_s), entries)
            if now_s - began_s >= self.bound_s(topic):  # before its first look, a machine that is too busy may be late
                return NotPersisted(_ms(after_s))
            if has_landed and landed is None:
                landed = entries
            time.sleep(_LOOK_S)

    def _cursor(self, topic: str, subscription: str) -> CursorStats | None:
        return self._admin.internal_stats(topic).cursors.get(subscription)


def _content(cursor: CursorStats) -> tuple[str, str]:
    return cursor.mark_delete_position, cursor.individually_deleted_messages


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
