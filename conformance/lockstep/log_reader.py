"""Reads back a topic's log and the cursor of its deduplication snapshot."""

from __future__ import annotations

import time
from typing import Final

from msgspec.structs import replace

from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_message, last_stored, stored_positions
from conformance.clients.admin.types import DEDUPLICATION_CURSOR, CursorStats
from conformance.clients.wire import read_log as logs
from conformance.clients.wire.client import WireClient
from conformance.lockstep.answers import LateForStats
from conformance.lockstep.capabilities import LONGEST_S
from conformance.lockstep.sessions import ANSWER_TIMEOUT_S
from conformance.wait import wait_until
from model.events import LoggedEntry, Skipped, SnapshotRead
from model.log import Position
from model.payloads import business_id_of
from model.vocabulary import ChunkNumber, Entry, Message, SnapshotSchedule

SNAPSHOT_TIMEOUT_S: Final = 10.0
"""How late a snapshot may be taken; far longer than ever measured."""
QUIET_S: Final = 0.1
QUIET_LOOKS: Final = 5
"""A cursor without changes for so long, and so many reads, has no snapshot in progress."""
SETTLE_TIMEOUT_S: Final = 10.0
"""How long a cursor's ledger may take to be created; far longer than ever measured."""


def settled_cursor(admin: Admin, topic: str) -> CursorStats | None:
    """The cursor of the deduplication snapshot as it is stored. Raises :class:`LateForStats`.

    While a snapshot is being written, the broker shows the new position with the old properties. So it is read until
    two reads agree and no write waits for the cursor's ledger.
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

    def __init__(self, admin: Admin, *, has_markers: bool) -> None:
        self._admin = admin
        self._has_markers = has_markers
        self._schedules: dict[str, SnapshotSchedule] = {}

    def created(self, topic: str, of_broker: SnapshotSchedule, *, is_timed: bool) -> None:
        """Register a topic, with or without the broker's timer."""
        self._schedules[topic] = of_broker if is_timed else replace(of_broker, period_s=None)

    def due(self, topic: str) -> SnapshotSchedule | None:
        """When a topic's snapshots are due; None for a topic that is not registered."""
        return self._schedules.get(topic)

    def read(self, topic: str, *, due: bool) -> SnapshotRead | Skipped:
        """The stored snapshot; with ``due``, after any due snapshot had time to be taken."""
        schedule = self._schedules.get(topic) if due else None
        if schedule is not None and (schedule.period_s or 0.0) > LONGEST_S:
            return Skipped("the timer of snapshots comes too seldom")
        begun = time.monotonic()
        last = None if schedule is None else end_of_log(self._admin, topic, has_markers=self._has_markers)
        if schedule is not None and last is not None:
            self._await_due(topic, schedule, last)
        cursor = settled_cursor(self._admin, topic)
        if cursor is None:
            return Skipped("there is no snapshot cursor")
        waited_s = 0.0 if last is None else time.monotonic() - begun
        return SnapshotRead(Position.parse(cursor.mark_delete_position), cursor.properties, last, waited_s)

    def _await_due(self, topic: str, schedule: SnapshotSchedule, last: Position) -> None:
        """Wait until no snapshot is due or the bound has passed, then until no snapshot is in progress.

        The timer's snapshot is at the end of the log. Without a timer, a snapshot is due once there are enough entries
        after the last one.
        """

        def is_there() -> bool:
            stats = self._admin.internal_stats(topic)
            cursor = stats.cursors.get(DEDUPLICATION_CURSOR)
            if cursor is None:
                return True
            position = Position.parse(cursor.mark_delete_position)
            if schedule.period_s is not None:
                return position >= last
            return sum(position < stored <= last for stored in stored_positions(stats)) < schedule.entries

        wait_until(is_there, (schedule.period_s or 0.0) + SNAPSHOT_TIMEOUT_S)
        looks: list[str] = []

        def is_quiet() -> bool:
            cursor = self._admin.internal_stats(topic).cursors.get(DEDUPLICATION_CURSOR)
            looks.append("" if cursor is None else cursor.mark_delete_position)
            return len(looks) > QUIET_LOOKS and len(set(looks[-QUIET_LOOKS:])) == 1

        wait_until(is_quiet, SETTLE_TIMEOUT_S, pause_s=QUIET_S / QUIET_LOOKS)


def end_of_log(admin: Admin, topic: str, *, has_markers: bool) -> Position | None:
    """The last entry of a log that is no marker; None if there is none."""
    stats = admin.internal_stats(topic)
    return last_message(admin, topic, stats) if has_markers else last_stored(stats)


def read_whole_log(admin: Admin, reader: WireClient, topic: str, *, has_markers: bool) -> tuple[LoggedEntry, ...]:
    """The entries of a topic, up to the end in its stats: some releases fail when a consumer asks for it.

    A reader does not receive markers at the end.
    """
    last = end_of_log(admin, topic, has_markers=has_markers)
    entries = [] if last is None else logs.read_log(reader, topic, timeout_s=ANSWER_TIMEOUT_S, last=last)
    return tuple(LoggedEntry(one.position, one.producer_name, entry_of(one)) for one in entries)


def entry_of(logged: logs.ParsedEntry) -> Entry:
    """The entry as it was sent, from its stored form."""
    metadata = logged.metadata
    delay_ms = metadata.deliver_at_time - metadata.publish_time if metadata.HasField("deliver_at_time") else 0
    chunk = (
        ChunkNumber(metadata.chunk_id, metadata.num_chunks_from_msg, metadata.uuid)
        if metadata.HasField("chunk_id")
        else None
    )
    return Entry(
        tuple(
            Message(
                sequence_id,
                business_id_of(payload),
                key,
                None if ordering_key is None else ordering_key.decode(errors="replace"),
                # Only a payload that is longer than its business id ends with spaces.
                size_bytes=len(payload) if payload.endswith(b" ") and chunk is None else 0,
                chunk=chunk,
                delay_ms=delay_ms,
            )
            for (sequence_id, payload), (key, ordering_key) in zip(logged.messages, logged.keys, strict=True)
        )
    )
