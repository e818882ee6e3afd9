"""What must hold of chunking: in every state, and in every step of a kind. Each is one short function.

:func:`wholes` computes the complete messages of a log, as a consumer without limits assembles them.
"""

from __future__ import annotations

from functools import lru_cache

from model.chunking import assembly
from model.chunking.assembly import Buffers, Whole
from model.explorations.chunking.world import ROOM_BYTES, ChunkEntry, Setup, Step, World
from model.explore import Always, EveryStep

Statements = tuple[tuple[Always[World], ...], tuple[EveryStep[World, Step], ...]]

STORED = frozenset({"stored"})
DELIVERS = frozenset({"delivers"})


def statements(setup: Setup) -> Statements:
    """The statements that must hold in this configuration."""
    always, every_step = (
        [CONFIRMED, ALL_OR_NOTHING, FOR_A_REASON, NOTHING_HELD_UP],
        [AS_SPLIT, IN_ITS_ORDER, WHOLE, ALL_OF_IT],
    )
    if not (setup.limit or setup.variant.uuid_of_each_connection):
        always.append(_one_each(setup))
    if setup.ordered or not setup.limit:
        every_step.append(IN_ORDER)
    if setup.limit:
        always.append(WITHIN_LIMIT)
        every_step.append(OLDEST_FIRST)
    if setup.deduplication or not (setup.cuts or setup.deaths):
        every_step.append(ONCE)
    if setup.deduplication:
        always.append(STORED_ONCE)
        every_step.append(NO_CHUNK_TWICE)
    if setup.deduplication and setup.unloads:
        every_step.append(REMEMBERED)
    return tuple(always), tuple(every_step)


@lru_cache(maxsize=100_000)
def wholes(log: tuple[ChunkEntry, ...]) -> tuple[Whole, ...]:
    """The complete messages in a log, in the order of their last chunks."""
    buffers, found = Buffers(), []
    for position, entry in enumerate(log):
        if not entry.chunk.is_split:
            found.append(Whole("", (position,)))
            continue
        buffers, came = assembly.arrive(buffers, entry.chunk, position)
        if came.whole is not None:
            found.append(came.whole)
    return tuple(found)


def message_of(world: World, whole: Whole) -> tuple[str, int]:
    """The message of the source, by producer and number."""
    return world.log[whole.positions[-1]].message


def is_delivered(world: World, whole: Whole) -> bool:
    """Whether the application has received or acknowledged a message of the log, or it may be lost."""
    last = whole.positions[-1]
    unacknowledged = {one.positions[-1] for one in world.consumer.unacknowledged}
    return last in world.acknowledged or last in unacknowledged or message_of(world, whole) in world.lost


def _all_or_nothing(world: World) -> bool:
    return all(
        len(world.acknowledged.intersection(whole.entries)) in (0, len(whole.entries))
        for whole in wholes(world.log)
        if message_of(world, whole) not in world.lost
    )


def _for_a_reason(world: World) -> bool:
    return all(world.log[position].message in world.done | world.lost for position in world.acknowledged)


def _nothing_held_up(world: World) -> bool:
    consumer = world.consumer
    if consumer.read < len(world.log) or consumer.buffers.awaiting_redelivery:
        return True
    return all(is_delivered(world, whole) for whole in wholes(world.log))


def _one_each(setup: Setup) -> Always[World]:
    def holds(world: World) -> bool:
        return len(world.consumer.buffers.kept) <= len(world.producers) + setup.deaths - world.deaths

    return Always(
        ("CHUNK-06",),
        "there are at most as many buffers as producers; a producer that crashed within a message counts once more",
        holds,
    )


def _within_limit(world: World) -> bool:
    return len(world.consumer.buffers.kept) <= world.consumer.buffers.limit


def _stored_once(world: World) -> bool:
    messages = [message_of(world, whole) for whole in wholes(world.log)]
    return len(messages) == len(set(messages))


def _confirmed(world: World) -> bool:
    messages = {message_of(world, whole) for whole in wholes(world.log)}
    return all((one.name, number) in messages for one in world.producers for number in one.confirmed)


def _as_split(_: World, __: Step, after: World) -> bool:
    chunk = after.log[-1].chunk
    size, is_split = chunk.end - chunk.start, chunk.total_bytes > ROOM_BYTES
    return (
        0 < size <= ROOM_BYTES and (chunk.chunks > 1) == is_split == bool(chunk.uuid) and chunk.chunk_id < chunk.chunks
    )


