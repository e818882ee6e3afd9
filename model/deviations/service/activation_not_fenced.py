from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import contention_forgotten, pasts_since_load
from model.events import Opened
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import OpenProducer
from model.producer_operations import AwaitProducers, ProducersRead

ENTRY = Deviation(
    name="activation-not-fenced",
    rule="SERVE-09",
    statement="The last producer leaves, and one that waits for exclusive access is being activated. Another one opens with ExclusiveWithFencing at that moment. Both have exclusive access.",
    cause="AbstractTopic.handleProducerRemoved takes the waiting producer out of waitingExclusiveProducers, and adds it to producers only after the topic's epoch was stored. In between, incrementTopicEpochIfNeeded finds it in neither, so ExclusiveWithFencing does not fence it. Read in the byte code of 4.0.8.",
    upstream=(),
    side="broker",
    releases=(">=4.0.8,<=5.0.1",),
    seen=("5.0.1", "4.2.4", "4.0.8"),
    occurrence="In 6 of 6 replays on each release, if the last producer reconnects with ExclusiveWithFencing.",
    shadow=Shadow(
        name="test_only_a_producer_that_is_being_activated_escapes_fencing",
        by="small history",
        statement="A producer that was fenced while it waited is given access, although nobody had left.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case AwaitProducers(topic=topic), ProducersRead(activated=activated):
            given = {one.session for one in activated}
        case _:
            return None
    if not any(_escaped(past, given) for past in pasts_since_load(state, topic)):
        return None
    return broken.passing().then(lambda after: Allowed(contention_forgotten(after, topic)))


def _escaped(past: Past, given: set[str]) -> bool:
    """Whether the only producer of a topic, besides these that waited, reconnected to fence the others."""
    match past.step.operation, past.step.outcome:
        case OpenProducer(session=session, topic=topic, access="ExclusiveWithFencing"), Opened():
            waiting = {one.session for one in past.before.service.contention(topic).waiting}
            holders = {one.session for one in past.before.service.holders(topic)}
            return bool(given & waiting) and holders == {session}
        case _:
            return False
