from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import explained, is_woken, shown_at, since_reset
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.evidence import Uncleared, Undispatched, WronglyDraining
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="draining-refcount-doubled",
    aliases=("counted-on-top",),
    rule="KEY-11",
    also=("KEY-05",),
    statement="If a draining hash moves back to its consumer and away again, its pending messages are counted twice. The hash never drains, and its messages stay blocked until all consumers leave.",
    cause="DrainingHashesTracker.addEntry raises the count of an existing entry. A hash that moved back leaves the tracker only when a message of it is about to be dispatched (shouldBlockStickyKeyHash). If it moves away before that, PersistentStickyKeyDispatcherMultipleConsumers.registerDrainingHashes adds its pending messages again (4.0.1 and 4.0.4). Fixed by apache/pulsar#24736, in 4.0.7.",
    upstream=("apache/pulsar#24736",),
    side="broker",
    releases=(">=4.0.0,<=4.0.6",),
    seen=("4.0.4", "4.0.6"),
    gone=("4.0.8",),
    shadow=Shadow(
        name="test_a_hash_that_moved_away_again_has_twice_its_pending_messages_and_is_blocked_for_others_only",
        by="small history",
        statement="A part of the pending messages is counted twice, an ack does not lower the count, or the hash is blocked for the consumer at which it drains.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    """The hash never drains, and stays blocked for other consumers. When it leaves the stats, it may not count."""
    match broken.evidence:
        case WronglyDraining() as wrong if _is_counted_twice(state, wrong):
            return broken.passing()
        case Undispatched(topic=topic) as missing if topic.drains:
            hashes = {entry.position: entry.hashed for entry in missing.entries}
            never = (at for at in missing.left if _never_drains(state, missing, hashes[at], missing.owed[at]))
            return explained(broken, frozenset(never))
        case Uncleared() as one:
            twice = frozenset(
                each for each in one.gone if _surplus(state, one.subscription, each, one.name) is not None
            )
            return broken.passing(None if one.missing <= len(twice) else twice) if twice else None
        case _:
            return None


def _is_counted_twice(state: Example, wrong: WronglyDraining) -> bool:
    """Whether a hash that returned moved away again, which adds its pending entries of that time to its count.

    The surplus then stays the same. It has at least the entries that are still pending, and no part of them if none has
    been acknowledged since.
    """
    one, keyed = wrong.mismatch, wrong.state.keyed_of(wrong.subscription)
    waits, surplus = one.waits_for, one.surplus
    drained_at = (keyed.back.updated(keyed.draining) if keyed.has_left else keyed.back).get(one.hashed)
    may_be_back = drained_at == one.consumer or (drained_at is None and keyed.has_left)
    before = _surplus(state, wrong.subscription, one.hashed, one.consumer)
    if before is not None:
        return surplus == before or (may_be_back and surplus > before)
    return may_be_back and 0 < waits <= surplus and (is_woken(state, wrong.subscription) or surplus % waits == 0)


def _never_drains(state: Example, missing: Undispatched, hashed: int, consumer: str) -> bool:
    """Whether a hash stays blocked for this consumer, because another one has it and it is counted twice."""
    names = (name for name, _ in missing.state.consumers_of(missing.subscription) if name != consumer)
    return any(_surplus(state, missing.subscription, hashed, name) is not None for name in names)


def _surplus(state: Example, subscription: SubscriptionId, hashed: int, consumer: str) -> int | None:
    """How many pending entries of a hash too many are counted at a consumer; None if its count is right.

    The stats show nothing of consumers that left. A dispatch of a hash that returned to its consumer ends its count.
    """
    for past in since_reset(state, subscription):
        if (shown := shown_at(past, subscription)) is None:
            continue
        found = (one for one in shown.mismatches() if (one.hashed, one.consumer) == (hashed, consumer))
        if (wrong := next(found, None)) is not None:
            seen = WronglyDraining(shown.state, subscription, wrong, shown.outcome)
            return wrong.surplus if _is_counted_twice(past.before, seen) else None
        is_here = any(read.consumer == consumer for read in shown.outcome.consumers)
        if hashed not in shown.unsure and is_here and shown.back.get(hashed) != consumer:
            return None
    return None
