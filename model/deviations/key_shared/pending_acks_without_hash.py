from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.looks import explained, last_leave, were_together
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.liveness import owner_of
from model.log import Position
from model.subscriptions.evidence import OvertakesLeaver, OvertakesReplay, Received, Undispatched

ENTRY = Deviation(
    name="pending-acks-without-hash",
    aliases=("left-without-hash",),
    rule="KEY-06",
    also=("KEY-16",),
    statement="Messages of a consumer that left are in the replay queue with hash 0. They are starved while the consumer of hash 0 has no permits, and new messages of their keys are dispatched before them.",
    cause="PersistentStickyKeyDispatcherMultipleConsumersClassic.trySendMessagesToConsumers passes no hashes to Consumer.sendMessages. Since 4.0 that does not compute them itself, so PendingAcksMap keeps 0 for each message (STICKY_KEY_HASH_NOT_SET). PersistentDispatcherMultipleConsumersClassic.removeConsumer adds the messages to the replay queue with that hash. filterOutEntriesWillBeDiscarded omits them if the consumer of hash 0 has no permits. A normal read does not find their real hashes in the queue (containsStickyKeyHashes), so it dispatches new messages (4.0.8). The same happens to messages that were being read when the consumer left.",
    searched="2026-11-30: `Key_Shared classic dispatcher sticky key hash 0 addMessageToReplay`; nothing similar.",
    side="broker",
    switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
    seen=("4.0.8 classic", "4.0.4 classic", "5.0.0-M1 classic"),
    occurrence="Every time, in 14 steps.",
    shadow=Shadow(
        name="test_pending_acks_without_hash_keep_their_order_among_each_other",
        by="small history",
        statement="The messages that a consumer had when it left are replayed in another order than that of the log.",
        missed_before=True,
    ),
)


LOWEST_HASH = 1
"""Messages without a hash are assigned to the consumer that owns this one."""


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic) as missing if not topic.drains:
            return explained(broken, _without_hash(missing))
        case Received(is_classic=False):
            return None
        case OvertakesLeaver() as one if _is_passed(state, one) and not were_together(state, one):
            return broken.passing()
        case OvertakesReplay(left=(_, _)) as one if _is_passed(state, one):
            return broken.passing()
        case _:
            return None


def _without_hash(missing: Undispatched) -> frozenset[Position]:
    """The due entries of consumers that left, if the consumer of the lowest hash has no permits."""
    lowest = owner_of(LOWEST_HASH, missing.receivers)
    if lowest is None or lowest.permits > 0:
        return frozenset()
    due_again = missing.state.due(missing.subscription)
    left = {message[1].position for message, why in due_again.items() if why == "left"}
    return missing.left & left & missing.keyed.replays.keys()  # without consumers there is no replay queue


def _is_passed(state: Example, one: Received) -> bool:
    """Whether others may be delivered before messages without a hash, which wait for permits of another consumer, and
    do not block a read that was pending."""
    has_others = any(name != one.name for name, _ in one.state.consumers_of(one.subscription))
    return has_others or last_leave(state, one.subscription) is not None
