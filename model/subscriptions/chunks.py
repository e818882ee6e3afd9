"""Chunks on Shared subscriptions: which of them wait for their consumer.

In all other respects a chunk is judged like any entry. A dispatcher sends all chunks of a message to one consumer
(:mod:`model.chunking.assignment`). Chunks that it cannot send it rereads before any new message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model.chunking.assignment import Assignment
from model.judgement import Allowed, Broken
from model.log import Position
from model.subscriptions.consumers import Message
from model.subscriptions.counts import Starving
from model.subscriptions.state import Consumption
from model.vocabulary import ChunkNumber, SubscriptionId


def sent(state: Consumption, subscription: SubscriptionId, name: str, message: Message) -> Consumption:
    chunk = state.log(subscription.topic).chunks.get(message[1].position)
    if chunk is None or state.consumers[name].kind != "Shared":
        return state
    return state.with_assignment(subscription, state.assignment(subscription).sent(name, chunk))


@dataclass(frozen=True, slots=True)
class Free:
    """The ``entries`` of a Shared subscription that are possibly unacknowledged and pending at no consumer, with their
    chunk numbers, where consumers starve. ``others``: the consumers that may have chunks of their messages.
    ``may_have_begun``: one of these may have a first chunk that it has not received yet.
    """

    entries: Mapping[Position, ChunkNumber | None]
    assignment: Assignment
    others: Collection[str]
    may_have_begun: bool

    @property
    def chunks(self) -> list[ChunkNumber]:
        return [chunk for chunk in self.entries.values() if chunk is not None]

    def holder(self, chunk: ChunkNumber) -> str | None:
        """The consumer that is sent the next chunk of a message."""
        return self.assignment.holder(chunk.uuid)

    @property
    def is_stuck(self) -> bool:
        """Whether one of the chunks cannot be assigned, perhaps."""
        return self.assignment.is_stuck(self.chunks) or self.assignment.may_be_stuck(self.chunks)

    def may_wait(self, chunk: ChunkNumber | None) -> bool:
        """Whether a chunk is for another consumer, which may have no permits."""
        holder = None if chunk is None else self.holder(chunk)
        is_begun = holder is None and chunk is not None and chunk.chunk_id > 0 and self.may_have_begun
        return holder in self.others or is_begun

    @property
    def are_waiting(self) -> bool:
        """Whether all entries are chunks for another consumer, so that none is due to those that starve."""
        return bool(self.entries) and all(map(self.may_wait, self.entries.values())) and not self.is_stuck


def of(state: Consumption, subscription: SubscriptionId, starved: Sequence[str]) -> Free:
    here = dict(state.consumers_of(subscription))
    # The harness learns what was dispatched when a consumer receives it. So another consumer may have a first chunk.
    others = [name for name in here if name not in starved or len(starved) > 1]
    may_have_begun = any(not here[name].is_settled for name in others)
    entries = state.unassigned(subscription, state.cursors[subscription].possible)
    return Free(entries, state.assignment(subscription), others, may_have_begun)


def shared(starving: Starving) -> Iterator[SubscriptionId]:
    """The Shared subscriptions of consumers that starve, with chunks."""
    state = starving.state
    every = {one: None for name in starving.consumers for one in state.consumers[name].subscriptions}
    for subscription in every:
        if state.log(subscription.topic).chunks and _is_shared(state, subscription):
            yield subscription


def _is_shared(state: Consumption, subscription: SubscriptionId) -> bool:
    return any(consumer.kind == "Shared" for _, consumer in state.consumers_of(subscription))


def unless_waiting(state: Consumption, broken: Broken, name: str) -> Allowed[Consumption] | Broken:
    """A consumer lacks a message that seems due. It is not if all that is left are chunks for another consumer."""
    subscriptions = state.consumers[name].subscriptions
    return Allowed(state) if all(are_waiting(state, one, [name]) for one in subscriptions) else broken


def are_waiting(state: Consumption, subscription: SubscriptionId, starved: Sequence[str]) -> bool:
    """Whether all that is left to consumers that starve are chunks for another one."""
    return _is_shared(state, subscription) and of(state, subscription, starved).are_waiting
