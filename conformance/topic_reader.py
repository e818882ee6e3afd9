"""Reads topics back into a history: their logs and the positions of their subscriptions.

It settles unknown outcomes of a run after the last send and ack. It connects to the broker without a proxy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_stored, stored_positions
from conformance.clients.admin.types import InternalStats
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import ParsedEntry, each_entry
from conformance.digest import digest
from conformance.history.lane_recorder import LaneRecorder, now_ns
from conformance.history.recorded import Kind
from model.log import Position

SAME_NAMES: Mapping[str, str] = MappingProxyType({})
"""For histories that label clusters by their names."""

READ_TIMEOUT_S = 600.0
"""How long reading one topic's log may take."""


def read_beginning(recording: LaneRecorder, admin: Admin, topic: str) -> int | None:
    """Record a topic's settings and the positions of its subscriptions, before anything is sent or acknowledged.

    Returns its first ledger, for :func:`read_back`. It leaves out subscriptions with individually acknowledged
    messages, whose deliveries are unknown. Raises the same as the admin API.
    """
    invoked_ns = now_ns()
    stats = admin.stats(topic)
    is_replicated = bool(stats.replication)
    recording.record(
        Kind.TOPIC, topic=topic, deduplication=stats.is_deduplicated, replicated=is_replicated, invoked_ns=invoked_ns
    )
    internal = admin.internal_stats(topic)
    cursors = internal.cursors
    for name, subscription in stats.subscriptions.items():
        cursor = cursors.get(name)
        if subscription.durable and cursor is not None and not cursor.acknowledged_ranges:
            begins = Position.parse(cursor.mark_delete_position)
            identity: dict[str, Any] = {"subscription": name, "replicated": subscription.replicated}
            recording.record(Kind.BEGIN, topic=topic, invoked_ns=invoked_ns, **identity, **_place(begins))
    return first_ledger_of(internal)


def read_passed_on(recording: LaneRecorder, admin: Admin, topic: str) -> bool:
    """Record the position up to which a cluster has replicated a topic, if its replicators have no backlog.

    Returns whether that is so. Logs of other clusters that are read later must have everything up to it. Raises the
    same as the admin API.
    """
    invoked_ns = now_ns()
    last = last_stored(admin.internal_stats(topic))
    stats = admin.stats(topic)
    if not stats.has_passed_all_on:
        return False
    if stats.replication and last is not None:
        recording.record(Kind.PASSED_ON, topic=topic, invoked_ns=invoked_ns, **_place(last))
    return True


def read_back(
    recording: LaneRecorder,
    client: WireClient,
    admin: Admin,
    topic: str,
    *,
    first_ledger: int | None,
    labels: Mapping[str, str] = SAME_NAMES,
    subscriptions: Collection[str] | None = None,
) -> int:
    """Record a topic's log, its cursors, and the positions up to which its subscriptions are drained.

    Returns the number of messages. ``first_ledger``: the topic's at the beginning of the run, None if unknown. If that
    ledger was trimmed, the log does not count as read whole. The run's history must have all consumers of the topic, or
    it lacks deliveries. ``labels``: the history's labels of clusters by name. ``subscriptions``: only those whose
    consumers it has all; None: every one. Raises the same as the admin API and the
    wire client.
    """
    begun_ns = now_ns()
    stats = admin.internal_stats(topic)
    last = last_stored(stats)
    if last is not None and admin.stats(topic).replication:
        last = _last_message(admin, topic, stats)
    messages, is_whole = 0, False
    if last is not None:
        for entry in each_entry(client, topic, timeout_s=READ_TIMEOUT_S, last=last):
            for event in _logged(entry, labels):
                recording.record(Kind.LOG, topic=topic, invoked_ns=begun_ns, **event)
                messages += 1
        is_whole = first_ledger is not None and first_ledger_of(admin.internal_stats(topic)) == first_ledger
    if last is not None and is_whole:
        recording.record(Kind.LOG_END, topic=topic, invoked_ns=begun_ns, **_place(last))
    for subscription, mark_delete in read_cursors(recording, admin, topic, only=subscriptions):
        recording.record(
            Kind.DRAINED, topic=topic, subscription=subscription, invoked_ns=now_ns(), **_place(mark_delete)
        )
    return messages


def read_cursors(
    recording: LaneRecorder, admin: Admin, topic: str, *, only: Collection[str] | None = None
) -> Iterator[tuple[str, Position]]:
    """Record and yield the mark-delete position of each durable subscription of a topic, or only of these."""
    subscriptions = admin.stats(topic).subscriptions
    durable = {name for name, subscription in subscriptions.items() if subscription.durable}
    invoked_ns = now_ns()
    cursors = admin.internal_stats(topic).cursors
    completed_ns = now_ns()
    for subscription in sorted(durable & cursors.keys() if only is None else durable & cursors.keys() & set(only)):
        mark_delete = Position.parse(cursors[subscription].mark_delete_position)
        recording.record(
            Kind.CURSOR,
            topic=topic,
            subscription=subscription,
            invoked_ns=invoked_ns,
            completed_ns=completed_ns,
            **_place(mark_delete),
        )
        yield subscription, mark_delete


def _last_message(admin: Admin, topic: str, stats: InternalStats) -> Position | None:
    """The last entry that is a message; later entries may be markers, which readers do not receive."""
    backwards = reversed(list(stored_positions(stats)))
    return next((position for position in backwards if admin.read_entry(topic, position).marker_type is None), None)


def first_ledger_of(stats: InternalStats) -> int | None:
    return stats.ledgers[0].ledger_id if stats.ledgers else None


def _logged(entry: ParsedEntry, labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The messages of an entry, or the chunk that it is."""
    metadata = entry.metadata
    is_chunk = metadata.HasField("chunk_id")
    chunk = (
        {"chunk_uuid": metadata.uuid, "chunk_id": metadata.chunk_id, "chunks": metadata.num_chunks_from_msg}
        if is_chunk
        else {}
    )
    is_batch = metadata.HasField("num_messages_in_batch")
    origin = metadata.replicated_from
    for index, ((sequence_id, payload), (key, ordering_key)) in enumerate(zip(entry.messages, entry.keys, strict=True)):
        yield {
            **_place(entry.position),
            **chunk,
            "batch_index": index if is_batch else -1,
            "producer": entry.producer_name,
            "replicated_from": labels.get(origin, origin) if origin else None,
            "sequence_id": sequence_id,
            "key": ordering_key.decode(errors="backslashreplace") if ordering_key else key,
            "digest": digest(payload),
            "size_bytes": len(payload),
        }


def _place(position: Position) -> dict[str, int]:
    return {"ledger": position.ledger, "entry": position.entry}
