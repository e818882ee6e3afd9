"""Reads a topic back over REST, entry by entry, with the markers that no consumer sees.

An entry takes a millisecond or two; where markers do not matter, :mod:`conformance.clients.wire.read_log` is quicker.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import InternalStats, RestEntry
from model.log import Position


def stored_positions(stats: InternalStats) -> Iterator[Position]:
    """Give the positions of what a topic has stored, in its order, by its own account; what was trimmed is left out."""
    last = Position.parse(stats.last_confirmed_entry)
    for ledger in stats.ledgers:
        is_open = ledger.ledger_id == last.ledger  # of which the metadata store says that it is empty
        count = last.entry + 1 if is_open else ledger.entries
        if ledger.ledger_id <= last.ledger:
            yield from (Position(ledger.ledger_id, entry) for entry in range(count))


def last_stored(stats: InternalStats) -> Position | None:
    """The last entry that a topic has; None where there is none, or none any more.

    A ledger that was just begun has nothing yet, and one that everybody is through with may be gone.
    """
    confirmed = Position.parse(stats.last_confirmed_entry)
    for ledger in reversed(stats.ledgers):
        entries = confirmed.entry + 1 if ledger.ledger_id == confirmed.ledger else ledger.entries
        if entries and ledger.ledger_id <= confirmed.ledger:
            return Position(ledger.ledger_id, entries - 1)
    return None


def stored_entries(admin: Admin, topic: str) -> Iterator[RestEntry]:
    """Give what a topic has stored, in its order, up to what is its last entry when the reading begins.

    Raises :class:`~conformance.clients.admin.http.AdminError`, ``ConnectionLost``, ``NoAnswer``.
    """
    return (admin.read_entry(topic, position) for position in stored_positions(admin.internal_stats(topic)))
