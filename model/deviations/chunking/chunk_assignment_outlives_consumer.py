from __future__ import annotations

from model.chunking.evidence import ChunksUndispatched
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import assignment
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions import chunks
from model.subscriptions.counts import Count, Starving

ENTRY = Deviation(
    name="chunk-assignment-outlives-consumer",
    aliases=("chunk-shared-stalls",),
    rule="CHUNK-15",
    also=("CHUNK-09", "SERVE-04"),
    statement="A Shared subscription is starved after a consumer left with some chunks of a message, or after some chunks were acknowledged, skipped or returned without the others, or where a chunk is stored before the first one of its message. It recovers when the topic is reloaded.",
    cause="The dispatcher remembers which consumer has the first chunk of a message until it dispatches the last chunk (AbstractPersistentDispatcherMultipleConsumers, assignChunk). It does not forget a consumer that left, and reads the entries that it cannot dispatch again and again. What it sends to a consumer that left counts as unacknowledged in the subscription, but at no consumer.",
    upstream=("apache/pulsar#26395", "apache/pulsar#25120"),
    side="broker",
    releases=(">=2.5.1,<=5.0.0-M1",),
    seen=("4.0.8", "3.3.6", "2.11.0", "2.5.1", "5.0.0-M1"),
    shadow=Shadow(
        name="test_anything_else_starves_a_subscription_for_no_known_reason",
        by="small history",
        statement="A subscription is starved after a consumer left with all chunks of a message, or although nothing is left of the message.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ChunksUndispatched() as undispatched if _is_stuck(state, step, undispatched):
            return broken.passing()
        case Starving(now, consumers) as starving if any(
            chunks.of(now, one, consumers).is_stuck for one in chunks.shared(starving)
        ):
            return broken.passing()
        case _:
            return None


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    """What it sends to a consumer that left counts at no consumer."""
    if wrong.of != "in all":
        return None
    free = wrong.state.unassigned_chunks(wrong.subscription)
    most = wrong.state.assignment(wrong.subscription).sent_to_leaver(free)
    return (1, most) if most else None


def _is_stuck(state: Example, step: Step, undispatched: ChunksUndispatched) -> bool:
    """Whether an unacknowledged chunk is pending at no consumer of a Shared subscription, and cannot be assigned."""
    consumers, subscription = undispatched.consumers.values(), undispatched.subscription
    if any(consumer.kind != "Shared" for consumer in consumers):
        return False
    pending = frozenset().union(*(consumer.holds for consumer in consumers))
    left = undispatched.state.left(subscription)
    free = [chunk for one in left if one.position not in pending and (chunk := one.part.chunk) is not None]
    return assignment(state, step, undispatched.state, subscription).is_stuck(free)
