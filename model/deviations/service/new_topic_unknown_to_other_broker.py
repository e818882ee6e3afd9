from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_new
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="new-topic-unknown-to-other-broker",
    rule="SERVE-01",
    statement="Of several brokers, one answers that a topic does not exist although another one has confirmed that it is created.",
    cause="AbstractMetadataStore.exists answers from a cache (line 328, 4.0.8). It keeps that a path does not exist until the notification of the metadata store arrives, or for minutes. TopicResources.persistentTopicExists asks it for policies of a topic, among others.",
    side="broker",
    seldom=("==4.0.8",),
    seen=("4.0.8",),
    occurrence="Twice in 240,000 operations, and in 0 of 50 replays.",
    has_history=False,
    shadow=Shadow(
        name="test_only_a_new_topic_may_be_unknown_to_one_of_several_brokers",
        by="small history",
        statement="A broker answers that a topic does not exist that has been used, or that is the only broker's.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(is_of_several=True, code="404", topic=topic) if is_new(state, topic):
            return broken.passing()
        case _:
            return None
