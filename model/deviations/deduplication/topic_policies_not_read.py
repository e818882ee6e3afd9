from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deduplication import topic_observer
from model.deduplication.policies import OwnPolicyIgnored
from model.deviation import Deviation, Shadow
from model.deviations.subscriptions import before
from model.events import Created, PolicyIgnored
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.operations import CreateTopic, SetDeduplication, Unload

ENTRY = Deviation(
    name="topic-policies-not-read",
    rule="DEDUP-01",
    statement="If the broker loads the first topic of a namespace while any topic has a policy of its own and a subscription that no consumer has used, the own policies of that namespace's topics never take effect, and the admin API does not show them, until the broker is started again.",
    cause="SystemTopicBasedTopicPoliciesService.initPolicesCache marks a namespace as initialised, then tells every topic that has a policy, in all namespaces, and only then starts to read further policies (2.9.0, lines 209 and 290). PersistentTopic.onUpdate fails with a NullPointerException if a subscription has no dispatcher (line 3068), and nothing is read. 2.10.0 looks whether there is a dispatcher.",
    side="broker",
    releases=(">=2.7.4,<2.10.0",),
    seen=("2.9.0", "2.7.4", "2.8.1", "2.8.2", "2.9.1"),
    gone=("2.10.0", "2.10.1", "4.0.8"),
    upstream=("apache/pulsar#20613",),
    occurrence="Every time, on a broker that has such a topic.",
    shadow=Shadow(
        name="test_policies_that_are_not_read_excuse_no_policy_that_the_broker_shows",
        by="small history",
        statement="A topic does not follow its own policy, which the broker shows, or not even after the broker was started again.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case OwnPolicyIgnored(is_shown=False):
            return broken.passing()
        case _:
            return None


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    """The same process loads the topic again, and has not read its policy."""
    if not isinstance(step.operation, Unload):
        return
    topic = step.operation.topic
    former = before(state)
    view = former.topics.get(topic)
    if view is not None and view.own_policy not in (None, view.enabled) and _is_unread(former, topic):
        after = topic_observer.unloaded(replace(view, own_policy=view.enabled)).state
        yield state.with_topic(topic, replace(after, own_policy=view.own_policy))


def _is_unread(state: Example, topic: str) -> bool:
    """Whether the broker did not show the topic's own policy when it was set."""
    for past in state.trace:
        match past.step.operation, past.step.outcome:
            case SetDeduplication(name, "topic"), PolicyIgnored(is_shown=is_shown) if name == topic:
                return not is_shown
            case CreateTopic(name), Created(is_policy_shown=is_shown) if name == topic:
                return not is_shown
            case _:
                pass
    return False
