from __future__ import annotations

from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.events import Starved
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.operations import AnyOperation, FreezeOwner, Kill, Restart, TakeOver, Unload
from model.read_operations import AnalyzeBacklog
from model.subscription_operations import ReceiveAll, ResetCursor, Seek, Subscribe
from model.subscriptions.administration import reset_failed
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="backlog-analysis-moves-read-position",
    rule="SERVE-08",
    statement="An administrator has the backlog of a subscription analyzed while consumers are connected. Messages that were not dispatched yet are then not dispatched, until all consumers disconnect or the topic is unloaded.",
    cause="The scan reads with the subscription's own cursor (OpReadEntry), and each completed read moves the read position of that cursor past what it read. apache/pulsar#22019 scans with a non-durable copy of the cursor. Byte code of 2.11.0, 3.0.0 and 3.2.0 against 3.0.7, 3.3.6, 4.2.4 and 5.0.1.",
    upstream=("apache/pulsar#22019",),
    side="broker",
    releases=(">=2.11.0,<=3.0.0", ">=3.1.0,<=3.2.0"),
    seen=("3.2.0", "3.0.0"),
    read=("2.11.0",),
    gone=("3.0.7", "3.3.6", "4.0.8", "4.2.4", "5.0.1"),
    occurrence="Every time.",
    shadow=Shadow(
        name="test_an_analysis_explains_only_the_starvation_of_its_subscription",
        by="small history",
        statement="Consumers starve without an analysis, after all of them reconnected, or on another subscription.",
    ),
)

RELOADS = (Restart, Kill, TakeOver, FreezeOwner)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """Where the subscription is from then on is not known."""
    if not isinstance(step.outcome, Starved) or broken.rule != "SERVE-03":
        return None
    starving = [one for one in _subscriptions_of(state, step.operation) if _is_analyzed(state, one)]
    if not starving:
        return None
    return Allowed(replace(state, consumption=reset_failed(state.consumption, starving)))


def _is_analyzed(state: Example, subscription: SubscriptionId) -> bool:
    """Whether its backlog was analyzed since its dispatcher began to read."""
    for past in state.trace:
        operation = past.step.operation
        if operation == AnalyzeBacklog(*subscription):
            return any(past.before.consumption.consumers_of(subscription))
        if isinstance(operation, RELOADS) or (isinstance(operation, Unload) and operation.topic == subscription.topic):
            return False
        if subscription in _subscriptions_of(past.before, operation):
            is_first = isinstance(operation, Subscribe) and not any(past.before.consumption.consumers_of(subscription))
            if is_first or isinstance(operation, ResetCursor | Seek | ReceiveAll):
                return False
    return False


def _subscriptions_of(state: Example, operation: AnyOperation) -> tuple[SubscriptionId, ...]:
    if operation.topic is not None and operation.subscription is not None:
        parts = state.consumption.parts_of(operation.topic)
        return tuple(SubscriptionId(part, operation.subscription) for part in parts)
    consumer = state.consumption.consumers.get(operation.actor or "")
    return () if consumer is None else tuple(consumer.subscriptions)
