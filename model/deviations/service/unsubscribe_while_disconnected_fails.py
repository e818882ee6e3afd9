from __future__ import annotations

from dataclasses import replace

from model.deviation import Deviation, Shadow
from model.deviations.consumers import since_subscribed
from model.deviations.facts import is_reloaded_by
from model.events import Refused
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Allowed, Broken
from model.subscription_operations import Unsubscribe
from model.subscriptions.administration import reset_failed

ENTRY = Deviation(
    name="unsubscribe-while-disconnected-fails",
    rule="SERVE-01",
    statement="A consumer of pulsar-client unsubscribes from a partitioned topic while it reconnects to a partition, as after an unload. It fails with UnknownError, and has unsubscribed from the other partitions.",
    cause="MultiTopicsConsumerImpl::unsubscribeAsync unsubscribes from each partition by itself. One without a connection fails, and handleUnsubscribedAsync makes ResultUnknownError of any failure. Read in the source of the C++ client.",
    upstream=(),
    side="client",
    clients={"official": ">=3.3.0,<=3.13.0"},
    seen=("pulsar-client 3.3.0", "pulsar-client 3.13.0"),
    occurrence="In 6 of 6 replays right after the unload of a partition.",
    shadow=Shadow(
        name="test_only_a_consumer_that_reconnects_to_a_partition_fails_to_unsubscribe",
        by="small history",
        statement="A consumer that is connected, or whose topic is not partitioned, is refused with UnknownError.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, broken.evidence:
        case Unsubscribe(name), Refused(code="UnknownError") if name in state.consumption.consumers:
            consumer = state.consumption.consumers[name]
        case _:
            return None
    if consumer.client == "wire" or len(consumer.subscriptions) == 1 or not _lost_a_partition(state, name):
        return None
    parts = [one for one in consumer.subscriptions if one in state.consumption.cursors]
    return broken.passing().then(
        lambda after: Allowed(replace(after, consumption=reset_failed(after.consumption, parts)))
    )


def _lost_a_partition(state: Example, consumer: str) -> bool:
    """Whether a partition was reloaded since a consumer subscribed."""
    parts = state.consumption.consumers[consumer].subscriptions
    return any(is_reloaded_by(past, part.topic) for past in since_subscribed(state, consumer) for part in parts)
