"""What document 003 asks of the admin interface, on a real broker: cursors that are set, topics that end or shrink.

What the broker answers at once and does in the background is waited for, by its own account of it.
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
    Trimmed,
)
from model.log import EARLIEST, Position
from model.subscription_operations import CreateSubscription, DeleteSubscription, Skip

T = TypeVar("T")

WORK_TIMEOUT_S: Final = 10.0
"""How long the broker may take for what it does in the background, or to let a request through that may pass."""
_NOT_FOUND: Final = str(int(HTTPStatus.NOT_FOUND))
_NO_SUCH_REQUEST: Final = frozenset(str(int(status)) for status in NO_SUCH_REQUEST)
"""What a release answers that does not have an endpoint, for a topic and subscription that are there."""


def surely(request: Callable[[], T]) -> T | Refused:
    """Make a request, again while it fails as for a topic that is being loaded (5xx); or what the broker refused."""
    try:
        return retry(request, WORK_TIMEOUT_S)
    except AdminError as error:
        return Refused(str(error.status), error.reason.strip().splitlines()[0] if error.reason.strip() else "")


"""What a broker is told that is to set a cursor back to the first entry there is."""


class CursorAdmin:
    """The admin's part of an example; topics go by their real names."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def create(self, operation: CreateSubscription, topic: str) -> AnyOutcome:
        """Create a subscription."""
        earliest = operation.start == "earliest"
        return _done(lambda: self._admin.create_subscription(topic, operation.subscription, earliest=earliest))

    def delete(self, operation: DeleteSubscription, topic: str) -> AnyOutcome:
        """Delete a subscription, if nobody is connected to it."""
        return _done(lambda: self._admin.delete_subscription(topic, operation.subscription))

    def skip(self, operation: Skip, topic: str) -> AnyOutcome:
        """Skip some entries."""
        return _done(lambda: self._admin.skip(topic, operation.subscription, operation.count))

    def skip_all(self, topic: str, subscription: str) -> AnyOutcome:
        """Skip all entries."""
        return _done(lambda: self._admin.skip_all(topic, subscription))

    def reset(self, topic: str, subscription: str, to: Position | None) -> AnyOutcome:
        """Set a subscription back to an entry, None: to the beginning."""
        return _done(lambda: self._admin.reset_cursor(topic, subscription, to or EARLIEST))

    def reset_to_time(self, topic: str, subscription: str, publish_time_ms: int) -> AnyOutcome:
        """Set a subscription back to a time."""
        return _done(lambda: self._admin.reset_cursor_to_time(topic, subscription, publish_time_ms))

    def stored(self, topic: str, subscription: str) -> AnyOutcome:
        """What the metadata store has of a subscription."""
        cursor = self._admin.internal_info(topic).cursors.get(subscription)
        if cursor is None:
            return Skipped("the metadata store has no such subscription")
        if cursor.cursors_ledger_id is not None and cursor.cursors_ledger_id >= 0:
            return StoredCursorRead(None)
        if cursor.mark_delete is None:
            return Skipped("the metadata store has no position of this subscription")
        ranges = (Range(one.after.position, one.last.position) for one in cursor.individual_deleted_messages)
        return StoredCursorRead(cursor.mark_delete.position, tuple(ranges))

    def peek(self, topic: str, subscription: str, nth: int) -> AnyOutcome:
        """Read one unacknowledged entry of a subscription."""
        entry = surely(lambda: self._admin.peek(topic, subscription, nth))
        if isinstance(entry, Refused):
            return MessagePeeked(None) if entry.code == _NOT_FOUND else entry
        return MessagePeeked(entry.position)

    def terminate(self, topic: str) -> AnyOutcome:
        """Terminate a topic."""
        return _done(lambda: self._admin.terminate(topic))

    def publish_time_ms(self, topic: str, position: Position) -> int | Refused:
        """When an entry was published, as it says itself."""
        entry = surely(lambda: self._admin.read_entry(topic, position))
        return entry if isinstance(entry, Refused) else entry.publish_time_ms

    def expire(self, topic: str, subscription: str, up_to: Position) -> AnyOutcome:
        """Have everything up to an entry expire, and wait until nothing up to it is left.

        That is the only sign that there is: the broker says neither that it began nor that it is through.
        """
        answer = surely(lambda: self._admin.expire_up_to(topic, subscription, up_to))
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
        """Have a topic trimmed, which the broker answers when it is through, and list its ledgers.

        A release that cannot be asked trims by itself, when mark-delete moves: then what it did so far is listed.
        """
        answer = _done(lambda: self._admin.trim(topic))
        if isinstance(answer, Refused) and answer.code not in _NO_SUCH_REQUEST:
            return answer
        return Trimmed(tuple(ledger.ledger_id for ledger in self._admin.internal_stats(topic).ledgers))


def _done(request: Callable[[], object]) -> Done | Refused:
    answer = surely(request)
    return answer if isinstance(answer, Refused) else Done()
