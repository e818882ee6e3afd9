from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication.inactivity import SLACK_MIN, forgotten
from model.deviation import Deviation, Shadow
from model.deviations.facts import pasts_since_load
from model.events import Opened
from model.example.state import Example
from model.example.step import Step
from model.operations import CloseProducer, CrashProducer, OpenProducer, SetDeduplication
from model.producer_operations import ProducersPurged, PurgeProducers

ENTRY = Deviation(
    name="connected-producer-purged",
    rule="DEDUP-20",
    statement="A producer leaves, deduplication is disabled, the producer opens again, and deduplication is enabled. Once the time of inactivity has passed since it left, the broker forgets it while it is connected. What it sends again is stored again.",
    cause="MessageDeduplication.producerAdded returns at once while deduplication is not enabled (since apache/pulsar#21193, in 3.0.3 and 3.1.1, not in 3.1.0), so the producer stays in inactiveProducers. Disabling deduplication does not clear that map; only purgeInactiveProducers does, which runs every two hours by default. Since 5.0.0-M1 replayCursor clears it when deduplication is enabled.",
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
    match step.operation, step.outcome:
        case PurgeProducers(topic, minutes), ProducersPurged(timeout_min) if topic in state.topics:
            view = state.topics[topic]
            recorded = _recorded(state, topic)
            gone = {name for name, passed in recorded.items() if passed + minutes + SLACK_MIN > timeout_min}
            if view.enabled and not gone.isdisjoint(view.activity.kept):
                states = {
                    name: ones.union(*map(forgotten, ones)) if name in gone else ones
                    for name, ones in view.states.items()
                }
                activity = replace(view.activity, kept=view.activity.kept - gone)
                yield state.with_topic(topic, replace(view, states=states, activity=activity))
        case _:
            return


def shadows(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Deduplication is not disabled in between."""
    yield tuple(step for step in steps if not isinstance(step.operation, SetDeduplication))


def _recorded(state: Example, topic: str) -> dict[str, int]:
    """Before the last step: for how many minutes each producer counts as inactive, since it left while deduplication was
    enabled. Its return counts only if deduplication is enabled then."""
    recorded: dict[str, int] = {}
    for past in reversed(list(pasts_since_load(state, topic))[1:]):
        if (before := past.before.topics.get(topic)) is None:
            continue
        match past.step.operation, past.step.outcome:
            case OpenProducer(topic=at, producer=producer), Opened() if at == topic and before.enabled:
                recorded.pop(producer, None)
            case ((CloseProducer(session) | CrashProducer(session)), _) if before.enabled:
                left = past.before.sessions.get(session)
                if left is not None and left.topic == topic:
                    recorded[left.producer] = 0
            case PurgeProducers(topic=at, minutes=minutes), ProducersPurged(timeout_min) if at == topic:
                later = {name: passed + minutes for name, passed in recorded.items()}
                recorded = {name: passed for name, passed in later.items() if before.enabled and passed <= timeout_min}
            case _:
                pass
    return recorded
