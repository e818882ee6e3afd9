"""The world in which the two options of document 002 for shared subscriptions are explored.

Producers send their messages chunk by chunk. By option 2 they send the marker after the last chunk. A producer may
crash in between, and sends the message again under another uuid. Consumers may crash and nack messages, and the broker
may crash at any point. :mod:`model.chunking.shared_proposals` has both options.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from model.chunking import shared_proposals
from model.chunking.assembly import Buffers, Whole
from model.chunking.chunks import Chunk, split
from model.chunking.shared_proposals import Marker, SharedConsumer, SharedSubscription
from model.chunking.variants import DOCUMENT, ChunksVariant


class Setup(Struct, frozen=True, kw_only=True):
    """A small configuration: the option, the number of chunks of each producer's message, and what may happen.

    There are the consumers A and B. ``leaves`` of them may crash, messages are nacked ``backs`` times, producers
    crash ``deaths`` times, and the broker crashes ``crashes`` times.
    """

    markers: bool
    messages: tuple[int, ...] = (2,)
    sorted_replay: bool = False
    leaves: int = 0
    backs: int = 0
    deaths: int = 0
    crashes: int = 0
    variant: ChunksVariant = DOCUMENT

    def chunks_of(self, number: int, life: int) -> tuple[Chunk, ...]:
        """The chunks of a producer's only message."""
        uuid = f"M{number + 1}" + "'" * life
        return split(uuid=uuid, sequence_id=1, payload_bytes=self.messages[number], room_bytes=1)


class SharedTopicProducer(Struct, frozen=True, cache_hash=True, gc=False):
    """A producer: the entries of its chunks, how often it crashed, and whether it has finished."""

    stored: tuple[int, ...] = ()
    life: int = 0
    is_through: bool = False


class World(Struct, frozen=True, cache_hash=True, gc=False):
    """A state of the exploration."""

    shared: SharedSubscription
    producers: tuple[SharedTopicProducer, ...]
    leaves: int
    backs: int
    deaths: int
    crashes: int


class Step(Struct, frozen=True, gc=False):
    """A step: its kind, its description and, if an entry was sent, that entry and its consumer."""

    kind: str
    words: str
    consumer: str = ""
    position: int = -1
    whole: Whole | None = None

    def __str__(self) -> str:
        return self.words


Next = Iterator[tuple[Step, World]]
"""The possible next steps, each with the world after it."""


def kinds(setup: Setup) -> frozenset[str]:
    """The kinds of steps that can happen in this configuration."""
    conditional = {
        "publishes": setup.markers,
        "skips": setup.markers,
        "begins": setup.markers,
        "sends marker": setup.markers,
        "leaves": setup.leaves,
        "nacks": setup.backs,
        "dies": setup.deaths,
        "crashes": setup.crashes,
    }
    return frozenset({"stores", "sends", "acknowledges", *(kind for kind, has in conditional.items() if has)})


def initial(setup: Setup) -> World:
    """No chunk is stored, and both consumers are connected."""
    shared = SharedSubscription(
        markers=setup.markers,
        sorted_replay=setup.sorted_replay,
        variant=setup.variant,
        members=(SharedConsumer("A"), SharedConsumer("B")),
    )
    producers = tuple(SharedTopicProducer() for _ in setup.messages)
    return World(shared, producers, setup.leaves, setup.backs, setup.deaths, setup.crashes)


def steps(setup: Setup, world: World) -> Next:
    """Every possible next step."""
    for number, producer in enumerate(world.producers):
        if not producer.is_through:
            yield from produces(setup, world, number, producer)
    yield from dispatches(world)
    yield from consumers(world)
    if world.crashes:
        after = replace(world, shared=shared_proposals.restart(world.shared), crashes=world.crashes - 1)
        yield Step("crashes", "the broker crashes, and its consumers reconnect"), after


def produces(setup: Setup, world: World, number: int, producer: SharedTopicProducer) -> Next:
    """A producer stores its next chunk or its marker, or crashes and starts again from the first chunk."""
    chunks, stored, log = setup.chunks_of(number, producer.life), producer.stored, world.shared.log
    uuid = chunks[0].uuid
    if len(stored) < len(chunks):
        chunk = chunks[len(stored)]
        is_through = not setup.markers and chunk.is_last
        after = replace(producer, stored=(*stored, len(log)), is_through=is_through)
        words = f"chunk {len(stored) + 1} of {len(chunks)} of {uuid} is stored as entry {len(log)}"
        yield Step("stores", words), _appended(world, number, after, chunk)
    missing = len(chunks) - len(stored)
    if setup.markers and missing == (1 if setup.variant.marker_too_early else 0):
        words = f"the marker of {uuid} is stored as entry {len(log)}"
        after = replace(producer, is_through=True)
        yield Step("publishes", words), _appended(world, number, after, Marker(uuid, stored))
    if world.deaths and stored:
        reborn = _replaced(world, number, SharedTopicProducer(life=producer.life + 1))
        words = f"the producer of {uuid} crashes, and starts again"
        yield Step("dies", words), replace(reborn, deaths=world.deaths - 1)


