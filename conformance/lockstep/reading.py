"""Reads back what a topic has stored: its log, and the cursor of its deduplication snapshot."""

from __future__ import annotations

from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_stored
from conformance.clients.admin.types import CursorStats
from conformance.clients.wire import read_log as logs
from conformance.lockstep.answers import LateForStats
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S
from conformance.lockstep.world import World
from conformance.wait import wait_until
from model.vocabulary import Entry, Message

SETTLE_TIMEOUT_S: Final = 10.0
"""How long a cursor's ledger may take to be there; far beyond anything that was seen."""


def settled_cursor(admin: Admin, topic: str, cursor_name: str) -> CursorStats | None:
    """The cursor of the deduplication snapshot as it is stored. Raises :class:`LateForStats`.

    While a snapshot is being written, the broker shows the new position with the old properties, so it is read
    until it is twice the same and no write of it is waiting for the cursor's ledger.
    """
    looks: list[CursorStats | None] = [None]

    def is_settled() -> bool:
        looks.append(admin.internal_stats(topic).cursors.get(cursor_name))
        before, cursor = looks[-2:]
        return cursor is None or (cursor == before and cursor.state != "SwitchingLedger")

    if not wait_until(is_settled, SETTLE_TIMEOUT_S, pause_s=0.0):
        raise LateForStats("the cursor of the deduplication snapshot does not settle")
    return looks[-1]


def read_whole_log(world: World, topic: str) -> list[logs.LoggedEntry]:
    """The entries of a topic up to its end in the broker's stats: asked as a consumer, some releases fail."""
    last = last_stored(world.admin.internal_stats(topic))
    return [] if last is None else logs.read_log(world.reader, topic, timeout_s=ANSWER_TIMEOUT_S, last=last)


def entry_of(logged: logs.LoggedEntry) -> Entry:
    return Entry(
        tuple(
            Message(sequence_id, _text(payload), key, None if ordering_key is None else _text(ordering_key))
            for (sequence_id, payload), (key, ordering_key) in zip(logged.messages, logged.keys, strict=True)
        )
    )


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
