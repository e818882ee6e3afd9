from __future__ import annotations

from collections.abc import Iterator

from model.deviation import Deviation, Shadow
from model.deviations.purges import forgetting
from model.events import Opened
from model.example.state import Example, Past
from model.example.step import Step
from model.operations import CloseProducer, CrashProducer, OpenProducer, SetDeduplication

ENTRY = Deviation(
    name="connected-producer-purged",
    rule="DEDUP-20",
    statement="A producer leaves, deduplication is disabled, the producer opens again, and deduplication is enabled. Once the time of inactivity has passed since it left, the broker forgets it while it is connected. What it sends again is stored again.",
    cause="MessageDeduplication.producerAdded returns at once while deduplication is not enabled (since apache/pulsar#21193, in 3.0.3 and 3.1.1, not in 3.1.0), so the producer stays in inactiveProducers. Disabling deduplication does not clear that map; only purgeInactiveProducers does, which runs every two hours by default. Since 5.0.0-M1 replayCursor clears it when deduplication is enabled.",
    searched="2026-11-30: `purgeInactiveProducers removes connected producer`; nothing similar about what apache/pulsar#21193 began.",
    side="broker",
    releases=(">=3.0.3,<3.1.0", ">=3.1.1,<5.0.0-M1"),
    seen=("4.0.8", "3.0.7", "3.3.6", "4.2.4"),
    gone=("5.0.1",),
    occurrence="Every time.",
    shadow=Shadow(
        name="return-of-producer-unnoticed",
        by="seeded defect",
        statement="A producer that opens again is purged, although deduplication is enabled all the time.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """Producers are forgotten that count as inactive since they left."""
    return forgetting(state, step, _left_and_returned)


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Deduplication is not disabled in between."""
    yield tuple(step for step in steps if not isinstance(step.operation, SetDeduplication))


def _left_and_returned(past: Past, topic: str) -> dict[str, bool]:
    """A producer that leaves, or returns, counts only while deduplication is enabled."""
    if not past.before.topics[topic].enabled:
        return {}
    match past.step.operation, past.step.outcome:
        case OpenProducer(topic=at, producer=producer), Opened() if at == topic:
            return {producer: False}
        case ((CloseProducer(session) | CrashProducer(session)), _):
            left = past.before.sessions.get(session)
            return {left.producer: True} if left is not None and left.topic == topic else {}
        case _:
            return {}
