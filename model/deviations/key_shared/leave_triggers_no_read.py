from __future__ import annotations

from collections.abc import Iterator

from model.deviation import Deviation, Shadow
from model.deviations.looks import (
    had_in,
    is_woken,
    last_of,
    leaves_in,
    nacks_in,
    permits_in,
    ranges_of,
    ready,
    since_look,
    stalls,
)
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.hashes import AUTO_SPLIT_HASHES
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.vocabulary import HashRange, SubscriptionId

ENTRY = Deviation(
    name="leave-triggers-no-read",
    aliases=("replay-waits-for-news",),
    rule="KEY-13",
    statement="A consumer without permits leaves with no unacknowledged message. Its blocked messages stay in the replay queue until a consumer adds permits, a message is published, or mark-delete advances.",
    cause="PersistentDispatcherMultipleConsumers.removeConsumer triggers a read only if it added messages of the consumer to the replay queue (notifyAddedToReplay, 4.0.8 and 4.2.4). Nothing looks at messages that are in that queue already and now belong to other consumers: the pending read waits at the end of the log (subscriptionHavePendingRead). apache/pulsar#23845 describes that state; apache/pulsar#24736, in 4.0.7, fixed one way to it.",
    upstream=("apache/pulsar#23845",),
    side="broker",
    releases=(">=4.0.0,<=5.0.1",),
    seen=("4.0.8", "4.0.4", "4.2.4", "4.0.0", "4.0.1", "5.0.1"),
    shadow=Shadow(
        name="test_a_leave_excuses_only_what_it_may_have_unblocked_until_the_next_read",
        by="small history",
        statement="After the leave a message is not dispatched although a consumer adds permits, although it was sent later, or although the consumer that left had permits.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return stalls(state, broken, _unread, is_classic=False)


def _unread(state: Example, missing: Undispatched) -> frozenset[Position]:
    """The due entries in the ranges of consumers that left, up to the last entry of the log then."""
    left = list(_left_without_read(state, missing.subscription))
    return frozenset(
        entry.position
        for entry in missing.entries
        if any(entry.position <= last and any(entry.hashed in own for own in ranges) for ranges, last in left)
    ).intersection(missing.owed)


def _left_without_read(
    state: Example, subscription: SubscriptionId
) -> Iterator[tuple[tuple[HashRange, ...], Position]]:
    """The ranges of the consumers that left since the last look without pending messages, and perhaps without permits,
    if nothing triggered a read since, and the last entry of the log then."""
    for past in since_look(state, subscription, with_blocked=False):
        if permits_in(past, subscription) is not None or nacks_in(past, subscription):
            return
        for name in leaves_in(past, subscription):
            if had_in(past, subscription, name):
                return
            had_permits = name in ready(past.before, subscription) and not is_woken(past.before, subscription)
            if not had_permits:  # with permits, no message was blocked for it
                ranges = ranges_of(past.before, subscription, name, AUTO_SPLIT_HASHES)
                yield ranges, last_of(past.before, subscription)
