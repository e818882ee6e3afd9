"""Shared subscriptions, as document 002 proposes them twice: by the uuid (option 1), and with markers (option 2).

A subscription is a value, and who gets what, where anybody may, is the caller's to choose.

**Option 1**: all chunks of a message go to the consumer at which some of it is pending. What is redelivered waits in a
set without an order, as the document says; ``sorted_replay`` is the order that it calls difficult and expensive.

**Option 2**: a producer publishes a marker with the positions of the chunks once they are all stored. Chunks are
skipped where they are read. A marker is sent behind its chunks, one after the other, to one consumer, and acknowledged
together with them, in one command. What a dead producer left without a marker is never sent, nor acknowledged.

No release does either as it is written here: what brokers do is in the documentation of chunking.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from model.chunking import assembly
from model.chunking.assembly import Buffers, Whole
from model.chunking.splitting import Chunk
from model.chunking.variants import DOCUMENT, ChunksVariant
from model.rules.catalogue import carries


class Marker(Struct, frozen=True, cache_hash=True, gc=False):
    """A marker: the message that it is of, and where its chunks are."""

    uuid: str
    positions: tuple[int, ...]


Item = Chunk | Marker
"""An entry of the log."""


class Member(Struct, frozen=True, cache_hash=True, gc=False):
    """A consumer: what was sent to it and is not acknowledged, what it puts together, and what its application has.

    ``stitched`` is whole and waits for its marker.
    """

    name: str
    pending: frozenset[int] = frozenset()
    buffers: Buffers = Buffers()
    stitched: frozenset[Whole] = frozenset()
    held: frozenset[Whole] = frozenset()


class Sending(Struct, frozen=True, gc=False):
    """A marker that is being sent: where it is, to whom, and which of its chunks come before it."""

    marker: int
    consumer: str
    left: tuple[int, ...]


class Shared(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """One shared subscription."""

    markers: bool
    sorted_replay: bool = False
    variant: ChunksVariant = DOCUMENT
    log: tuple[Item, ...] = ()
    read: int = 0
    acknowledged: frozenset[int] = frozenset()
    replay: frozenset[int] = frozenset()
    members: tuple[Member, ...] = ()
    sending: Sending | None = None

    def member(self, name: str) -> Member:
        """The consumer of this name, which is connected."""
        return next(member for member in self.members if member.name == name)

    def pending_of(self, uuid: str, member: Member) -> frozenset[int]:
        """What is pending there of this message."""
        return frozenset(position for position in member.pending if self.log[position].uuid == uuid)


def candidates(shared: Shared) -> tuple[int, ...]:
    """What may be sent next: what waits for replay, in any order or in the log's, and then what was not read yet."""
    if shared.sending is not None:
        return ()
    if shared.replay:
        return tuple(sorted(shared.replay))[: 1 if shared.sorted_replay else None]
    position = next((n for n in range(shared.read, len(shared.log)) if n not in shared.acknowledged), None)
    return () if position is None else (position,)


@carries("CHUNK-12")
def is_skipped(shared: Shared, position: int) -> bool:
    """Whether it is a chunk that comes with its marker only (CHUNK-12)."""
    return shared.markers and isinstance(shared.log[position], Chunk) and not shared.variant.chunks_not_skipped


@carries("CHUNK-11")
def receivers(shared: Shared, position: int) -> tuple[str, ...]:
    """Who may get it: by option 1 whoever some of its message is pending at, else anybody (CHUNK-11)."""
    uuid = shared.log[position].uuid
    if not shared.markers and not shared.variant.mapping_not_kept:
        for member in shared.members:
            if shared.pending_of(uuid, member):
                return (member.name,)
    return tuple(member.name for member in shared.members)


def skip(shared: Shared, position: int) -> Shared:
    """A chunk is read, or was to be replayed, and not sent."""
    return replace(shared, read=max(shared.read, position + 1), replay=shared.replay - {position})


