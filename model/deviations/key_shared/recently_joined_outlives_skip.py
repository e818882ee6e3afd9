from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.looks import explained, has_dispatched, leaves_in, outcome_in, permits_in, since_reset
from model.events import Refused, Skipped, Unknown
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscription_operations import Skip, SkipAll
from model.subscriptions.evidence import Undispatched
from model.subscriptions.membership import mark_delete
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="recently-joined-outlives-skip",
    rule="KEY-16",
    statement="With the classic implementation, an administrator skips all messages that recently joined consumers wait for. They still receive nothing, even with more permits, until mark-delete advances again, a consumer leaves, or another consumer adds permits.",
    cause="PersistentSubscription.skipMessages and clearBacklog do not call Dispatcher.markDeletePositionMoveForward, as an ack and PersistentMessageExpiryMonitor do (since apache/pulsar#8292). So nothing removes the consumers from recentlyJoinedConsumers. While all consumers with permits are in it, readMoreEntries reads nothing new (hasConsumersNeededNormalRead, since apache/pulsar#22245). 4.2.4 calls it after a skip, too. 2.11.0 does not call it after a skip, either, but any later read looks at the consumers again.",
    upstream=("apache/pulsar#8292",),
    side="broker",
    releases=(">=3.0.5,<4.0", "==2.11.0"),
    switched_on={CLASSIC: (">=4.0,<=4.0.8",)},
    seen=("3.3.6", "4.0.8 classic", "2.11.0"),
    gone=("4.2.4",),
    occurrence="Every time, in 15 steps; on 2.11.0 in 22 of 30 replays of 11 steps, with a delayed message.",
    shadow=Shadow(
        name="test_a_skip_may_stall_recently_joined_consumers_only_until_the_broker_looks_at_them",
        by="small history",
        statement="Nothing is dispatched after a skip although no consumer is recently joined, or another consumer added permits, or mark-delete advanced.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic) as missing if not topic.drains and not missing.has_dispatched:
            return explained(broken, missing.left if _is_stalled_by_skip(state, missing) else ())
        case _:
            return None


def _is_stalled_by_skip(state: Example, missing: Undispatched) -> bool:
    """Whether nothing made the broker look at recently joined consumers since a skip, nor moved mark-delete: since then
    no consumer left or was sent a message, and only recently joined ones sent permits."""
    subscription = missing.subscription
    for past in since_reset(state, subscription):
        before, after = past.before.consumption.keyed_of(subscription), past.after.consumption
        if leaves_in(past, subscription) or has_dispatched(outcome_in(past, subscription)):
            return False
        name = permits_in(past, subscription)
        if name is not None and name not in before.joined:
            return False
        if _is_skip(past.step, subscription) and after.keyed_of(subscription).joined:
            return mark_delete(missing.state, subscription) <= mark_delete(after, subscription)
    return False


def _is_skip(step: Step, subscription: SubscriptionId) -> bool:
    match step.operation:
        case Skip(topic, name) | SkipAll(topic, name):
            return (topic, name) == subscription and not isinstance(step.outcome, Refused | Unknown | Skipped)
        case _:
            return False
