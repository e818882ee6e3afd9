from __future__ import annotations

from model.deduplication.policies import OwnPolicyIgnored
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="topic-policy-awaits-reload",
    rule="DEDUP-01",
    statement="A topic's own policy switches its deduplication on or off only when the topic is loaded again.",
    cause="PersistentTopic.onUpdate, which is called when the policies of the topic change, does not call checkDeduplicationStatus (2.7.4, line 2732); 2.8.0 and later releases do.",
    side="broker",
    releases=(">=2.7.0,<2.8.0",),
    seen=("2.7.4", "2.7.0", "2.7.1", "2.7.2"),
    gone=("2.10.1", "4.0.8"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_a_policy_that_awaits_a_reload_excuses_no_other_policy_and_no_status_after_the_reload",
        by="small history",
        statement="A topic does not follow the policy of its namespace or the broker's setting, or not even after it was loaded again.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case OwnPolicyIgnored(topic, is_shown=True) if not state.consumption.has_unused_subscription(topic):
            return broken.passing()
        case _:
            return None
