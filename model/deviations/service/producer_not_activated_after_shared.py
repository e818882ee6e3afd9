from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import contention_forgotten, pasts_since_load
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.producer_operations import AwaitProducers, ProducersRead

ENTRY = Deviation(
    name="producer-not-activated-after-shared",
    rule="SERVE-09",
    statement="A producer waits for exclusive access beside Shared ones. After the last of them has left, it is never activated, and nobody else can open a Shared or Exclusive producer on the topic.",
    cause="AbstractTopic.handleProducerRemoved activates the next producer in the queue only if hasExclusiveProducer is set, so not after a Shared one has left. Since apache/pulsar#24516 it also does so if no producer is left.",
    upstream=("apache/pulsar#24516",),
    side="broker",
    releases=("<=3.3.6",),
    seen=("3.3.6",),
    gone=("4.0.8", "4.2.4", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_shared_producer_leaves_a_queue_alone",
        by="small history",
        statement="A producer with exclusive access leaves, and the one that waits is not activated.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    if not isinstance(step.operation, AwaitProducers) or not isinstance(broken.evidence, ProducersRead):
        return None
    topic = step.operation.topic
    if broken.evidence.activated or not (set(broken.evidence.waiting) - state.service.contention(topic).ended):
        return None
    if state.service.holders(topic) or not _left_by_shared(state, topic):
        return None
    return broken.passing().then(lambda after: Allowed(contention_forgotten(after, topic)))


def _left_by_shared(state: Example, topic: str) -> bool:
    """Whether the last producers that were open since the topic was loaded were Shared."""
    for past in pasts_since_load(state, topic):
        if there := past.before.service.holders(topic):
            return not any(one.is_exclusive for one in there)
    return False
