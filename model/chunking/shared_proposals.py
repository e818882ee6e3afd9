"""Shared subscriptions in the two proposals of document 002: by the uuid (option 1), and with markers (option 2).

A subscription is a value, and the caller chooses among eligible consumers.

**Option 1**: all chunks of a message are sent to the consumer at which chunks of it are pending. The replay queue has
no order, as in the document. ``sorted_replay`` is the order that it calls difficult and expensive.

**Option 2**: a producer publishes a marker with the positions of the chunks once all are stored. The dispatcher skips
chunks when it reads them. It sends the chunks in order and then the marker, all to one consumer, which acknowledges
them in one command. Chunks without a marker, of a crashed producer, are never sent or acknowledged.

No release implements either option as written here. The documentation of chunking describes the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from model.chunking import assembly
from model.chunking.assembly import Buffers, Whole
from model.chunking.chunks import Chunk
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.rules.catalogue import carries


class Marker(Struct, frozen=True, cache_hash=True, gc=False):
    """A marker: its message, and the positions of the chunks."""

    uuid: str
    positions: tuple[int, ...]


Item = Chunk | Marker
"""An entry of the log."""


class SharedConsumer(Struct, frozen=True, cache_hash=True, gc=False):
    """A consumer: its pending entries, its buffers, and the unacknowledged messages of its application.

    ``stitched``: complete messages that wait for their marker.
    """

    name: str
    pending: frozenset[int] = frozenset()
    buffers: Buffers = Buffers()
    stitched: frozenset[Whole] = frozenset()
    unacknowledged: frozenset[Whole] = frozenset()


class MarkerDispatch(Struct, frozen=True, gc=False):
    """A marker that is being sent: its position, its consumer, and the chunks that are left to send before it."""

    marker: int
    consumer: str
    left: tuple[int, ...]


class SharedSubscription(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One shared subscription."""

    markers: bool
    sorted_replay: bool = False
    variant: ChunksVariant = DOCUMENT
    log: tuple[Item, ...] = ()
    read: int = 0
    acknowledged: frozenset[int] = frozenset()
    replay: frozenset[int] = frozenset()
    members: tuple[SharedConsumer, ...] = ()
    sending: MarkerDispatch | None = None

    def member(self, name: str) -> SharedConsumer:
        return next(member for member in self.members if member.name == name)

    def pending_of(self, uuid: str, member: SharedConsumer) -> frozenset[int]:
        return frozenset(position for position in member.pending if self.log[position].uuid == uuid)


def candidates(shared: SharedSubscription) -> tuple[int, ...]:
    """The entries that may be sent next: the replay queue, in any order or in the log's, then the next new entry."""
    if shared.sending is not None:
        return ()
    if shared.replay:
        return tuple(sorted(shared.replay))[: 1 if shared.sorted_replay else None]
    position = next((n for n in range(shared.read, len(shared.log)) if n not in shared.acknowledged), None)
    return () if position is None else (position,)


@carries("CHUNK-12")
def is_skipped(shared: SharedSubscription, position: int) -> bool:
    """Whether it is a chunk that is sent only with its marker (CHUNK-12)."""
    return shared.markers and isinstance(shared.log[position], Chunk) and not shared.variant.chunks_not_skipped


@carries("CHUNK-11")
def receivers(shared: SharedSubscription, position: int) -> tuple[str, ...]:
    """The eligible consumers: by option 1 the one with pending chunks of the message, otherwise all (CHUNK-11)."""
    uuid = shared.log[position].uuid
    if not shared.markers and not shared.variant.mapping_not_kept:
        for member in shared.members:
            if shared.pending_of(uuid, member):
                return (member.name,)
    return tuple(member.name for member in shared.members)


def skip(shared: SharedSubscription, position: int) -> SharedSubscription:
    """An entry is read or replayed, and not sent."""
    return replace(shared, read=max(shared.read, position + 1), replay=shared.replay - {position})


@carries("CHUNK-11", "CHUNK-12")
def send(shared: SharedSubscription, position: int, name: str) -> tuple[SharedSubscription, Whole | None]:
    """Sends an entry to a consumer; a marker begins with its chunks. Returns the message that the entry completes.

    By option 1 the message is delivered then, by option 2 with its marker.
    """
    after, item = skip(shared, position), shared.log[position]
    if isinstance(item, Marker):
        return replace(after, sending=MarkerDispatch(position, name, _to_send(shared, item))), None
    return _give(after, position, item, name)


