"""Chunks on Shared subscriptions: the deviations by which chunks block a dispatcher.

In all other respects a chunk is judged like any entry. A dispatcher sends all chunks of a message to one consumer
(:mod:`model.chunking.assignment`). Chunks that it cannot send it rereads before any new message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from model.excuses.chunking import (
    CHUNK_ASSIGNED_BEYOND_PERMITS,
    CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER,
)
from model.excuses.service import CHUNK_WITHOUT_PERMITS_BLOCKS_OTHERS
from model.excuses.ways import explained
from model.judgement import Allowed, Broken
from model.log import Position
from model.subscriptions.consumers import Message
from model.subscriptions.state import Consumption
from model.vocabulary import ChunkNumber, SubscriptionId

WAITS: Final = "waits"
"""A consumer is sent nothing because all that is left are chunks for another consumer."""


def sent(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> Consumption:
    chunk = state.log(subscription.topic).chunks.get(message[1].position)
    if chunk is None or state.consumers[name].kind != "Shared":
        return state
    return state.with_assignment(subscription, state.assignment(subscription).sent(name, chunk))


def excused(
    state: Consumption, name: str, broken: Broken, known: frozenset[str], in_time: Collection[Position]
) -> Allowed[Consumption] | Broken:
    """A consumer lacks a message that seems due: it is not due, a deviation explains it, or a rule is broken.

    ``in_time``: the entries after which it surely had permits left.
    """
    each = [reasons(state, subscription, [name], in_time) for subscription in state.consumers[name].subscriptions]
    if all(one == [WAITS] for one in each):
        return Allowed(state)
    return explained(broken, (reason for one in each for reason in one if reason != WAITS), state, known)


def reasons(
    state: Consumption, subscription: SubscriptionId, starved: Collection[str], in_time: Collection[Position] = ()
) -> list[str]:
    """Why these consumers may be sent nothing: names of deviations, or ``WAITS``."""
    if not any(consumer.kind == "Shared" for _, consumer in state.consumers_of(subscription)):
        return []
    cursor = state.cursors[subscription]
    free = state.unassigned(subscription, cursor.possible)
    return list(_reasons(state, subscription, starved, in_time, free))


def _reasons(
    state: Consumption,
    subscription: SubscriptionId,
    starved: Collection[str],
    in_time: Collection[Position],
    free: Mapping[Position, ChunkNumber | None],
) -> Iterator[str]:
    here, assignment = dict(state.consumers_of(subscription)), state.assignment(subscription)
    chunks = [chunk for chunk in free.values() if chunk is not None]
    is_stuck = assignment.is_stuck(chunks) or assignment.may_be_stuck(chunks)
    if is_stuck:
        yield CHUNK_ASSIGNMENT_OUTLIVES_CONSUMER
    # The harness learns what was dispatched when a consumer receives it. So another consumer may have a first chunk.
    others = [name for name in here if name not in starved or len(starved) > 1]
    may_have_begun = any(not here[name].is_settled for name in others)

    def waits(chunk: ChunkNumber | None) -> bool:
        """Whether a chunk is for another consumer, which may have no permits."""
        holder = None if chunk is None else assignment.holder(chunk.uuid)
        return holder in others or (holder is None and chunk is not None and chunk.chunk_id > 0 and may_have_begun)

    if any(map(waits, chunks)):
        if not all(map(waits, free.values())):
            yield CHUNK_WITHOUT_PERMITS_BLOCKS_OTHERS
        elif not is_stuck:
            yield WAITS
        return
    left = Counter(chunk.uuid for chunk in chunks)
    log = state.log(subscription.topic).chunks
    within_permits = {log[position].uuid for position in in_time if position in log}
    is_last_one_lost = any(
        one.is_last and left[one.uuid] == 1 and assignment.holder(one.uuid) and one.uuid not in within_permits
        for one in chunks
    )
    if is_last_one_lost and len(here) > 1:
        yield CHUNK_ASSIGNED_BEYOND_PERMITS


def counted_at_nobody(state: Consumption, subscription: SubscriptionId) -> int:
    """How many messages the broker may count as unacknowledged at a consumer that left: chunks that it sent there."""
    return state.assignment(subscription).sent_to_leaver(state.unassigned_chunks(subscription))
