from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import contention_forgotten, left_queue, pasts_since_load
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import OpenProducer

ENTRY = Deviation(
    name="closed-producer-stays-queued",
    rule="SERVE-09",
    statement="A producer that waits for exclusive access closes, its connection ends, or its client creates it again. Shared and Exclusive producers are then refused although nobody waits, until all producers have left or the topic is unloaded.",
    cause="ServerCnx completes the future of a producer that is closed before it was created, and nothing removes it from AbstractTopic.waitingExclusiveProducers. Its queue is not empty, so incrementTopicEpochIfNeeded refuses others. Read in the source of 4.x; the error names the exclusive producer null.",
    upstream=(),
    side="broker",
    releases=(">=2.8.0,<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8", "3.3.6"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_producer_that_left_the_queue_blocks_others",
        by="small history",
        statement="A Shared producer is refused on a topic on which nobody waited, or that was reloaded since.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Also if the refused producer waited itself until this request: its client closes it first."""
    if not isinstance(step.operation, OpenProducer) or not isinstance(broken.evidence, Refused):
        return None
    if broken.rule != ENTRY.rule:
        return None  # for the limit on producers, say
    topic = step.operation.topic
    is_again = any(one.session == step.operation.session for one in state.service.contention(topic).waiting)
    if not is_again and not any(left_queue(past, topic) for past in pasts_since_load(state, topic)):
        return None
    return broken.passing().then(lambda after: Allowed(contention_forgotten(after, topic)))
