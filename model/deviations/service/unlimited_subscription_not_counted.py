from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.example.state import Example
from model.example.step import Step
from model.subscriptions.counts import Count

ENTRY = Deviation(
    name="unlimited-subscription-not-counted",
    rule="SERVE-04",
    statement="If a namespace does not limit the unacknowledged messages of a subscription, the stats of its Shared and Key_Shared subscriptions show none. Those of their consumers show them.",
    cause="PersistentDispatcherMultipleConsumers.addUnAckedMessages returns before it counts if the limit is 0 (read in 2.5.0, 2.6.0, 2.7.0, 2.7.2 and 2.7.4). 2.8.0 counts always.",
    side="broker",
    releases=(">=2.5.0,<2.8.0",),
    seen=("2.7.4", "2.6.0"),
    gone=("2.8.2", "2.10.1", "4.0.8"),
    occurrence="Every time: in 8 of 8 replays of 8 steps.",
    shadow=Shadow(
        name="test_only_a_subscription_without_a_limit_is_not_counted_and_not_at_all",
        by="small history",
        statement="The stats show some of the messages, or none although the namespace has a limit, or sets no limits at all.",
    ),
)


def adds(state: Example, step: Step, wrong: Count) -> tuple[int, int] | None:
    is_unlimited = wrong.state.topics[wrong.subscription.topic].is_unlimited_in_all
    is_all = wrong.of == "in all" and wrong.shown == 0
    return (wrong.difference, wrong.difference) if is_all and is_unlimited else None
