from __future__ import annotations

from model.applications.sources import Stalled
from model.deviation import Deviation, Shadow
from model.deviations.facts import is_reloaded_by
from model.deviations.sources import sets_write_failures, writes_may_fail
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import StartSource

ENTRY = Deviation(
    name="close-overtakes-producer-success",
    aliases=("closed-before-opened",),
    rule="DEDUP-13",
    statement="If the broker closes a producer while creating it, CloseProducer can reach the client before ProducerSuccess. The broker ignores what the producer then sends, and pulsar-client waits forever.",
    cause="When a write fails, ServerCnx sends CloseProducer from the thread of that write. Meanwhile buildProducerAndAddTopic has added the producer to the topic, but not completed its future (4.0.8, lines 1863 to 1871 and 3323). For the keep-alive interval the broker then ignores sends of a recently closed producer (line 1962, since apache/pulsar#19446). pulsar-client plans to reconnect, and drops that plan on ProducerSuccess. 3.3.6 has the same code.",
    side="broker",
    releases=(">=3.1.0,<=4.0.8",),
    clients={"official": "<=3.13.0"},
    seen=("4.0.8", "3.3.5", "3.1.0"),
    occurrence="With pulsar-client 3.13.0, about once in 200 such attempts.",
    has_history=False,
    shadow=Shadow(
        name="test_only_pulsar_client_may_wait_forever_and_only_if_its_producer_was_closed_since_it_started",
        by="small history",
        statement="The wire client waits forever, or pulsar-client does although its topic was not unloaded and no write can have failed.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Stalled(name) if state.applications.sources[name].client == "official":
            return broken.passing() if _may_be_closed(state, name) else None
        case _:
            return None


def _may_be_closed(state: Example, source: str) -> bool:
    """Whether the broker may have closed the producer of a source since it started."""
    topic = state.applications.sources[source].topic
    for past in state.trace:
        if sets_write_failures(past.step, topic) or is_reloaded_by(past, topic):
            return True
        if isinstance(past.step.operation, StartSource) and past.step.operation.source == source:
            return writes_may_fail(past.before, topic)
    return False
