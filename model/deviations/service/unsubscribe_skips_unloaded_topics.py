from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_unloaded
from model.deviations.subscriptions import before
from model.events import Done
from model.example.state import Example
from model.example.step import Step
from model.subscription_operations import DeleteSubscription
from model.subscriptions import starts
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="unsubscribe-skips-unloaded-topics",
    rule="SERVE-11",
    statement="A request to unsubscribe from a namespace, or from a bundle, is answered as done, and the subscription stays on topics that no broker has loaded.",
    cause="NamespacesBase.internalUnsubscribeNamespace leaves out each bundle that no broker owns. A request for such a bundle is refused with 412. Read in the byte code of 4.0.8.",
    upstream=("apache/pulsar#25276",),
    side="broker",
    releases=(">=3.3.6,<=4.0.8",),
    seen=("4.0.8", "3.3.6"),
    gone=("4.2.4",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_request_for_unloaded_topics_may_do_nothing",
        by="small history",
        statement="A subscription of the namespace is not removed although a producer has loaded the topic.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    match step.operation, step.outcome:
        case DeleteSubscription(topic, name, scope=scope), Done() if scope != "topic":
            then, subscription = before(state), SubscriptionId(topic, name)
            cursor = then.consumption.cursors.get(subscription)
            if cursor is not None and is_unloaded(then, topic):
                there = starts.without_deleted(state.consumption, [subscription])
                yield replace(state, consumption=there.with_cursor(subscription, cursor))
        case _:
            return
