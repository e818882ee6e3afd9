"""Reads back what a topic has stored: its log, and the cursor of its deduplication snapshot."""

from __future__ import annotations

import time
from typing import Final

from msgspec.structs import replace

from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_stored, stored_positions
from conformance.clients.admin.types import CursorStats
from conformance.clients.wire import read_log as logs
from conformance.lockstep.answers import LateForStats
from conformance.lockstep.capabilities import LONGEST_S
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S
from conformance.lockstep.world import World
from conformance.wait import wait_until
from model.events import Skipped, SnapshotRead
from model.log import Position
from model.payloads import business_id_of
from model.vocabulary import ChunkNumber, Entry, Message, SnapshotSchedule

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


class Snapshots:
    """Reads the deduplication snapshots of an example's topics."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._schedules: dict[str, SnapshotSchedule] = {}

    def created(self, topic: str, of_broker: SnapshotSchedule, *, is_timed: bool) -> None:
        """A topic was created, with the broker's timer or without one."""
        self._schedules[topic] = of_broker if is_timed else replace(of_broker, period_s=None)

    def due(self, topic: str) -> SnapshotSchedule | None:
        """When a topic's snapshots are due; None if nobody asks."""
        return self._schedules.get(topic)

    def read(self, topic: str, *, due: bool) -> SnapshotRead | Skipped:
        """The snapshot as it is stored, with ``due`` after one that is due had time to be taken."""
        schedule = self._schedules.get(topic) if due else None
        if schedule is not None and (schedule.period_s or 0.0) > LONGEST_S:
            return Skipped("the timer of snapshots comes too seldom")
        begun = time.monotonic()
        last = None if schedule is None else last_stored(self._admin.internal_stats(topic))
        if schedule is not None and last is not None:
            self._await_due(topic, schedule, last)
        cursor = settled_cursor(self._admin, topic)
        if cursor is None:
            return Skipped("there is no snapshot cursor")
        waited_s = 0.0 if last is None else time.monotonic() - begun
        return SnapshotRead(Position.parse(cursor.mark_delete_position), cursor.properties, last, waited_s)

    def _await_due(self, topic: str, schedule: SnapshotSchedule, last: Position) -> None:
        """Wait until nothing is due any more, or has been for too long; then until no snapshot is under way.

        By the timer the snapshot has the end of the log as its position. Otherwise one is due when there are enough
        entries after the last one.
        """

        def is_there() -> bool:
            told = self._admin.internal_stats(topic)
            cursor = told.cursors.get(DEDUPLICATION_CURSOR)
            if cursor is None:
                return True
            position = Position.parse(cursor.mark_delete_position)
            if schedule.period_s is not None:
                return position >= last
            return sum(position < stored <= last for stored in stored_positions(told)) < schedule.entries

        wait_until(is_there, (schedule.period_s or 0.0) + SNAPSHOT_TIMEOUT_S)
        looks: list[str] = []

        def is_quiet() -> bool:
            cursor = self._admin.internal_stats(topic).cursors.get(DEDUPLICATION_CURSOR)
            looks.append("" if cursor is None else cursor.mark_delete_position)
            return len(looks) > QUIET_LOOKS and len(set(looks[-QUIET_LOOKS:])) == 1

        wait_until(is_quiet, SETTLE_TIMEOUT_S, pause_s=QUIET_S / QUIET_LOOKS)


def read_whole_log(world: World, topic: str) -> list[logs.LoggedEntry]:
    """The entries of a topic up to its end in the broker's stats: asked as a consumer, some releases fail."""
    last = last_stored(world.admin.internal_stats(topic))
    return [] if last is None else logs.read_log(world.reader, topic, timeout_s=ANSWER_TIMEOUT_S, last=last)


def entry_of(logged: logs.LoggedEntry) -> Entry:
    """The entry that was sent, by what is stored of it."""
    said = logged.metadata
    chunk = ChunkNumber(said.chunk_id, said.num_chunks_from_msg, said.uuid) if said.HasField("chunk_id") else None
    return Entry(
        tuple(
            Message(
                sequence_id,
                business_id_of(payload),
                key,
                None if ordering_key is None else ordering_key.decode(errors="replace"),
                chunk=chunk,
            )
            for (sequence_id, payload), (key, ordering_key) in zip(logged.messages, logged.keys, strict=True)
        )
    )
