"""The admin requests of document 003 on a real broker: for cursors, and to terminate and trim topics.

If the broker answers before it is done, they wait until its stats show the effect.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, TypeVar

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.client import NO_SUCH_REQUEST, Admin, AdminError
from conformance.wait import retry, wait_until
from model.events import (
    AnyOutcome,
    Done,
    Expired,
    MessagePeeked,
    Range,
    Refused,
    Skipped,
    Starved,
    StoredCursorRead,
    Terminated,
    Trimmed,
)
from model.log import EARLIEST, Position
from model.read_operations import BacklogAnalyzed
from model.subscription_operations import CreateSubscription, DeleteSubscription, Skip

T = TypeVar("T")

WORK_TIMEOUT_S: Final = 10.0
"""How long the broker may take for background work, or may refuse a request for a passing reason."""
_NOT_FOUND: Final = str(int(HTTPStatus.NOT_FOUND))
_NO_SUCH_REQUEST: Final = frozenset(str(int(status)) for status in NO_SUCH_REQUEST)
"""The status of a release that lacks the endpoint, for an existing topic and subscription."""


def surely(request: Callable[[], T]) -> T | Refused:
    """Send a request, again while it fails as for a topic that is being loaded (5xx)."""
    return once(lambda: retry(request, WORK_TIMEOUT_S))


def once(request: Callable[[], T]) -> T | Refused:
    """Send a request a single time."""
    try:
        return request()
    except AdminError as error:
        return Refused(str(error.status), error.reason.strip().splitlines()[0] if error.reason.strip() else "")


def analyzed(admin: Admin, topic: str, subscription: str) -> BacklogAnalyzed:
    """Have the broker count a subscription's backlog."""
    found = admin.analyze_backlog(topic, subscription)
    return BacklogAnalyzed(found.entries, found.messages, found.aborted)


class CursorAdmin:
    """The admin requests of an example; topics by their real names."""

    def __init__(self, admin: Admin, *, is_repeated: bool = True) -> None:
        """``is_repeated``: a request is sent again while it fails as for a topic that is being loaded."""
        self._admin = admin
        self._is_repeated = is_repeated

    def create(self, operation: CreateSubscription, topic: str, at: Position | None = None) -> Done | Refused:
        """Create a subscription, which begins with an entry if there is one."""
        name, earliest = operation.subscription, operation.start == "earliest"
        replicated = operation.is_replicated
        return self._done(
            lambda: self._admin.create_subscription(topic, name, earliest=earliest, at=at, replicated=replicated)
        )

    def delete(self, operation: DeleteSubscription, topic: str) -> Done | Refused:
        """Delete a subscription; without connected consumers, or by force."""
        return self._done(
            lambda: self._admin.delete_subscription(topic, operation.subscription, force=operation.by_force)
        )

    def skip(self, operation: Skip, topic: str) -> Done | Refused:
        return self._done(lambda: self._admin.skip(topic, operation.subscription, operation.count))

    def skip_all(self, topic: str, subscription: str) -> Done | Refused:
        return self._done(lambda: self._admin.skip_all(topic, subscription))

    def reset(self, topic: str, subscription: str, to: Position | None, *, after: bool) -> Done | Refused:
        """Reset a subscription to an entry, None: to the earliest. ``after``: to the next one."""
        return self._done(lambda: self._admin.reset_cursor(topic, subscription, to or EARLIEST, is_excluded=after))

    def reset_to_time(self, topic: str, subscription: str, publish_time_ms: int) -> Done | Refused:
        """Reset a subscription to a publish time."""
        return self._done(lambda: self._admin.reset_cursor_to_time(topic, subscription, publish_time_ms))

    def stored(self, topic: str, subscription: str) -> AnyOutcome:
        """The position info of a subscription in the metadata store."""
        cursor = self._admin.internal_info(topic).cursors.get(subscription)
        if cursor is None:
            return Skipped("the metadata store has no such subscription")
        if cursor.cursors_ledger_id is not None and cursor.cursors_ledger_id >= 0:
            return StoredCursorRead(None)
        if cursor.mark_delete is None:
            return Skipped("the metadata store has no position of this subscription")
        ranges = (Range(one.after.position, one.last.position) for one in cursor.individual_deleted_messages)
        return StoredCursorRead(cursor.mark_delete.position, tuple(ranges))

    def peek(self, topic: str, subscription: str, nth: int) -> MessagePeeked | Refused:
        """Read one unacknowledged entry of a subscription."""
        entry = self._ask(lambda: self._admin.peek(topic, subscription, nth))
        if isinstance(entry, Refused):
            return MessagePeeked(None) if entry.code == _NOT_FOUND else entry
        return MessagePeeked(entry.position)

    def analyze(self, topic: str, subscription: str) -> BacklogAnalyzed | Refused:
        """Have the broker count a subscription's backlog."""
        return self._ask(lambda: analyzed(self._admin, topic, subscription))

    def terminate(self, topic: str) -> AnyOutcome:
        end = self._ask(lambda: self._admin.terminate(topic))
        return end if isinstance(end, Refused) else Terminated(end)

    def publish_time_ms(self, topic: str, position: Position) -> int | Refused:
        """The publish time in an entry's metadata."""
        entry = self._ask(lambda: self._admin.read_entry(topic, position))
        return entry if isinstance(entry, Refused) else entry.publish_time_ms

    def expire(self, topic: str, subscription: str, up_to: Position) -> AnyOutcome:
        """Expire everything up to an entry, and wait until nothing up to it is unacknowledged.

        The broker reports neither the beginning nor the end of an expiry.
        """
        answer = self._ask(lambda: self._admin.expire_up_to(topic, subscription, up_to))
        if isinstance(answer, Refused):
            return answer if answer.code not in _NO_SUCH_REQUEST else Skipped("there is no such subscription")
        if wait_until(lambda: not self._left_up_to(topic, subscription, up_to), WORK_TIMEOUT_S):
            return Expired()
        left = self._left_up_to(topic, subscription, up_to)
        what = "1 entry does" if len(left) == 1 else f"{len(left)} entries do"
        return Starved(f"{what} not expire, up to {up_to}") if left else Expired()

    def _left_up_to(self, topic: str, subscription: str, up_to: Position) -> list[Position]:
        left = unacknowledged(self._admin.internal_stats(topic), subscription)
        return [position for position in left if position <= up_to]

    def trim(self, topic: str) -> AnyOutcome:
        """Trim a topic, which the broker answers when it is done, and list its ledgers.

        A release without this request trims when mark-delete advances; then list the ledgers as they are.
        """
        answer = self._done(lambda: self._admin.trim(topic))
        if isinstance(answer, Refused) and answer.code not in _NO_SUCH_REQUEST:
            return answer
        return self.ledgers(topic)

    def ledgers(self, topic: str) -> Trimmed:
        """The ledgers that a topic has."""
        return Trimmed(tuple(ledger.ledger_id for ledger in self._admin.internal_stats(topic).ledgers))

    def _done(self, request: Callable[[], object]) -> Done | Refused:
        answer = self._ask(request)
        return answer if isinstance(answer, Refused) else Done()

    def _ask(self, request: Callable[[], T]) -> T | Refused:
        return surely(request) if self._is_repeated else once(request)
