from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import contention_forgotten, pasts_since_load
from model.events import Refused
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import OpenProducer
from model.producer_operations import AwaitProducers, ProducersRead
from model.service.unexpected import Closed

ENTRY = Deviation(
    name="refused-producer-fences-others",
    rule="SERVE-02",
    statement="A producer reconnects with access mode ExclusiveWithFencing and the topic's epoch from its last ProducerSuccess, after another producer has had access. It is refused, but the producer that has access is fenced nevertheless: its next send closes its connection. Those that wait for exclusive access are refused, too.",
    cause="In AbstractTopic.incrementTopicEpochIfNeeded the case ExclusiveWithFencing closes the other producers, and fails those that wait, before it compares the epochs, and then sets hasExclusiveProducer to false. The other access modes compare the epochs first. Read in the source.",
    upstream=(),
    side="broker",
    releases=(">=2.11.0,<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8", "3.3.6"),
    also=("SERVE-09",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_refused_fencing_producer_fences_others",
        by="small history",
        statement="The producer that has access loses its connection after an Exclusive producer was refused.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Also if another producer is admitted, because the one that has access by the documents was fenced, or if one that
    waited does not wait any more."""
    gone = frozenset[str]()
    match step.operation, broken.evidence:
        case _, Closed(topic=str(topic)):
            pass
        case _, OpenProducer(topic=topic):
            pass
        case AwaitProducers(topic), ProducersRead() as read if gone := _gone(state, topic, read):
            pass
        case _:
            return None
    if not any(gone <= _waiting(past.before, topic) for past in pasts_since_load(state, topic) if _fences(past, topic)):
        return None
    return broken.passing().then(lambda after: Allowed(contention_forgotten(after, topic)))


def _fences(past: Past, topic: str) -> bool:
    """Whether a fencing producer was refused for its epoch in a step."""
    match past.step.operation, past.step.outcome:
        case OpenProducer(topic=name, access="ExclusiveWithFencing", has_epoch=True), Refused():
            return name == topic
        case _:
            return False


def _waiting(state: Example, topic: str) -> frozenset[str]:
    return frozenset(one.session for one in state.service.contention(topic).waiting)


def _gone(state: Example, topic: str, read: ProducersRead) -> frozenset[str]:
    """The producers that waited, and neither wait any more nor have access."""
    return _waiting(state, topic).difference(read.waiting, read.open, (one.session for one in read.activated))
