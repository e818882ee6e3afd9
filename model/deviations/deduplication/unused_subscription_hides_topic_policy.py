from __future__ import annotations

from model.deduplication.policies import OwnPolicyIgnored
from model.deviation import Deviation, Shadow
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken

ENTRY = Deviation(
    name="unused-subscription-hides-topic-policy",
    rule="DEDUP-01",
    statement="While a topic has a subscription that no consumer has used, its own policy switches its deduplication on or off only when the topic is loaded again.",
    cause="PersistentTopic.onUpdate, which is called when the policies of the topic change, calls updateRateLimiter of the dispatcher of each subscription. A subscription without a consumer has none, and the NullPointerException comes before checkDeduplicationStatus (2.7.4, 2.8.2 and 2.9.1). 2.10.1 looks whether there is a dispatcher.",
    side="broker",
    releases=(">=2.7.4,<=2.9.1",),
    seen=("2.9.1", "2.8.2"),
    gone=("2.10.1", "4.0.8"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_an_unused_subscription_hides_only_the_topic_s_own_policy",
        by="small history",
        statement="A topic whose subscriptions all have consumers does not follow its own policy, or one does not follow another policy.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case OwnPolicyIgnored(topic, is_shown=True) if state.consumption.has_unused_subscription(topic):
            return broken.passing()
        case _:
            return None
