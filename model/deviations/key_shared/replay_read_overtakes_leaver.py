from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import had_replays, last_leave, last_of, leavers
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscriptions.evidence import OvertakesLeaver, OvertakesReplay, Received

ENTRY = Deviation(
    name="replay-read-overtakes-leaver",
    rule="KEY-06",
    also=("KEY-09",),
    statement="A consumer leaves while the broker reads messages from the replay queue that its draining hashes blocked, or that another consumer had which left just before. They are dispatched before the earlier messages of their keys that were unacknowledged at that consumer.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.canDispatchEntry holds a message back for others of its hash in the replay queue only in a normal read. A replay read that has started when removeConsumer adds the pending messages to the queue, and unblocks their hashes, does not have them (read in the bytecode of 4.0.8).",
    side="broker",
    seldom=("==4.0.8",),
    seen=("4.0.8",),
    occurrence="With the failpoint `join-slow`, in two of five checks with `keys-races`. In 1 of 40 replays of one history, in 1 of 4 of the other.",
    shadow=Shadow(
        name="test_what_was_read_for_replay_overtakes_only_a_consumer_that_has_just_left",
        by="small history",
        statement="A message is dispatched before those of a consumer that left earlier, or one that was published after it left.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Received(is_classic=True):
            return None
        case OvertakesLeaver(first=(_, place)) as one if _may_be_read(state, one, place.position):
            return broken.passing()
        case OvertakesReplay(left=(_, place)) as one if _may_be_read(state, one, place.position):
            return broken.passing()
        case _:
            return None


def _may_be_read(state: Example, one: Received, earlier: Position) -> bool:
    """Whether a replay read of a message may have been pending when the consumer left that had an earlier one.

    The message was in the log by then, and nothing was delivered since. The replay queue had messages, or got those
    that may have been sent to a consumer that left before.
    """
    leave, got = last_leave(state, one.subscription), one.state.keyed_of(one.subscription).got
    if leave is None or one.position > last_of(leave.before, one.subscription) or one.position in got:
        return False
    left = leavers(state, one.subscription)
    names, had = [name for name, _ in left], got.get(earlier, "")
    before = left[: names.index(had)] if had in names else []
    return had_replays(state, one.subscription) or any(may_be_ready for _, may_be_ready in before)