def dispatches(world: World) -> Next:
    """The broker sends the next possible entry, or continues with the marker that it is sending."""
    shared = world.shared
    if shared.sending is not None:
        left, consumer = shared.sending.left, shared.sending.consumer
        position = left[0] if left else shared.sending.marker
        after, whole = shared_proposals.send_on(shared)
        kind = "sends" if left else "sends marker"
        words = f"{consumer} is sent {in_words(shared, position)}{_whole_in_words(whole)}"
        yield Step(kind, words, consumer, position, whole), replace(world, shared=after)
        return
    for position in shared_proposals.candidates(shared):
        again = " for replay" if position in shared.replay else ""
        if shared_proposals.is_skipped(shared, position):
            words = f"{in_words(shared, position)} is read{again} and skipped"
            yield Step("skips", words, "", position), replace(world, shared=shared_proposals.skip(shared, position))
            continue
        for consumer in shared_proposals.receivers(shared, position):
            after, whole = shared_proposals.send(shared, position, consumer)
            if after.sending is not None:
                words = f"{consumer} is chosen for {in_words(shared, position)}{again}"
                yield Step("begins", words, consumer, position), replace(world, shared=after)
            else:
                words = f"{consumer} is sent {in_words(shared, position)}{again}{_whole_in_words(whole)}"
                yield Step("sends", words, consumer, position, whole), replace(world, shared=after)


def consumers(world: World) -> Next:
    """A consumer acknowledges or nacks a message, requests redelivery of incomplete ones, or crashes."""
    shared = world.shared
    for member in shared.members:
        name = member.name
        for whole in sorted(member.unacknowledged, key=lambda one: one.positions):
            words = f"{name} acknowledges {whole.uuid}"
            after = replace(world, shared=shared_proposals.acknowledge(shared, name, whole))
            yield Step("acknowledges", words, name, whole=whole), after
            if world.backs:
                after = replace(
                    world,
                    shared=shared_proposals.request_redelivery(shared, name, whole.entries),
                    backs=world.backs - 1,
                )
                yield Step("nacks", f"{name} nacks {whole.uuid}", name), after
        if member.buffers.awaiting_redelivery:
            after = replace(world, shared=_all_again(shared, member))
            yield Step("requests redelivery", f"{name} requests redelivery of incomplete messages", name), after
        if world.leaves:
            after = replace(world, shared=shared_proposals.leave(shared, name), leaves=world.leaves - 1)
            yield Step("leaves", f"{name} crashes", name), after


def _all_again(shared: SharedSubscription, member: SharedConsumer) -> SharedSubscription:
    """A consumer requests redelivery of discarded chunks and of buffered chunks of the same messages."""
    uuids = {shared.log[position].uuid for position in member.buffers.awaiting_redelivery}
    entries = {position for uuid in uuids for position in shared.pending_of(uuid, member)}
    kept = tuple(buffer for buffer in member.buffers.kept if buffer.uuid not in uuids)
    asking = replace(member, buffers=Buffers(kept=kept, awaiting_redelivery=member.buffers.awaiting_redelivery))
    members = tuple(asking if one.name == member.name else one for one in shared.members)
    return shared_proposals.request_redelivery(replace(shared, members=members), member.name, entries)


def _appended(world: World, number: int, producer: SharedTopicProducer, item: shared_proposals.Item) -> World:
    shared = replace(world.shared, log=(*world.shared.log, item))
    return replace(_replaced(world, number, producer), shared=shared)


def _replaced(world: World, number: int, producer: SharedTopicProducer) -> World:
    producers = tuple(producer if n == number else one for n, one in enumerate(world.producers))
    return replace(world, producers=producers)


def in_words(shared: SharedSubscription, position: int) -> str:
    """An entry in words."""
    item = shared.log[position]
    if isinstance(item, Marker):
        return f"the marker of {item.uuid}"
    return f"chunk {item.chunk_id + 1} of {item.uuid}"


def _whole_in_words(whole: Whole | None) -> str:
    return "" if whole is None else f", and {whole.uuid} is complete"