def _to_send(shared: SharedSubscription, marker: Marker) -> tuple[int, ...]:
    """The chunks that are sent with a marker: all, even acknowledged ones."""
    if shared.variant.chunks_acknowledged_first:
        return tuple(position for position in marker.positions if position not in shared.acknowledged)
    return marker.positions


@carries("CHUNK-12")
def send_on(shared: SharedSubscription) -> tuple[SharedSubscription, Whole | None]:
    """Sends the next chunk of the marker that is being sent, or finally the marker, which completes the message.

    ValueError if no marker is being sent.
    """
    sending = shared.sending
    if sending is None:
        raise ValueError("no marker is being sent")
    if sending.left:
        position, item = sending.left[0], shared.log[sending.left[0]]
        assert isinstance(item, Chunk)
        after = replace(shared, sending=replace(sending, left=sending.left[1:]))
        return _give(after, position, item, sending.consumer)
    member = shared.member(sending.consumer)
    uuid = shared.log[sending.marker].uuid
    whole = next((one for one in member.stitched if one.uuid == uuid), None)
    member = replace(member, pending=member.pending | {sending.marker})
    if whole is not None:
        whole = replace(whole, repeated=(sending.marker,))
        stitched = frozenset(one for one in member.stitched if one.uuid != uuid)
        member = replace(member, stitched=stitched, unacknowledged=member.unacknowledged | {whole})
    return _with(replace(shared, sending=None), member), whole


def _give(
    shared: SharedSubscription, position: int, chunk: Chunk, name: str
) -> tuple[SharedSubscription, Whole | None]:
    member = shared.member(name)
    buffers, came = assembly.arrive(member.buffers, chunk, position, variant=shared.variant)
    member = replace(member, pending=member.pending | {position}, buffers=buffers)
    if came.whole is None:
        return _with(shared, member), None
    if shared.markers:
        return _with(shared, replace(member, stitched=member.stitched | {came.whole})), None
    return _with(shared, replace(member, unacknowledged=member.unacknowledged | {came.whole})), came.whole


@carries("CHUNK-12")
def acknowledge(shared: SharedSubscription, name: str, whole: Whole) -> SharedSubscription:
    """The application acknowledges a message: chunks and marker together, or in a variant some of them first."""
    member = shared.member(name)
    entries, left = frozenset(whole.entries), frozenset[Whole]()
    first = whole.positions if shared.variant.chunks_acknowledged_first else whole.repeated
    is_in_parts = shared.variant.chunks_acknowledged_first or shared.variant.marker_acknowledged_first
    if is_in_parts and first and not shared.acknowledged.intersection(entries):
        entries, left = frozenset(first), frozenset({whole})
    member = replace(member, pending=member.pending - entries, unacknowledged=member.unacknowledged - {whole} | left)
    return _with(replace(shared, acknowledged=shared.acknowledged | entries), member)


def request_redelivery(shared: SharedSubscription, name: str, positions: Iterable[int]) -> SharedSubscription:
    """A consumer requests redelivery of entries, to any eligible consumer."""
    member, entries = shared.member(name), frozenset(positions)
    unacknowledged = frozenset(whole for whole in member.unacknowledged if entries.isdisjoint(whole.entries))
    buffers = replace(member.buffers, awaiting_redelivery=member.buffers.awaiting_redelivery - entries)
    after = replace(member, pending=member.pending - entries, unacknowledged=unacknowledged, buffers=buffers)
    return _with(replace(shared, replay=shared.replay | entries), after)


def leave(shared: SharedSubscription, name: str) -> SharedSubscription:
    """A consumer crashes: its pending entries enter the replay queue."""
    sending = None if shared.sending and shared.sending.consumer == name else shared.sending
    begun = {shared.sending.marker} if shared.sending and sending is None else set()
    return replace(
        shared,
        members=tuple(member for member in shared.members if member.name != name),
        replay=shared.replay | (shared.member(name).pending - shared.acknowledged) | begun,
        sending=sending,
    )


def restart(shared: SharedSubscription) -> SharedSubscription:
    """The broker crashes: its consumers reconnect, and unacknowledged entries are read again."""
    members = tuple(SharedConsumer(member.name) for member in shared.members)
    return replace(shared, members=members, replay=frozenset(), read=0, sending=None)


def _with(shared: SharedSubscription, member: SharedConsumer) -> SharedSubscription:
    members = (member if one.name == member.name else one for one in shared.members)
    return replace(shared, members=tuple(members))
