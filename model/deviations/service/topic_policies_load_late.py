from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.service.unexpected import ErrorAnswer

ENTRY = Deviation(
    name="topic-policies-load-late",
    rule="SERVE-01",
    statement="While the broker reads the policies of a namespace's topics, which begins with the first topic that it loads there, a request to change one is refused (412).",
    cause="SystemTopicBasedTopicPoliciesService.getTopicPolicies throws until the namespace's system topic is read to its end. The admin API passes that on; in 2.7.4 it tries again first (AdminResource, line 570).",
    side="broker",
    releases=(">=2.7.0,<2.7.4",),
    seen=("2.7.0", "2.7.2"),
    occurrence="On 2.7.0 in 2 of 2 replays.",
    shadow=Shadow(
        name="test_topic_policies_may_load_late_only_while_the_topic_is_loaded",
        by="small history",
        statement="The same request is refused once a client has the topic open, or with another error.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ErrorAnswer(message=message, topic=topic) if topic in state.service.loading:
            return broken.passing() if message.startswith("Policies cache have not init") else None
        case _:
            return None
