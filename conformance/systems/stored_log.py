"""Reads a topic back over REST, entry by entry, with the markers that no consumer sees.

An entry takes a millisecond or two; where markers do not matter, :mod:`conformance.systems.read_log` is quicker.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.systems.admin import Admin
from conformance.systems.admin_types import RestEntry
from model.log import Position


def stored_entries(admin: Admin, topic: str) -> Iterator[RestEntry]:
    """Give what a topic has stored, in its order, up to what is its last entry when the reading begins.

    What was trimmed is left out. Raises :class:`~conformance.systems.admin_http.AdminError`, ``ConnectionLost``,
    ``NoAnswer``.
    """
    told = admin.internal_stats(topic)
    last = Position.parse(told.last_confirmed_entry)
    for ledger in told.ledgers:
        is_open = ledger.ledger_id == last.ledger  # of which the metadata store says that it is empty
        count = last.entry + 1 if is_open else ledger.entries
        for entry_id in range(count):
            yield admin.read_entry(topic, Position(ledger.ledger_id, entry_id))
