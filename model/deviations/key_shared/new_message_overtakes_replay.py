from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.looks import had_replays, permits_of, ready
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.subscriptions.evidence import OvertakesReplay

ENTRY = Deviation(
    name="new-message-overtakes-replay",
    aliases=("asked-again-passed",),
    rule="KEY-09",
    statement="The replay queue has no hash for a message whose redelivery a consumer requested. So the broker dispatches new messages of that hash before it. With draining hashes, this needs earlier messages in the queue, for a consumer without permits, or no permits at all when the new message is sent.",
    cause="PersistentDispatcherMultipleConsumers.redeliverUnacknowledgedMessages adds positions to the replay queue without their hashes. Until the message is read once, PersistentStickyKeyDispatcherMultipleConsumers does not find its hash there (containsStickyKeyHashes). If it cannot replay, it reads new messages (isDispatcherStuckOnReplays) and dispatches them. 4.0.8 replays as many of the first positions as there are permits, whichever consumer they belong to; if it can dispatch none of them, it looks ahead.",
    side="broker",
    releases=("<4.0",),
    seldom=("==4.0.8",),
    switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
    seen=("3.3.6", "4.0.8", "4.0.8 classic", "5.0.0-M1 classic"),
    occurrence="On 4.0.8 in 17 of 30 replays of 13 steps: `pulsar-conformance replay docs/histories/KEY-09-on-4.0.8.json --broker 4.0.8 --known none --times 10`.",
    shadow=Shadow(
        name="test_a_new_message_overtakes_no_hash_that_is_in_the_replay_queue_because_a_consumer_left",
        by="small history",
        statement="A new message is dispatched although the replay queue also has a message of its hash from a consumer that left.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case OvertakesReplay(left=None) as one if _may_be_without_hash(state, one):
            return broken.passing()
        case _:
            return None


def _may_be_without_hash(state: Example, one: OvertakesReplay) -> bool:
    """Whether the replay queue may not have the hash of the message whose redelivery was requested.

    It has none until the message is read for replay. With draining hashes, that is put off only by earlier messages in
    the queue, which other consumers may have no permits for, or while no consumer has permits.
    """
    subscription = one.subscription
    had_permits = not permits_of(state, subscription) or bool(ready(state, subscription))
    if one.is_classic or (had_replays(state, subscription) and not had_permits):
        return True
    nacked = one.first[1].position
    is_first = all(
        why != "nacked" or message[1].position >= nacked for message, why in one.state.due(subscription).items()
    )
    return not is_first and sum(1 for _ in one.state.consumers_of(subscription)) > 1
