"""Reads topics back into a history: their logs, and how far their subscriptions are.

It settles what a run left unknown, and is done when nobody sends or acknowledges any more. Everything is taken from the
broker's own word, past any proxy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from conformance.clients.admin.client import Admin
from conformance.clients.admin.stored_log import last_stored, stored_positions
from conformance.clients.admin.types import InternalStats
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.read_log import LoggedEntry, each_entry
from conformance.history.recorded import Kind, digest
from conformance.history.recording import Recording, now_ns
from model.log import Position

_DEDUPLICATION = {"Enabled": True, "Disabled": False}
"""What a topic's stats say of deduplication; anything else is on its way to one of them."""

SAME_NAMES: Mapping[str, str] = MappingProxyType({})
"""For histories that call clusters as these call themselves."""

READ_TIMEOUT_S = 600.0
"""How long one topic's log may take to read."""


def read_beginning(recording: Recording, admin: Admin, topic: str) -> int | None:
    """Record how a topic is set up and where its subscriptions are, before anything is sent or acknowledged.

    Returns its first ledger, by which :func:`read_back` can tell whether the log is still whole. A subscription that
    has acknowledged messages behind its mark-delete is left out: nobody can say which were given to it. Raises what the
    admin interface does.
    """
    invoked_ns = now_ns()
    stats = admin.stats(topic)
    is_deduplicated = _DEDUPLICATION.get(stats.deduplication_status or "")
    is_replicated = bool(stats.replication)
    recording.record(
        Kind.TOPIC, topic=topic, deduplication=is_deduplicated, replicated=is_replicated, invoked_ns=invoked_ns
    )
    internal = admin.internal_stats(topic)
    cursors = internal.cursors
    for name, told in stats.subscriptions.items():
        cursor = cursors.get(name)
        if told.durable and cursor is not None and not cursor.acknowledged_ranges:
            begins = Position.parse(cursor.mark_delete_position)
            who: dict[str, Any] = {"subscription": name, "replicated": told.replicated}
            recording.record(Kind.BEGIN, topic=topic, invoked_ns=invoked_ns, **who, **_place(begins))
    return first_ledger_of(internal)


def read_passed_on(recording: Recording, admin: Admin, topic: str) -> bool:
    """Record up to where a cluster has passed a topic on to all others, where its replicators have nothing left.

    Returns whether that is so. Logs of other clusters that are read after that must have all of it. Raises what the
    admin interface does.
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
    recording: Recording,
    client: WireClient,
    admin: Admin,
    topic: str,
    *,
    first_ledger: int | None,
    labels: Mapping[str, str] = SAME_NAMES,
) -> int:
    """Record a topic's log, its cursors, and up to where its subscriptions have nothing left; returns the messages.

    ``first_ledger``: the topic's when the run began, None for not known. Where it is gone, because all subscriptions
    had acknowledged what was in it and nothing retains it, the log is not said to have been read whole. All that
    consumers of the topic do must be in the run's history, or what others were given is missing in it. ``labels``: what
    the history calls clusters, by their own names. Raises what the admin interface and the wire client do.
    """
    begun_ns = now_ns()
    told = admin.internal_stats(topic)
    last = last_stored(told)
    if last is not None and admin.stats(topic).replication:
        last = _last_message(admin, topic, told)
    messages, is_whole = 0, False
    if last is not None:
        for entry in each_entry(client, topic, timeout_s=READ_TIMEOUT_S, last=last):
            for event in _logged(entry, labels):
                recording.record(Kind.LOG, topic=topic, invoked_ns=begun_ns, **event)
                messages += 1
        is_whole = first_ledger is not None and first_ledger_of(admin.internal_stats(topic)) == first_ledger
    if last is not None and is_whole:
        recording.record(Kind.LOG_END, topic=topic, invoked_ns=begun_ns, **_place(last))
    for subscription, mark_delete in read_cursors(recording, admin, topic):
        recording.record(
            Kind.DRAINED, topic=topic, subscription=subscription, invoked_ns=now_ns(), **_place(mark_delete)
        )
    return messages


def read_cursors(recording: Recording, admin: Admin, topic: str) -> Iterator[tuple[str, Position]]:
    """Record the mark-delete of each durable subscription of a topic, and give it."""
    durable = {name for name, told in admin.stats(topic).subscriptions.items() if told.durable}
    invoked_ns = now_ns()
    cursors = admin.internal_stats(topic).cursors
    completed_ns = now_ns()
    for subscription in sorted(durable & cursors.keys()):
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


def _last_message(admin: Admin, topic: str, told: InternalStats) -> Position | None:
    """The last entry that is a message: behind it there may be markers of clusters, which no reader is given."""
    backwards = reversed(list(stored_positions(told)))
    return next((position for position in backwards if admin.read_entry(topic, position).marker_type is None), None)


def first_ledger_of(told: InternalStats) -> int | None:
    """The first ledger that a topic still has."""
    return told.ledgers[0].ledger_id if told.ledgers else None


def _logged(entry: LoggedEntry, labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
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
            "key": ordering_key.decode() if ordering_key else key,
            "digest": digest(payload),
            "size_bytes": len(payload),
        }


def _place(position: Position) -> dict[str, int]:
    return {"ledger": position.ledger, "entry": position.entry}
