"""Reads a topic back over REST, entry by entry, with the markers that consumers do not receive.

An entry takes a millisecond or two; without markers, :mod:`conformance.clients.wire.read_log` is faster.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import InternalStats, RestEntry
from model.log import Position


def stored_positions(stats: InternalStats) -> Iterator[Position]:
    """The positions of a topic's entries, in order, according to its stats, without trimmed ones."""
    last = Position.parse(stats.last_confirmed_entry)
    for ledger in stats.ledgers:
        is_open = ledger.ledger_id == last.ledger  # of which the metadata store says that it is empty
        count = last.entry + 1 if is_open else ledger.entries
        if ledger.ledger_id <= last.ledger:
            yield from (Position(ledger.ledger_id, entry) for entry in range(count))


def last_stored(stats: InternalStats) -> Position | None:
    """The last entry of a topic; None if there is none.

    The current ledger may be new and empty, and older ones may be trimmed.
    """
    confirmed = Position.parse(stats.last_confirmed_entry)
    for ledger in reversed(stats.ledgers):
        entries = confirmed.entry + 1 if ledger.ledger_id == confirmed.ledger else ledger.entries
        if entries and ledger.ledger_id <= confirmed.ledger:
            return Position(ledger.ledger_id, entries - 1)
    return None


def last_message(admin: Admin, topic: str, stats: InternalStats) -> Position | None:
    """The last entry of a topic that is no marker; None if there is none. Raises AdminError."""
    backwards = reversed(list(stored_positions(stats)))
    return next((position for position in backwards if admin.read_entry(topic, position).marker_type is None), None)


def stored_entries(admin: Admin, topic: str) -> Iterator[RestEntry]:
    """The entries of a topic, in order, up to its last one when the reading begins.

    Raises :class:`~conformance.clients.admin.http.AdminError`, ``ConnectionLost``, ``NoAnswer``.
    """
    return (admin.read_entry(topic, position) for position in stored_positions(admin.internal_stats(topic)))
