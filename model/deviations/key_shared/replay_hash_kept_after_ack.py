from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import since_reset, stalls, undispatched_at
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.expiry_operations import Skipping
from model.judgement import Broken
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.subscriptions.invariant import hash_of
from model.subscriptions.membership import mark_delete
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="replay-hash-kept-after-ack",
    aliases=("acknowledged-blocks-hash",),
    rule="KEY-13",
    statement="A message that is acknowledged, skipped or expires while it is in the replay queue keeps blocking its hash. Messages of that hash go to the replay queue, too, and are dispatched only with the next new message.",
    cause="MessageRedeliveryController.removeAllUpTo removes from the replay queue what mark-delete passed, and forgets the hashes only if the bitmap reports a change. ConcurrentBitmapSortedLongPairSet.removeUpTo (line 97, 4.0.8) uses RoaringBitmap.contains(0, end), which is true only if every entry of the ledger up to there was in the queue. So the hash stays in hashesRefCount, and PersistentStickyKeyDispatcherMultipleConsumers blocks what it reads of it, looks ahead once, and waits at the end of the log. The broker's debug log shows it. Read in 4.0.1, 4.0.7, 4.0.8, 4.2.4 and 5.0.0-M1.",
    searched="2026-11-30: `Key_Shared replay queue hash MessageRedeliveryController acknowledged`; nearest is apache/pulsar#23845: nothing reads the replay queue.",
    side="broker",
    releases=(">=4.0.1,<=5.0.0-M1",),
    seen=("4.0.8",),
    read=("5.0.0-M1",),
    shadow=Shadow(
        name="test_a_hash_that_is_kept_after_an_ack_blocks_only_what_is_read_once_mark_delete_passed_the_message",
        by="small history",
        statement="A message stays blocked after further permits, or although mark-delete has not passed the acknowledged one.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return stalls(state, broken, _of_kept_hash, is_classic=False)


def _of_kept_hash(state: Example, missing: Undispatched) -> frozenset[Position]:
    """The due entries with the hash of a message that was acknowledged in the replay queue, if mark-delete has passed
    it. One that was missing at the last look is in the replay queue itself, where its hash no longer matters."""
    subscription, now = missing.subscription, missing.state
    last, keys = mark_delete(now, subscription), now.log(subscription.topic).keys
    passed = {at for at in _acknowledged_in_queue(state, subscription) if at <= last and at in keys}
    hashes = {hash_of(now, subscription, at) for at in passed}
    if not hashes:
        return frozenset()
    looks = (undispatched_at(past, subscription) for past in since_reset(state, subscription))
    before = next((one for one in looks if one is not None), None)
    was_missing = frozenset(before.owed) if before is not None else frozenset[Position]()
    return (
        frozenset(one.position for one in missing.entries if one.hashed in hashes) & missing.owed.keys() - was_missing
    )


def _acknowledged_in_queue(state: Example, subscription: SubscriptionId) -> set[Position]:
    """The entries that were acknowledged while they may have been in the replay queue: those due for redelivery, and
    those that an administrator skipped or expired, and no consumer had."""
    return {at for past in since_reset(state, subscription) for at in _acknowledged_by(past, subscription)}


def _acknowledged_by(past: Past, subscription: SubscriptionId) -> set[Position]:
    before, after = past.before.consumption, past.after.consumption
    if subscription not in before.cursors or subscription not in after.cursors:
        return set()
    gone = set(before.due(subscription)) - set(after.due(subscription))
    if isinstance(past.step.operation, Skipping):
        pending = {message for _, one in before.consumers_of(subscription) for message in one.unacknowledged}
        gone |= before.all_left(subscription) - pending
    if not gone:
        return set()
    possible = after.cursors[subscription].possible
    return {place.position for _, place in gone if all(one.has_message(place) for one in possible)}
