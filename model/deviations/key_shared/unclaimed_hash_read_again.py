from __future__ import annotations

from model.deviation import Deviation, Shadow
from model.deviations.looks import explained, hashed_before_4
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.liveness import owner_of
from model.log import Position
from model.subscriptions.evidence import Undispatched

ENTRY = Deviation(
    name="unclaimed-hash-read-again",
    rule="KEY-16",
    statement="The broker reads a message whose hash no STICKY consumer claims, and from then on no new message: it reads that one again and again.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers.trySendMessagesToConsumers puts the message into the replay queue, sends nothing, and finds no consumer without permits. So it does not set isDispatcherStuckOnReplays (line 329, 2.11.0), and the next read replays the message again: 8,250 times in 3 s in the debug log. apache/pulsar#20335, in 2.10.5, 2.11.2 and 3.0.1, sets the flag in that case, too (read in the sources of 2.10.4, 2.10.5, 3.0.0 and 3.2.2).",
    upstream=("apache/pulsar#20335",),
    side="broker",
    releases=(">=2.10.0,<2.10.5", ">=2.11.0,<2.11.2", "==3.0.0"),
    seen=("2.11.0", "2.10.1", "2.10.0"),
    read=("3.0.0",),
    gone=("3.3.6",),
    occurrence="Every time, in 7 steps.",
    shadow=Shadow(
        name="test_an_unclaimed_hash_keeps_only_later_messages_from_being_read_and_only_while_the_broker_reads",
        by="small history",
        statement="A message is not dispatched although no earlier one is unclaimed, although an earlier one is of a consumer without permits, or although the broker waits for a new entry.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic, is_waiting=False) as missing if not topic.drains:
            return explained(broken, _behind_unclaimed(missing) & missing.left)
        case _:
            return None


def _behind_unclaimed(missing: Undispatched) -> frozenset[Position]:
    """The entries after one without a consumer. The dispatcher looks ahead only if it finds a consumer without
    permits."""
    is_unclaimed, found = False, set[Position]()
    for entry in hashed_before_4(missing):
        if entry.holder is not None:
            continue
        owner = owner_of(entry.hashed, missing.receivers)
        if owner is None:
            is_unclaimed = True
        elif owner.permits <= 0:
            break
        elif is_unclaimed and entry.position in missing.owed:
            found.add(entry.position)
    return frozenset(found)
