from __future__ import annotations

from model.chunking.evidence import ChunksUndispatched
from model.chunking.stored_chunks import wholes
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import reassigned, share_keys
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position

ENTRY = Deviation(
    name="draining-hash-blocks-chunks",
    rule="CHUNK-14",
    also=("CHUNK-15",),
    statement="If a Key_Shared consumer has only the first chunks of a message when another consumer joins or leaves, and the message's hash is assigned to another consumer, the other chunks are never dispatched. The subscription recovers when the consumer that has the first chunks leaves.",
    cause="The hash drains at the first consumer, so its other messages are blocked until that consumer has acknowledged all that is pending (PIP-379). It acknowledges chunks only with the whole message. KeySharedDispatcher does not treat chunks in any way of their own: Pulsar does not handle chunked messages properly on Key_Shared subscriptions (apache/pulsar#23265).",
    upstream=("apache/pulsar#23265",),
    side="broker",
    releases=(">=4.0.1,<=5.0.1",),
    seen=("4.0.4", "4.0.8", "4.2.4", "4.0.1", "5.0.1"),
    shadow=Shadow(
        name="test_chunks_that_a_draining_hash_does_not_block_are_due",
        by="small history",
        statement="The other chunks are not dispatched although no consumer joined or left, or the first chunk is not dispatched either, or a later message of another hash.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ChunksUndispatched() as undispatched if undispatched.topic.drains and share_keys(undispatched):
            return broken.passing() if _are_blocked(state, step, undispatched) else None
        case _:
            return None


def _are_blocked(state: Example, step: Step, undispatched: ChunksUndispatched) -> bool:
    """Whether a consumer had the first chunks of each message owed when another one joined or left.

    The hash may then drain at that consumer until it acknowledges these chunks, which it does with the whole message.
    Until then, later messages of the same key are not dispatched, either. Entries that are not read because so many
    chunks wait for replay may be owed, too.
    """
    topic, owed, consumers = undispatched.topic, undispatched.owed, undispatched.consumers
    had = [one.holds & reassigned(state, step, undispatched.state, name) for name, one in consumers.items()]
    waiting: set[Position] = set()
    blocked: set[str] = set()
    for whole in sorted(wholes(topic.log), key=lambda entries: entries[0].position):
        rest = [entry.position for entry in whole if entry.position in owed]
        first = {entry.position for entry in whole} - set(rest)
        key = topic.sticky_key(whole[0])
        if first and rest and max(first) < rest[0] and any(first <= one for one in had):
            waiting.update(rest)
            blocked.update(() if key is None else {key})
        elif not first and key in blocked:
            waiting.update(rest)
    if not waiting:
        return False
    limit = topic.look_ahead.limit(len(consumers))
    is_full = limit is not None and len(waiting) >= limit
    return all(position in waiting or (is_full and position > min(waiting)) for position in owed)
