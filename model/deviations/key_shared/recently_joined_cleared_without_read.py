from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.looks import (
    explained,
    had_in,
    has_dispatched,
    leaves_in,
    names_of,
    outcome_in,
    reads_in,
    since_reset,
)
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.log import EARLIEST
from model.subscriptions import recently_joined
from model.subscriptions.evidence import Undispatched
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="recently-joined-cleared-without-read",
    rule="KEY-16",
    statement="With the classic implementation, all consumers but a recently joined one leave, the last of them without pending messages. The consumer that is left has permits, but receives no message that was not read before, not even new ones, until a consumer adds permits, leaves or requests redelivery. Acks, and another consumer that joins without permits, do not end this.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.removeConsumer (since 4.0 PersistentStickyKeyDispatcherMultipleConsumersClassic) first calls super.removeConsumer, whose readMoreEntries does no normal read: the only consumer is still in recentlyJoinedConsumers (hasConsumersNeededNormalRead, since apache/pulsar#22245). Only then it clears that map. removeConsumersFromRecentJoinedConsumers finds it empty and returns false, so readMoreEntries is called again only if the replay queue has messages. No read is pending at the end of the topic, so new messages do not trigger one, and markDeletePositionMoveForward does nothing while the map is empty. 2.11.0 and 2.10.1 have the same removeConsumer, but read whoever is recently joined.",
    upstream=("apache/pulsar#22245",),
    side="broker",
    releases=(">=3.0.5,<3.1", ">=3.2.3,<4.0"),
    switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
    seen=(
        "3.3.6",
        "3.0.7",
        "3.2.3",
        "3.3.5",
        "4.0.8 classic",
        "4.0.4 classic",
        "4.2.4 classic",
        "5.0.0-M1 classic",
    ),
    gone=("2.11.0", "2.10.1"),
    fixed=("3.1",),
    occurrence="Every time, in 13 steps.",
    shadow=Shadow(
        name="test_the_last_leave_stalls_a_recently_joined_consumer_only_until_something_triggers_a_read",
        by="small history",
        statement="The consumer that is left receives nothing although it was not recently joined, the last one to leave had pending messages, another consumer is left, the broker waits for a new entry, or something triggered a read since. Or it lacks a message that was read before.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """It read in order, so it dispatched nothing after what it has not read. A replay queue with messages would have
    triggered a read."""
    match broken.evidence:
        case Undispatched(topic=topic) as missing if not topic.drains and _is_left_unread(state, missing):
            delivered = max(missing.keyed.got, default=EARLIEST)
            unread = (at for at in missing.left if at > delivered and at not in missing.keyed.replays)
            return explained(broken, frozenset(unread))
        case _:
            return None


def _is_left_unread(state: Example, missing: Undispatched) -> bool:
    """Whether the consumer was recently joined until the last other one left, and nothing triggered a read since.

    A look right after the leave may have received what was sent before.
    """
    if missing.is_waiting or missing.in_replay:
        return False
    subscription, received = missing.subscription, missing.has_dispatched
    was_received_later = False
    for past in since_reset(state, subscription):
        if leaves_in(past, subscription):
            return _clears_recently_joined(past, subscription) and not was_received_later
        if reads_in(past, subscription):
            return False
        outcome = outcome_in(past, subscription)
        if outcome is not None:
            was_received_later |= received
            received = has_dispatched(outcome)
    return False


def _clears_recently_joined(past: Past, subscription: SubscriptionId) -> bool:
    """Whether a consumer left without pending messages, and only a recently joined one is left."""
    left, rest, before = leaves_in(past, subscription), names_of(past.after, subscription), past.before.consumption
    if len(rest) != 1 or any(had_in(past, subscription, name) for name in left):
        return False
    is_recent = bool(recently_joined.recent(before, subscription) - left)
    return is_recent and all(past.after.consumption.consumers[name].keeps_keys for name in rest)