def _in_its_order(before: World, _: Step, after: World) -> bool:
    chunk = after.log[-1].chunk
    return not chunk.chunk_id or any(
        (entry.chunk.uuid, entry.chunk.chunk_id) == (chunk.uuid, chunk.chunk_id - 1) for entry in before.log
    )


def _no_chunk_twice(before: World, _: Step, after: World) -> bool:
    return after.log[-1] not in before.log


def _whole(before: World, step: Step, _: World) -> bool:
    assert step.whole is not None
    chunks = [before.log[position].chunk for position in step.whole.positions]
    one = chunks[0]
    return [(chunk.uuid, chunk.chunk_id) for chunk in chunks] == [(one.uuid, n) for n in range(one.chunks)]


def _once(before: World, step: Step, _: World) -> bool:
    assert step.whole is not None
    message = message_of(before, step.whole)
    unacknowledged = {message_of(before, whole) for whole in before.consumer.unacknowledged}
    return message in before.again or message not in before.done | unacknowledged


def _in_order(before: World, step: Step, _: World) -> bool:
    assert step.whole is not None
    last = step.whole.positions[-1]
    return all(
        is_delivered(before, whole)
        for whole in wholes(before.log)
        if whole.positions[-1] < last and before.log[whole.positions[-1]].producer == before.log[last].producer
    )


def _all_of_it(before: World, step: Step, after: World) -> bool:
    assert step.whole is not None
    return after.acknowledged - before.acknowledged <= set(step.whole.entries) <= after.acknowledged


def _oldest_first(before: World, _: Step, after: World) -> bool:
    left = {buffer.uuid for buffer in after.consumer.buffers.kept}
    gone = [buffer for buffer in before.consumer.buffers.kept if buffer.uuid not in left]
    return gone == list(before.consumer.buffers.kept[: len(gone)])


def _remembered(before: World, _: Step, after: World) -> bool:
    return before.memory == after.memory


ALL_OR_NOTHING = Always(
    ("CHUNK-07",),
    "of a complete message all chunks are acknowledged or none, unless it may be lost",
    _all_or_nothing,
    promise=True,
)
FOR_A_REASON = Always(
    ("CHUNK-07", "CHUNK-08"),
    "exactly the chunks that the application acknowledged are acknowledged, and expired ones if configured",
    _for_a_reason,
)
NOTHING_HELD_UP = Always(
    ("CHUNK-04", "CHUNK-08", "CHUNK-09"),
    "when all entries are read, every complete message is delivered, unless it waits for redelivery",
    _nothing_held_up,
)
WITHIN_LIMIT = Always(("CHUNK-08",), "the number of buffers is within the limit", _within_limit)
STORED_ONCE = Always(
    ("CHUNK-13",), "with deduplication, no message is stored completely twice", _stored_once, promise=True
)
CONFIRMED = Always(("CHUNK-04", "CHUNK-13"), "a confirmed message is complete in the log", _confirmed, promise=True)
AS_SPLIT = EveryStep(
    ("CHUNK-01", "CHUNK-02"),
    "an entry is within the limit; a message that fits is one entry, any other is several chunks, each with the uuid, "
    "its number and their count",
    STORED,
    _as_split,
)
IN_ITS_ORDER = EveryStep(
    ("CHUNK-03",), "a chunk is stored only after the chunk before it of the same uuid", STORED, _in_its_order
)
NO_CHUNK_TWICE = EveryStep(("CHUNK-13",), "with deduplication no chunk is stored twice", STORED, _no_chunk_twice)
WHOLE = EveryStep(
    ("CHUNK-04", "CHUNK-09"),
    "a delivered message has all its chunks, each once and in order",
    DELIVERS,
    _whole,
    promise=True,
)
ONCE = EveryStep(
    ("CHUNK-04", "CHUNK-13"), "a message is delivered once, unless it is redelivered", DELIVERS, _once, promise=True
)
IN_ORDER = EveryStep(
    ("CHUNK-05",),
    "a message is delivered after all earlier complete messages of its producer",
    DELIVERS,
    _in_order,
)
ALL_OF_IT = EveryStep(
    ("CHUNK-07",),
    "a message is acknowledged with all its chunks, and nothing else",
    frozenset({"acknowledges"}),
    _all_of_it,
)
OLDEST_FIRST = EveryStep(
    ("CHUNK-08",), "past the limit the oldest buffer is discarded first", frozenset({"keeps"}), _oldest_first
)
REMEMBERED = EveryStep(("CHUNK-13",), "a reloaded topic recovers the same state", frozenset({"unloads"}), _remembered)
