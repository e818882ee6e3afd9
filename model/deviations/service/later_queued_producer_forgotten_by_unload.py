from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import place_at_reload
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.producer_operations import AwaitProducers, ProducersRead

ENTRY = Deviation(
    name="later-queued-producer-forgotten-by-unload",
    rule="SERVE-09",
    statement="A topic is unloaded while several producers wait for exclusive access to it. Only the first of them is answered. The others are neither closed nor answered, and wait forever.",
    cause="PersistentTopic.close disconnects the producers of its map only. When the last of them is removed, handleProducerRemoved takes the first producer from waitingExclusiveProducers, which is refused because the topic is fenced. Nothing completes the futures of the others. A producer that closed, or was created again, while it waited keeps its place (closed-producer-stays-queued). Read in the byte code of 4.0.8.",
    upstream=(),
    side="broker",
    releases=(">=4.0.8,<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8"),
    occurrence="Every time. On 3.3.6 the first one is forgotten as well (queued-producer-forgotten-by-unload).",
    shadow=Shadow(
        name="test_only_an_unload_forgets_a_later_queued_producer",
        by="small history",
        statement="The first producer that waited still waits after the unload, or one that was fenced.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    if not isinstance(step.operation, AwaitProducers) or not isinstance(broken.evidence, ProducersRead):
        return None
    topic = step.operation.topic
    left = [one for one in broken.evidence.waiting if one in state.service.contention(topic).ended]
    places = [place_at_reload(state, topic, one) for one in left]
    return broken.passing() if places and all(place is not None and place > 0 for place in places) else None