@carries("CHUNK-11", "CHUNK-12")
def send(shared: Shared, position: int, name: str) -> tuple[Shared, Whole | None]:
    """Send an entry to a consumer; a marker begins with its chunks. The answer has the message that is whole with it.

    By option 1 it is delivered then, by option 2 with its marker.
    """
    after, item = skip(shared, position), shared.log[position]
    if isinstance(item, Marker):
        return replace(after, sending=Sending(position, name, _to_send(shared, item))), None
    return _give(after, position, item, name)


def _to_send(shared: Shared, marker: Marker) -> tuple[int, ...]:
    """The chunks that are sent with a marker: all, though they may be acknowledged already."""
    if shared.variant.chunks_acknowledged_first:
        return tuple(position for position in marker.positions if position not in shared.acknowledged)
    return marker.positions


@carries("CHUNK-12")
def send_on(shared: Shared) -> tuple[Shared, Whole | None]:
    """The next chunk of the marker that is being sent, or, behind them all, the marker; with it the message is whole.

    ValueError when no marker is being sent.
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
        whole = replace(whole, laid_by=(sending.marker,))
        stitched = frozenset(one for one in member.stitched if one.uuid != uuid)
        member = replace(member, stitched=stitched, held=member.held | {whole})
    return _with(replace(shared, sending=None), member), whole


def _give(shared: Shared, position: int, chunk: Chunk, name: str) -> tuple[Shared, Whole | None]:
    member = shared.member(name)
    buffers, came = assembly.arrive(member.buffers, chunk, position, variant=shared.variant)
    member = replace(member, pending=member.pending | {position}, buffers=buffers)
    if came.whole is None:
        return _with(shared, member), None
    if shared.markers:
        return _with(shared, replace(member, stitched=member.stitched | {came.whole})), None
    return _with(shared, replace(member, held=member.held | {came.whole})), came.whole


@carries("CHUNK-12")
def acknowledge(shared: Shared, name: str, whole: Whole) -> Shared:
    """The application acknowledges a message: its chunks, and its marker with them; in a variant some of them first."""
    member = shared.member(name)
    entries, left = frozenset(whole.entries), frozenset[Whole]()
    first = whole.positions if shared.variant.chunks_acknowledged_first else whole.laid_by
    is_in_parts = shared.variant.chunks_acknowledged_first or shared.variant.marker_acknowledged_first
    if is_in_parts and first and not shared.acknowledged.intersection(entries):
        entries, left = frozenset(first), frozenset({whole})
    member = replace(member, pending=member.pending - entries, held=member.held - {whole} | left)
    return _with(replace(shared, acknowledged=shared.acknowledged | entries), member)


def give_back(shared: Shared, name: str, positions: Iterable[int]) -> Shared:
    """A consumer has entries delivered again: to whom, is decided anew."""
    member, entries = shared.member(name), frozenset(positions)
    held = frozenset(whole for whole in member.held if entries.isdisjoint(whole.entries))
    buffers = replace(member.buffers, aside=member.buffers.aside - entries)
    after = replace(member, pending=member.pending - entries, held=held, buffers=buffers)
    return _with(replace(shared, replay=shared.replay | entries), after)


def leave(shared: Shared, name: str) -> Shared:
    """A consumer crashes: what is pending there waits for replay."""
    sending = None if shared.sending and shared.sending.consumer == name else shared.sending
    begun = {shared.sending.marker} if shared.sending and sending is None else set()
    return replace(
        shared,
        members=tuple(member for member in shared.members if member.name != name),
        replay=shared.replay | (shared.member(name).pending - shared.acknowledged) | begun,
        sending=sending,
    )


def restart(shared: Shared) -> Shared:
    """The broker crashes: its consumers come back, and everything that is not acknowledged is read again."""
    members = tuple(Member(member.name) for member in shared.members)
    return replace(shared, members=members, replay=frozenset(), read=0, sending=None)


def _with(shared: Shared, member: Member) -> Shared:
    members = (member if one.name == member.name else one for one in shared.members)
    return replace(shared, members=tuple(members))
