from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions import chunks
from model.subscriptions.counts import Starving

ENTRY = Deviation(
    name="chunk-without-permits-blocks-others",
    rule="SERVE-03",
    statement="On a Shared subscription, a chunk whose consumer has no permits keeps the dispatcher from sending anything new to the other consumers, although they have permits. The subscription recovers when that consumer adds permits.",
    cause="PersistentDispatcherMultipleConsumers puts a chunk back into the replay queue when the consumer that has the message has no permits, and replays that queue before it reads anything new. While another consumer has permits, it reads the chunk again and again (4.0.8, sendChunkedMessagesToConsumers).",
    upstream=("apache/pulsar#25120",),
    side="broker",
    releases=(">=2.5.1,<=5.0.1",),
    shadow=Shadow(
        name="test_another_starvation_of_a_shared_subscription_has_no_known_reason",
        by="small history",
        statement="A consumer is starved although no consumer has the first chunk of any message that is left, or no chunk of that message is left.",
    ),
    seen=("4.0.8", "3.3.6", "2.7.4", "2.5.1", "5.0.0-M1", "5.0.1"),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Starving(now, consumers) as starving:
            every = [chunks.of(now, one, consumers) for one in chunks.shared(starving)]
            return broken.passing() if any(map(_are_blocked, every)) else None
        case _:
            return None


def _are_blocked(free: chunks.Free) -> bool:
    """Whether some of the entries are chunks for another consumer, and others are not."""
    return any(map(free.may_wait, free.chunks)) and not all(map(free.may_wait, free.entries.values()))
