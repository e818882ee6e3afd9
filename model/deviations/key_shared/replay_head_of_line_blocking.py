from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import stalls
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.liveness import owner_of
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.subscriptions.invariant import is_ordered

ENTRY = Deviation(
    name="replay-head-of-line-blocking",
    aliases=("put-aside-in-turn",),
    rule="KEY-13",
    statement="After redelivery requests, or with out-of-order delivery, the dispatcher replays messages in the order of the log. Messages for a consumer without permits block later ones for consumers with permits.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.ReplayPositionFilter accepts every position with out-of-order delivery, and every position without a hash. A nack or a redelivery request leaves such positions in the replay queue. getMessagesToReplayNow takes as many of the first ones as there are permits in all, whichever consumer they belong to (4.0.8). filterAndGroupEntriesForDispatching returns those without permits and requests a look-ahead, and the next read waits at the end of the log. Related to apache/pulsar#23845.",
    upstream=("apache/pulsar#23845",),
    side="broker",
    releases=(">=4.0.4,<=5.0.0-M1",),
    seen=("4.0.8", "4.0.4", "4.2.4", "5.0.0-M1"),
    occurrence="Nothing was dispatched in 25 seconds, with 30 messages in the replay queue.",
    shadow=Shadow(
        name="test_only_a_message_whose_consumer_has_no_permits_blocks_later_ones_in_replay",
        by="small history",
        statement="A message is not dispatched although none before it is for a consumer without permits.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    return stalls(state, broken, _behind_blocked, is_classic=False, ends=lambda *_: False)


def _behind_blocked(state: Example, missing: Undispatched) -> frozenset[Position]:
    """The due entries after one whose hash the replay queue lacks, and whose consumer cannot take it."""
    due_again = missing.state.due(missing.subscription)
    nacked = {message[1].position for message, why in due_again.items() if why == "nacked"}
    is_any = not is_ordered(missing.state, missing.subscription)
    ready = {entry.hashed for entry in missing.entries if entry.position in missing.owed}
    blocked = [
        entry.position
        for entry in missing.entries
        if entry.holder is None
        and (is_any or entry.position in nacked)
        and entry.hashed not in ready
        and owner_of(entry.hashed, missing.receivers)
    ]
    return frozenset(at for at in missing.owed if blocked and at > blocked[0])
