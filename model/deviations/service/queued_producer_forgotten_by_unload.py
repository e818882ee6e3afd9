from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import place_at_reload
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.producer_operations import AwaitProducers, ProducersRead

ENTRY = Deviation(
    name="queued-producer-forgotten-by-unload",
    rule="SERVE-09",
    statement="A topic is unloaded while a producer waits for exclusive access to it. The producer is neither closed nor answered, and waits forever.",
    cause="PersistentTopic.close disconnects the producers of its map only. Those in waitingExclusiveProducers are not in it, and their futures are never completed.",
    upstream=(),
    side="broker",
    releases=("<=3.3.6",),
    seen=("3.3.6",),
    gone=("4.0.8", "4.2.4", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_an_unload_forgets_a_queued_producer",
        by="small history",
        statement="A producer that waited was fenced by another one, and still waits.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    if not isinstance(step.operation, AwaitProducers) or not isinstance(broken.evidence, ProducersRead):
        return None
    topic = step.operation.topic
    left = [one for one in broken.evidence.waiting if one in state.service.contention(topic).ended]
    return broken.passing() if left and all(place_at_reload(state, topic, one) is not None for one in left) else None
