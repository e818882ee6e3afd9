from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.events import Starved
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Receive
from model.subscriptions.counts import Starving
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="lost-ack-filters-redelivery",
    aliases=("lost-ack-hides-message",),
    rule="ACK-11",
    statement="If a topic is unloaded while pulsar-client holds a grouped ack, that ack is lost. The client counts the message as acked, so on redelivery it neither delivers the message nor acks it again.",
    cause="The client's tracker of grouped acks filters redelivered messages by what the application acknowledged, even if the connection for that ack is gone. Seen for cumulative acks. The Java client had the same fault (apache/pulsar#7683).",
    side="client",
    clients={"official": "<=3.13.0"},
    seen=("pulsar-client 3.13.0",),
    shadow=Shadow(
        name="unacked-hidden-by-client",
        statement="The client also filters a redelivered message that its application did not acknowledge.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match step.operation, step.outcome, broken.evidence:
        case Receive(name), Starved(), Starving(then) if _may_filter(then, name):
            return broken.passing()
        case _:
            return None


def _may_filter(then: Consumption, name: str) -> bool:
    """Whether a client has grouped acks of a connection that ended, and nothing else is due to it."""
    consumer = then.consumers[name]
    grouped = any(then.cursors[one].grouped.get(name) for one in consumer.subscriptions)
    return (
        grouped
        and not consumer.never_disconnected
        and not any(_is_owed(then, one, name) for one in consumer.subscriptions)
    )


def _is_owed(then: Consumption, subscription: SubscriptionId, name: str) -> bool:
    """Whether anything is due to the only consumer of a subscription that no ack covers, sent or grouped."""
    here = dict(then.consumers_of(subscription))
    pending = {message for one in here.values() for message in one.unacknowledged}
    return here.keys() == {name} and any(message not in pending for message in surely_left(then, subscription))
