from __future__ import annotations

from model.chunking.dispatch import unfinished
from model.chunking.evidence import ChunksUndispatched
from model.chunking.stored_chunks import wholes
from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.chunk_dispatch import reassigned, share_keys
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position

ENTRY = Deviation(
    name="recently-joined-waits-for-chunks",
    rule="CHUNK-14",
    also=("CHUNK-09", "CHUNK-15"),
    statement="With the classic implementation, if a Key_Shared consumer has only the first chunks of a message when another consumer joins, and the message's hash is assigned to that one, the other chunks are never dispatched (unless they waited for replay), and little is read after them; also where its producer died. The subscription recovers when the consumer of the first chunks leaves.",
    cause="A recently joined consumer receives nothing new until all that was read before it joined is acknowledged (recentlyJoinedConsumers). The first chunks were read before, and their consumer acknowledges them only with the whole message. While a consumer is recently joined, the dispatcher does not look ahead (isDispatcherStuckOnReplays stays unset). Pulsar does not handle chunked messages properly on Key_Shared subscriptions (apache/pulsar#23265).",
    upstream=("apache/pulsar#23265",),
    side="broker",
    releases=(">=2.6.0,<4.0",),
    switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
    seen=("3.3.6", "4.0.8 classic", "2.11.0", "2.10.1", "2.6.0", "5.0.0-M1 classic"),
    occurrence="Every time, in 17 steps.",
    shadow=Shadow(
        name="test_chunks_that_a_recently_joined_consumer_does_not_wait_for_are_due",
        by="small history",
        statement="The other chunks are not dispatched although no consumer joined or left, or an earlier message is not dispatched either.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ChunksUndispatched() as undispatched if not undispatched.topic.drains and share_keys(undispatched):
            return broken.passing() if _is_waiting(state, step, undispatched) else None
        case _:
            return None


def _is_waiting(state: Example, step: Step, undispatched: ChunksUndispatched) -> bool:
    """Whether a consumer had chunks when another one joined, and not all chunks of their message.

    The one that joined waits for all that was read by then, these chunks among it, and nothing more is read. It may
    have received the other chunks, which waited for replay.
    """
    consumers = undispatched.consumers
    then = {name: reassigned(state, step, undispatched.state, name) for name in consumers}
    read_by_then = max((position for every in then.values() for position in every), default=None)
    if read_by_then is None or undispatched.owed[0] <= read_by_then:
        return False
    had = {name: consumer.holds & then[name] for name, consumer in consumers.items()}
    incomplete = unfinished(undispatched.topic)
    if any(not every.isdisjoint(incomplete) for every in had.values()):
        return True
    messages = [[entry.position for entry in whole] for whole in wholes(undispatched.topic.log)]
    for name, every in had.items():
        others = (other.holds for other_name, other in consumers.items() if other_name != name)
        elsewhere = frozenset(undispatched.owed).union(*others)
        if any(_has_only_first(whole, elsewhere, every) for whole in messages):
            return True
    return False


def _has_only_first(whole: list[Position], elsewhere: frozenset[Position], had: frozenset[Position]) -> bool:
    """Whether only the first chunks of a message are not elsewhere, and a consumer had them."""
    first = [position for position in whole if position not in elsewhere]
    return 0 < len(first) < len(whole) and first == whole[: len(first)] and had.issuperset(first)
