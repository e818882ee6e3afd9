"""Reads back what a topic has stored: its log, and the cursor of its deduplication snapshot."""

from __future__ import annotations

import time
from typing import Final

from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_stored, stored_positions
from conformance.clients.admin.types import CursorStats
from conformance.clients.wire import read_log as logs
from conformance.lockstep.answers import LateForStats
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S
from conformance.lockstep.world import World
from conformance.wait import wait_until
from model.events import SnapshotRead
from model.log import Position
from model.vocabulary import Entry, Message, SnapshotSchedule

DEDUPLICATION_CURSOR: Final = "pulsar.dedup"
SNAPSHOT_TIMEOUT_S: Final = 10.0
"""How long after it is due a snapshot may be taken; far beyond anything that was seen."""
QUIET_S: Final = 0.1
QUIET_LOOKS: Final = 5
"""So long, and so many looks at it, a cursor does not change when no snapshot is under way."""
SETTLE_TIMEOUT_S: Final = 10.0
"""How long a cursor's ledger may take to be there; far beyond anything that was seen."""


def settled_cursor(admin: Admin, topic: str) -> CursorStats | None:
    """The cursor of the deduplication snapshot as it is stored. Raises :class:`LateForStats`.

    While a snapshot is being written, the broker shows the new position with the old properties, so it is read
    until it is twice the same and no write of it is waiting for the cursor's ledger.
    """
    looks: list[CursorStats | None] = [None]

    def is_settled() -> bool:
        looks.append(admin.internal_stats(topic).cursors.get(DEDUPLICATION_CURSOR))
        before, cursor = looks[-2:]
        return cursor is None or (cursor == before and cursor.state != "SwitchingLedger")

    if not wait_until(is_settled, SETTLE_TIMEOUT_S, pause_s=0.0):
        raise LateForStats("the cursor of the deduplication snapshot does not settle")
    return looks[-1]


def snapshot_when_due(admin: Admin, topic: str, schedule: SnapshotSchedule) -> SnapshotRead | None:
    """The snapshot after one that is due had time to be taken; None where there is no cursor for it.

    By the timer it has the end of the log as its position. Otherwise one is due when there are enough entries after
    the last one; and then, or if none is due, it is read when it has not changed for a moment.
    """
    begun = time.monotonic()
    last = last_stored(admin.internal_stats(topic))

    def is_there() -> bool:
        told = admin.internal_stats(topic)
        cursor = told.cursors.get(DEDUPLICATION_CURSOR)
        if cursor is None or last is None:
            return True
        position = Position.parse(cursor.mark_delete_position)
        if schedule.period_s is not None:
            return position >= last
        return sum(position < stored <= last for stored in stored_positions(told)) < schedule.entries

    wait_until(is_there, (schedule.period_s or 0.0) + SNAPSHOT_TIMEOUT_S)
    looks: list[str] = []

    def is_quiet() -> bool:
        cursor = admin.internal_stats(topic).cursors.get(DEDUPLICATION_CURSOR)
        looks.append("" if cursor is None else cursor.mark_delete_position)
        return len(looks) > QUIET_LOOKS and len(set(looks[-QUIET_LOOKS:])) == 1

    wait_until(is_quiet, SETTLE_TIMEOUT_S, pause_s=QUIET_S / QUIET_LOOKS)
    cursor = settled_cursor(admin, topic)
    if cursor is None:
        return None
    position = Position.parse(cursor.mark_delete_position)
    return SnapshotRead(position, cursor.properties, last, time.monotonic() - begun)


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
