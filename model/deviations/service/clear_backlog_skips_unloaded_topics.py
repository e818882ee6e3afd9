from __future__ import annotations

from collections.abc import Iterator

from model.deviation import Deviation, Shadow
from model.deviations.facts import is_unloaded
from model.deviations.subscriptions import before, with_cursor
from model.events import Done
from model.example.state import Example
from model.example.step import Step
from model.subscription_operations import SkipAll
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="clear-backlog-skips-unloaded-topics",
    rule="SERVE-11",
    statement="A request to clear the backlog of a namespace, or of a bundle, is answered as done, and does nothing for topics that no broker has loaded.",
    cause="NamespacesBase.internalClearNamespaceBacklog leaves out each bundle that no broker owns. For a bundle, clearBacklog asks BrokerService.getAllTopicsFromNamespaceBundle, which knows loaded topics only: a broker that acquires the bundle for this request loads them meanwhile. Read in the byte code of 4.0.8.",
    upstream=("apache/pulsar#20706", "apache/pulsar#25272"),
    side="broker",
    releases=(">=3.3.6,<=4.0.8",),
    seen=("4.0.8", "3.3.6"),
    gone=("4.2.4",),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_only_a_request_for_unloaded_topics_may_do_nothing",
        by="small history",
        statement="A namespace's backlog is not cleared although a producer has loaded the topic.",
    ),
)


def alternatives(state: Example, step: Step) -> Iterator[Example]:
    match step.operation, step.outcome:
        case SkipAll(topic, name, scope), Done() if scope != "topic" and is_unloaded(then := before(state), topic):
            subscription = SubscriptionId(topic, name)
            if (cursor := then.consumption.cursors.get(subscription)) is not None:
                yield with_cursor(state, subscription, cursor)
        case _:
            return
