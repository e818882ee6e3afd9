from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import explained, hashed_before_4, since_reset, undispatched_at
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.liveness import owner_of
from model.log import Position
from model.subscriptions.evidence import OvertakesInLog, Undispatched
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="unclaimed-message-dropped",
    rule="KEY-16",
    also=("KEY-02",),
    statement="A message whose hash no consumer claims is not dispatched to a consumer that claims it later, until the last consumer leaves or the topic is reloaded.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.sendMessagesToConsumers releases an entry for which the selector has no consumer (2.9.1, line 216; 2.7.4 and 2.8.2, line 185). The read position is past it by then, and it is not in the replay queue. 2.7.2, 2.8.0 and 2.10.0 add it to that queue.",
    side="broker",
    releases=(">=2.7.4,<2.8.0", ">=2.8.1,<2.10.0"),
    seen=("2.9.1", "2.8.2", "2.7.4"),
    occurrence="Every time, in 13 steps.",
    shadow=Shadow(
        name="test_a_message_is_dropped_only_if_it_was_read_while_no_consumer_claimed_its_hash",
        by="small history",
        statement="A message is not dispatched although a consumer claimed its hash all the time, or although no consumer had permits before.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic) as missing if not topic.drains:
            dropped = _dropped_before(state, missing.subscription) | _dropped_at(missing)
            return explained(broken, missing.left & dropped)
        case OvertakesInLog(is_classic=True) as one:
            dropped = _dropped_before(state, one.subscription)
            return broken.passing() if dropped.issuperset(place.position for _, place in one.earlier) else None
        case _:
            return None


def _dropped_before(state: Example, subscription: SubscriptionId) -> frozenset[Position]:
    looks = (undispatched_at(past, subscription) for past in since_reset(state, subscription))
    return frozenset(at for missing in looks if missing is not None for at in _dropped_at(missing))


def _dropped_at(missing: Undispatched) -> frozenset[Position]:
    """The entries that the broker may have read while no consumer claimed their hash.

    A consumer with permits makes it read. Entries in the replay queue stay there.
    """
    if all(one.permits <= 0 for one in missing.receivers):
        return frozenset()
    replays = missing.keyed.replays
    waiting = (one for one in hashed_before_4(missing) if one.holder is None and one.position not in replays)
    return frozenset(one.position for one in waiting if owner_of(one.hashed, missing.receivers) is None)
