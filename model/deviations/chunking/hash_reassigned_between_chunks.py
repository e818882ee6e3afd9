from __future__ import annotations

from model.chunking.evidence import Scattered
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import reassigned
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="hash-reassigned-between-chunks",
    rule="CHUNK-14",
    statement="If a Key_Shared consumer has only the first chunks of a message when another consumer joins or leaves, and the message's hash is assigned to another consumer, the other chunks are dispatched to that one. No consumer delivers the message.",
    cause="The dispatcher selects a consumer for each chunk by its hash. Chunks that wait for replay when a consumer joins are not held back from it. Pulsar does not handle chunked messages properly on Key_Shared subscriptions (apache/pulsar#23265).",
    upstream=("apache/pulsar#23265",),
    side="broker",
    releases=(">=3.0,<4.0",),
    seldom=(">=2.10.1,<3.0",),
    seen=("3.3.6", "2.11.0"),
    fixed=("4.0",),
    shadow=Shadow(
        name="test_chunks_of_one_message_at_two_consumers_are_a_deviation_only_after_a_reassignment",
        by="small history",
        statement="Chunks are dispatched to two consumers although no consumer joined or left between them.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Scattered() as scattered if _is_reassigned_in_between(state, step, scattered):
            return broken.passing()
        case _:
            return None


def _is_reassigned_in_between(state: Example, step: Step, scattered: Scattered) -> bool:
    """Whether all consumers but the last one had their chunks of a message when its hash may have been reassigned."""
    now, entries = scattered.state, scattered.entries
    *before, _ = sorted(scattered.having, key=lambda name: max(now.consumers[name].holds & entries))
    return all(
        now.consumers[name].kind == "Key_Shared"
        and now.consumers[name].holds & entries <= reassigned(state, step, now, name)
        for name in before
    )
