from __future__ import annotations

from model.deviation import CLASSIC, Deviation, Shadow
from model.deviations.looks import last_leave, last_of, since_reset, was_sent_unseen, were_together
from model.example.state import Example, Judgement, Past
from model.example.step import Step
from model.judgement import Broken
from model.key_shared.state import Joined
from model.log import Position
from model.subscription_operations import Subscribe
from model.subscriptions.evidence import Divided, OvertakesInLog, OvertakesLeaver, OvertakesReplay, Received

ENTRY = Deviation(
    name="recently-joined-receives-replay",
    aliases=("joined-gets-earlier",),
    rule="KEY-01",
    also=("KEY-02", "KEY-06", "KEY-09"),
    statement="A consumer that joins receives messages of a key from the replay queue, although another consumer has an earlier message of that key unacknowledged. If that one leaves, its message comes later. If it is pulsar-client, the earlier message may be in its queue.",
    cause="PersistentStickyKeyDispatcherMultipleConsumers (4.0: ...Classic) lets a recently joined consumer receive everything up to the read position of the time it joined. Messages that were read by then, and not dispatched because the consumer of their key had no permits, are in the replay queue below that position. Nothing checks who has other messages of the key.",
    upstream=("apache/pulsar#23307",),
    side="broker",
    releases=("<4.0",),
    switched_on={CLASSIC: (">=4.0,<=5.0.0-M1",)},
    seen=("3.3.6", "2.11.0", "4.0.8 classic", "5.0.0-M1 classic"),
    occurrence="Every time, in 13 steps: `pulsar-conformance replay docs/histories/KEY-01-on-3.3.6.json --broker 3.3.6`. Where the earlier consumer received its messages and left unseen, in 27 of 30 (`docs/histories/KEY-06-on-3.3.6-unseen.json`); with pulsar-client on 2.11.0 in 5 of 5 (`docs/histories/KEY-02-on-2.11.0-queue.json`)",
    shadow=Shadow(
        name="test_a_key_is_divided_only_by_messages_that_were_there_when_a_consumer_joined",
        by="small history",
        statement="A message goes to a consumer although another one has a message of its key that was sent after the first one joined, or goes to a consumer that did not join others.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case Received(is_classic=False):
            return None
        case Divided() as one if _is_divided(one):
            return broken.passing()
        case OvertakesLeaver(first=(_, place)) as one:
            is_ahead = _is_ahead_of_leaver(state, one, place.position) and not were_together(state, one)
            return broken.passing() if is_ahead else None
        case OvertakesReplay(left=(_, place)) as one if _is_ahead_of_leaver(state, one, place.position):
            return broken.passing()
        case OvertakesInLog() as one if _is_ahead_of_queue(one):
            return broken.passing()
        case _:
            return None


def _is_divided(one: Divided) -> bool:
    """If the consumer is pulsar-client, it may have had the message in its queue when the other one joined."""
    is_official = one.state.consumers[one.name].client == "official"
    names = (one.name, one.other) if is_official else (one.name,)
    return any(_were_there(one, name, one.position, one.pending) for name in names)


def _were_there(one: Received, name: str, *positions: Position) -> bool:
    """Whether these entries were in the log when a consumer joined.

    The classic implementation compares read positions only, not the pending messages of a key. So the consumer may
    receive a message that was read before it joined, while another one has the key. The other one has it from before:
    later messages of the key are assigned to the consumer that joined.
    """
    joined = one.state.keyed_of(one.subscription).joined.get(name)
    return joined is not None and max(positions) <= joined.last


def _is_ahead_of_queue(one: OvertakesInLog) -> bool:
    """Whether another consumer, of pulsar-client, may have the earlier message in its queue, and so the key."""
    others = (consumer for other, consumer in one.state.consumers_of(one.subscription) if other != one.name)
    is_in_queue = any(consumer.client == "official" and consumer.keeps_keys for consumer in others)
    return is_in_queue and _were_there(one, one.name, one.position, one.first[1].position)


def _is_ahead_of_leaver(state: Example, one: Received, earlier: Position) -> bool:
    """Whether a consumer may have been sent a message before the consumer left that had an earlier one.

    A consumer that joins may receive both if they were read by then, no matter which consumer has them. The earlier one
    was at that consumer when the other one joined, or may have been sent to it since.
    """
    leave = last_leave(state, one.subscription)
    if leave is None:
        return False
    keyed = one.state.keyed_of(one.subscription)
    joined = keyed.joined.get(one.name) or _joined_until_leave(leave, one)
    if joined is None or one.position > min(joined.last, last_of(leave.before, one.subscription)):
        return False
    return not _is_in_replay_since_join(state, one, earlier) or was_sent_unseen(
        state, one.subscription, keyed.got.get(earlier, "")
    )


def _joined_until_leave(leave: Past, one: Received) -> Joined | None:
    """The read position at the join of the only consumer that was left."""
    return leave.before.consumption.keyed_of(one.subscription).joined.get(one.name)


def _is_in_replay_since_join(state: Example, one: Received, earlier: Position) -> bool:
    """Whether a message was in the replay queue when the consumer joined, and nobody had it since."""
    for past in since_reset(state, one.subscription):
        if earlier not in past.before.consumption.keyed_of(one.subscription).replays:
            return False
        if isinstance(past.step.operation, Subscribe) and past.step.operation.consumer == one.name:
            return True
    return False
