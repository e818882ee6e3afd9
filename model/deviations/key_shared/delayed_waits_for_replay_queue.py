from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from model.deviation import Deviation, Shadow
from model.deviations.looks import explained, hashed_before_4
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.liveness import Open, Receiver, owner_of
from model.log import Position
from model.subscriptions.evidence import Undispatched
from model.subscriptions.recently_joined import recent

ENTRY = Deviation(
    name="delayed-waits-for-replay-queue",
    rule="KEY-16",
    statement="While the replay queue has messages, a delayed message whose time has come is not dispatched, although its consumer has permits. One message that waits for permits of another consumer, or for a recently joined one, or that no consumer claims, is enough.",
    cause="PersistentDispatcherMultipleConsumers.getMessagesToReplayNow asks the tracker of delayed messages only if the replay queue is empty. In a Key_Shared subscription messages stay there until their own consumer has permits. The timer of the tracker triggers a read, which looks at the replay queue again. Read in the classes of 2.7.4, 2.8.2, 2.9.1, 2.10.1 and 2.11.0; 2.10.5, 3.0.7, 3.2.3, 3.3.5, 3.3.6 and 4.0.8 move due messages from the tracker into the replay queue first.",
    side="broker",
    releases=(">=2.7.4,<=2.10.4", "==2.11.0", "==3.0.0"),
    seen=("2.11.0", "2.10.1", "3.0.0", "2.10.2", "2.10.3", "2.10.4"),
    occurrence="Every time, in 10 steps.",
    shadow=Shadow(
        name="test_a_delayed_message_waits_for_the_replay_queue_only_while_that_has_messages",
        by="small history",
        statement="With nothing in the replay queue the delayed message is due, as is one without a delay, or one that was delivered before.",
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Undispatched(topic=topic) as missing if not topic.drains and topic.delayed:
            joined, got = missing.keyed.joined, missing.keyed.got
            limits = {name: joined[name].delivered for name in recent(missing.state, missing.subscription)}
            entries = hashed_before_4(missing)
            if not keeps_queue(entries, missing.receivers, limits, is_waiting=missing.is_waiting):
                return None
            return explained(broken, frozenset(at for at in missing.left if topic.is_delayed(at) and at not in got))
        case _:
            return None


def keeps_queue(
    entries: Iterable[Open], receivers: Sequence[Receiver], limits: Mapping[str, Position], *, is_waiting: bool
) -> bool:
    """Whether the replay queue keeps messages.

    Their consumers have no permits, and the broker waits, or reads them again and again while there are recently joined
    consumers; or they have no consumer, or a recently joined one, and it reads them again and again instead of waiting,
    delayed or not. ``limits``: the recently joined consumers, and the last entry that each may receive.
    """
    waiting = [(entry, owner_of(entry.hashed, receivers)) for entry in entries if entry.holder is None]
    owners = [owner for entry, owner in waiting if not entry.is_not_due]
    is_blocked = any(owner is not None and owner.permits <= 0 for owner in owners)
    is_read_again = any(
        owner is not None and entry.position > limits.get(owner.name, entry.position)
        for entry, owner in waiting
        if not (is_waiting and entry.is_not_due)
    )
    return ((is_waiting or bool(limits)) and is_blocked) or is_read_again or None in owners
