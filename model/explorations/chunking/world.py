"""The world in which chunking is explored: producers with their sources, a log, and one ordered consumer.

Everything happens in steps: a producer sends a chunk and gets the answer, the consumer reads an entry, the application
acknowledges a message. In between a producer may lose its connection or crash, the topic may be reloaded, and the
consumer may crash, seek, nack messages or expire a buffer. Sizes are small: an entry has room for ten bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from model.chunking import assembly, deduplication
from model.chunking.assembly import BufferEffect, Buffers, Whole
from model.chunking.chunks import Chunk, room, split
from model.chunking.deduplication import ChunkJudgement, Memory
from model.chunking.variants import DOCUMENT, ChunksVariant

LIMIT_BYTES, METADATA_BYTES = 12, 2
ROOM_BYTES = room(limit_bytes=LIMIT_BYTES, metadata_bytes=METADATA_BYTES)


class Setup(Struct, frozen=True, kw_only=True):
    """A small configuration: the sources (payload sizes of each producer, in bytes), and how often steps happen.

    ``cuts``: a producer reconnects and sends again from some chunk on. ``deaths``: it crashes, then sends again from
    its source, continues with its next message, or never returns. ``new_uuids``: resent messages have other uuids.
    ``unloads``: the topic is reloaded. ``limit``, ``acks_discarded``: as in :class:`Buffers`. ``expiries``,
    ``crashes``, ``seeks``, ``backs``: how often the consumer expires the oldest buffer, crashes, seeks, and requests
    redelivery of everything. ``ordered``: CHUNK-05 is checked although there is a limit.
    """

    sources: tuple[tuple[str, tuple[int, ...]], ...]
    deduplication: bool = False
    cuts: int = 0
    deaths: int = 0
    restart: Literal["from its source", "with its next message", "never"] = "from its source"
    new_uuids: bool = False
    unloads: int = 0
    limit: int = 0
    acks_discarded: bool = False
    expiries: int = 0
    crashes: int = 0
    seeks: int = 0
    backs: int = 0
    ordered: bool = False
    variant: ChunksVariant = DOCUMENT

    def chunks_of(self, producer: str, life: int) -> tuple[Chunk, ...]:
        """All chunks that a producer sends, in order; ``life``: how often it was restarted."""
        sizes = dict(self.sources)[producer]
        again = "'" * life if self.new_uuids or self.variant.uuid_of_each_connection else ""
        limit = LIMIT_BYTES if self.variant.metadata_not_counted else ROOM_BYTES
        chunks = tuple(
            chunk
            for number, size in enumerate(sizes, start=1)
            for chunk in split(
                uuid=f"{producer}{number}{again}", sequence_id=number, payload_bytes=size, room_bytes=limit
            )
        )
        return tuple(sorted(chunks, key=lambda one: one.chunk_id)) if self.variant.two_at_once else chunks


class SplittingProducer(Struct, frozen=True, cache_hash=True, gc=False):
    """A producer: its next chunk, its confirmed messages, how often it was restarted, and whether it is gone."""

    name: str
    next_chunk: int = 0
    confirmed: frozenset[int] = frozenset()
    life: int = 0
    is_gone: bool = False


class ChunkEntry(Struct, frozen=True, cache_hash=True, gc=False):
    """An entry of the log: its producer and its chunk."""

    producer: str
    chunk: Chunk

    @property
    def message(self) -> tuple[str, int]:
        """The message of the source, by producer and number."""
        return self.producer, self.chunk.sequence_id


class AssemblingConsumer(Struct, frozen=True, cache_hash=True, gc=False):
    """The consumer: its read position, its buffers, and its unacknowledged messages."""

    read: int = 0
    buffers: Buffers = Buffers()
    unacknowledged: frozenset[Whole] = frozenset()
    waiting: tuple[Whole, ...] = ()


class World(Struct, frozen=True, cache_hash=True, gc=False):
    """A state. ``done`` are messages that were acknowledged, ``lost`` those that may be lost, ``again`` those that may
    be delivered again.
    """

    producers: tuple[SplittingProducer, ...]
    log: tuple[ChunkEntry, ...] = ()
    memory: Memory = ()
    consumer: AssemblingConsumer = AssemblingConsumer()
    acknowledged: frozenset[int] = frozenset()
    done: frozenset[tuple[str, int]] = frozenset()
    lost: frozenset[tuple[str, int]] = frozenset()
    again: frozenset[tuple[str, int]] = frozenset()
    cuts: int = 0
    deaths: int = 0
    unloads: int = 0
    expiries: int = 0
    crashes: int = 0
    seeks: int = 0
    backs: int = 0

    @property
    def first_unacknowledged(self) -> int:
        """The first entry for a consumer that receives everything again."""
        return next((n for n in range(len(self.log)) if n not in self.acknowledged), len(self.log))


class Step(Struct, frozen=True, gc=False):
    """A step: its kind, its description, and the message that was delivered or acknowledged, if any."""

    kind: str
    words: str
    whole: Whole | None = None

    def __str__(self) -> str:
        return self.words


Next = Iterator[tuple[Step, World]]
"""The possible next steps, each with the world after it."""


def kinds(setup: Setup) -> frozenset[str]:
    """The kinds of steps that can happen in this configuration."""
    split_at_all = any(size > ROOM_BYTES for _, sizes in setup.sources for size in sizes)
    conditional = {
        "duplicate": setup.deduplication and (setup.cuts or (setup.deaths and setup.restart == "from its source")),
        "reconnects": setup.cuts,
        "dies": setup.deaths,
        "unloads": setup.unloads,
        "keeps": split_at_all,
        "expires": setup.expiries,
        "crashes": setup.crashes,
        "seeks": setup.seeks,
        "requests redelivery": setup.backs or (setup.limit and not setup.acks_discarded),
    }
    return frozenset({"stored", "delivers", "acknowledges", *(kind for kind, has in conditional.items() if has)})


def initial(setup: Setup) -> World:
    """No chunk is sent yet."""
    return World(
        tuple(SplittingProducer(name) for name, _ in setup.sources),
        consumer=AssemblingConsumer(buffers=Buffers(setup.limit, setup.acks_discarded)),
        cuts=setup.cuts,
        deaths=setup.deaths,
        unloads=setup.unloads,
        expiries=setup.expiries,
        crashes=setup.crashes,
        seeks=setup.seeks,
        backs=setup.backs,
    )


def steps(setup: Setup, world: World) -> Next:
    """Every possible next step."""
    for producer in world.producers:
        if not producer.is_gone:
            yield from sends(setup, world, producer)
            yield from returns(setup, world, producer)
    yield from reads(setup, world)
    yield from acknowledges(setup, world)
    yield from harness_errors(setup, world)


def sends(setup: Setup, world: World, producer: SplittingProducer) -> Next:
    """A producer sends its next chunk, which is stored or not, and confirmed."""
    chunks = setup.chunks_of(producer.name, producer.life)
    if producer.next_chunk == len(chunks):
        return
    chunk = chunks[producer.next_chunk]
    judgement = ChunkJudgement.STORED
    if setup.deduplication:
        judgement = deduplication.judge(
            deduplication.known_of(world.memory, producer.name), chunk, variant=setup.variant
        )
    after = replace(producer, next_chunk=producer.next_chunk + 1)
    if chunk.is_last and judgement is not ChunkJudgement.REFUSED:
        after = replace(after, confirmed=after.confirmed | {chunk.sequence_id})
    sent = _with(world, after)
    sentence = f"{producer.name} sends {chunk_in_words(producer.name, chunk)}"
    if judgement is ChunkJudgement.STORED:
        log = (*world.log, ChunkEntry(producer.name, chunk))
        memory = deduplication.remember(world.memory, producer.name, chunk) if setup.deduplication else ()
        yield Step("stored", f"{sentence}: entry {len(world.log)}"), replace(sent, log=log, memory=memory)
    elif judgement is ChunkJudgement.DUPLICATE:
        yield Step("duplicate", f"{sentence}: {judgement.value}"), sent
    else:
        yield Step("refused", f"{sentence}: {judgement.value}"), sent


def returns(setup: Setup, world: World, producer: SplittingProducer) -> Next:
    """A producer reconnects and sends its last chunks again, or crashes, and is restarted or not."""
    chunks = setup.chunks_of(producer.name, producer.life)
    is_under_way = producer.next_chunk < len(chunks) and chunks[producer.next_chunk].chunk_id > 0
    if world.cuts and producer.next_chunk:
        skips = 1 if setup.variant.chunk_skipped and is_under_way else 0
        new_life = producer.life + setup.variant.uuid_of_each_connection
        for at in (producer.next_chunk - 1, producer.next_chunk):
            again = min(at + 2 * skips, len(chunks))
            after = replace(producer, next_chunk=again, life=new_life)
            words = f"{producer.name} reconnects, and continues with its chunk {again + 1}"
            yield Step("reconnects", words), replace(_with(world, after), cuts=world.cuts - 1)
    if not world.deaths or not producer.next_chunk:
        return
    for step, after in _deaths(setup, producer, chunks):
        yield step, replace(_with(world, after), deaths=world.deaths - 1)


def _deaths(
    setup: Setup, producer: SplittingProducer, chunks: tuple[Chunk, ...]
) -> Iterator[tuple[Step, SplittingProducer]]:
    starts = [at for at, chunk in enumerate(chunks) if chunk.chunk_id == 0] + [len(chunks)]
    match setup.restart:
        case "from its source":
            for start in (one for one in starts[:-1] if one <= producer.next_chunk):
                words = f"{producer.name} crashes, and continues with message {chunks[start].sequence_id} of its source"
                yield Step("dies", words), replace(producer, next_chunk=start, life=producer.life + 1)
        case "with its next message":
            start = next(one for one in starts if one >= producer.next_chunk)
            words = f"{producer.name} crashes, and continues with its next message"
            yield Step("dies", words), replace(producer, next_chunk=start, life=producer.life + 1)
        case "never":
            yield Step("dies", f"{producer.name} dies"), replace(producer, is_gone=True)


def reads(setup: Setup, world: World) -> Next:
    """The consumer is sent the next entry that is not acknowledged."""
    consumer = world.consumer
    skipped = frozenset[int]() if setup.variant.acknowledged_delivered else world.acknowledged
    position = next((n for n in range(consumer.read, len(world.log)) if n not in skipped), None)
    if position is None:
        return
    entry = world.log[position]
    sentence = f"the consumer gets entry {position}, {chunk_in_words(entry.producer, entry.chunk)}"
    if not entry.chunk.is_split:
        whole = Whole(f"{entry.producer}{entry.chunk.sequence_id}", (position,))
        yield _delivers(setup, world, replace(consumer, read=position + 1), whole, sentence)
        return
    buffers, came = assembly.arrive(consumer.buffers, entry.chunk, position, variant=setup.variant)
    after = replace(consumer, read=position + 1, buffers=buffers)
    if came.whole is not None:
        yield _delivers(setup, world, after, came.whole, sentence)
        return
    out = "".join(f", and {buffer.uuid} is discarded" for buffer in came.crowded_out)
    lost = world.lost | {world.log[p].message for p in came.acknowledged}
    acknowledged = world.acknowledged | set(came.acknowledged)
    kind = (
        "keeps"
        if came.effect in (BufferEffect.OPEN, BufferEffect.APPEND)
        else came.effect.name.lower().replace("_", " ")
    )
    yield (
        Step(kind, f"{sentence}: {came.effect.value}{out}"),
        replace(world, consumer=after, lost=lost, acknowledged=acknowledged),
    )


def _delivers(
    setup: Setup, world: World, consumer: AssemblingConsumer, whole: Whole, sentence: str
) -> tuple[Step, World]:
    """A complete message is delivered. In a variant it waits for incomplete ones."""
    if setup.variant.waits_for_unfinished and consumer.buffers.kept:
        waits = replace(consumer, waiting=(*consumer.waiting, whole))
        return Step("waits", f"{sentence}: it is complete, and waits"), replace(world, consumer=waits)
    others = {one for one in consumer.unacknowledged if one.positions != whole.positions}
    unacknowledged = frozenset({*others, *consumer.waiting, whole})
    after = replace(world, consumer=replace(consumer, unacknowledged=unacknowledged, waiting=()))
    return Step("delivers", f"{sentence}: the message is complete, and is delivered", whole), after


def acknowledges(setup: Setup, world: World) -> Next:
    """The application acknowledges a message."""
    consumer = world.consumer
    for whole in sorted(consumer.unacknowledged, key=lambda one: one.positions):
        entries = frozenset(assembly.acknowledged_with(whole, variant=setup.variant))
        acknowledged = world.acknowledged | entries
        message = world.log[whole.positions[-1]].message
        after = replace(
            consumer,
            unacknowledged=consumer.unacknowledged - {whole},
            buffers=assembly.forget(consumer.buffers, acknowledged),
        )
        words = f"message {message_in_words(message)} is acknowledged, with {_entries_in_words(entries)}"
        yield (
            Step("acknowledges", words, whole),
            replace(world, consumer=after, acknowledged=acknowledged, done=world.done | {message}),
        )


def harness_errors(setup: Setup, world: World) -> Next:
    """Further steps of the topic and of the consumer."""
    consumer = world.consumer
    if world.unloads:
        log = ((entry.producer, entry.chunk) for entry in world.log)
        memory = deduplication.recovered(log, variant=setup.variant) if setup.deduplication else ()
        yield Step("unloads", "the topic is reloaded"), replace(world, memory=memory, unloads=world.unloads - 1)
    if world.expiries and consumer.buffers.kept:
        buffers, entries = assembly.expire(consumer.buffers)
        words = f"the consumer expires {consumer.buffers.kept[0].uuid}, and acknowledges {_entries_in_words(entries)}"
        after = replace(
            world,
            consumer=replace(consumer, buffers=buffers),
            acknowledged=world.acknowledged | set(entries),
            lost=world.lost | {world.log[p].message for p in entries},
            expiries=world.expiries - 1,
        )
        yield Step("expires", words), after
    if world.crashes and world.log:
        words = "the consumer crashes, and another one subscribes"
        yield Step("crashes", words), replace(_afresh(setup, world), crashes=world.crashes - 1)
    if consumer.buffers.awaiting_redelivery or (world.backs and consumer.unacknowledged):
        yield from _asks_again(setup, world)
    if world.seeks:
        yield from _seeks(setup, world)


def _asks_again(setup: Setup, world: World) -> Next:
    """All unacknowledged entries are redelivered, from the oldest on, and assembled again."""
    consumer = world.consumer
    kept = consumer.buffers.kept if setup.variant.buffers_survive_resubscribe else ()
    buffers = replace(consumer.buffers, kept=kept, awaiting_redelivery=frozenset())
    after = replace(
        world,
        consumer=replace(consumer, read=world.first_unacknowledged, buffers=buffers),
        again=world.again | {world.log[whole.positions[-1]].message for whole in consumer.unacknowledged},
        backs=world.backs - (0 if consumer.buffers.awaiting_redelivery else 1),
    )
    yield Step("requests redelivery", "the consumer requests redelivery of everything unacknowledged"), after


def _seeks(setup: Setup, world: World) -> Next:
    """The subscription is set to an entry: all before it is acknowledged, nothing from it on."""
    for position in range(1, len(world.log)):
        behind = {entry.message for entry in world.log[position:]}
        after = replace(
            _afresh(setup, world),
            acknowledged=frozenset(range(position)),
            lost=world.lost | {entry.message for entry in world.log[:position]},
            again=world.again | behind,
            seeks=world.seeks - 1,
        )
        after = replace(after, consumer=replace(after.consumer, read=position))
        yield Step("seeks", f"the subscription is set to entry {position}"), after


def _afresh(setup: Setup, world: World) -> World:
    """With a new consumer, which receives all unacknowledged entries."""
    first = 0 if setup.variant.acknowledged_delivered else world.first_unacknowledged
    consumer = AssemblingConsumer(read=first, buffers=Buffers(setup.limit, setup.acks_discarded))
    unacknowledged = {world.log[whole.positions[-1]].message for whole in world.consumer.unacknowledged}
    return replace(world, consumer=consumer, again=world.again | unacknowledged)


def _with(world: World, producer: SplittingProducer) -> World:
    others = (producer if one.name == producer.name else one for one in world.producers)
    return replace(world, producers=tuple(others))


def message_in_words(message: tuple[str, int]) -> str:
    """A message in words: its producer and its number there."""
    return f"{message[0]}{message[1]}"


def chunk_in_words(producer: str, chunk: Chunk) -> str:
    """A chunk in words."""
    if not chunk.is_split:
        return f"{producer}{chunk.sequence_id}"
    return f"chunk {chunk.chunk_id + 1} of {chunk.chunks} of {chunk.uuid}"


def _entries_in_words(entries: frozenset[int] | tuple[int, ...]) -> str:
    named = [str(entry) for entry in sorted(entries)]
    return f"entry {named[0]}" if len(named) == 1 else f"entries {', '.join(named[:-1])} and {named[-1]}"
