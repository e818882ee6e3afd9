from __future__ import annotations

from collections import Counter

from model.chunking.dispatch import is_pressed
from model.chunking.evidence import ChunksUndispatched
from model.chunking.stored_chunks import wholes
from model.deviation import Deviation, Shadow
from model.deviations.chunk_dispatch import is_look, undispatched_at
from model.deviations.facts import is_reloaded_by
from model.events import ReceivedMessages, Starved
from model.example.state import Example, Judgement
from model.example.step import Step
from model.judgement import Broken
from model.log import Position
from model.subscription_operations import Receive
from model.subscriptions import chunks
from model.subscriptions.counts import Starving
from model.vocabulary import SubscriptionId

ENTRY = Deviation(
    name="chunk-assigned-beyond-permits",
    rule="CHUNK-15",
    statement="With several consumers on a Shared subscription, the last chunks of a message are not dispatched to the consumer that has the first ones, nor is anything after them. It needs a receiver queue with fewer messages than the message has chunks. Permits do not end that; the subscription recovers when that consumer leaves or the topic is reloaded.",
    cause="SharedConsumerAssignor counts a chunk against the permits of the consumer whose turn it is, and not of the consumer that has the message. So a read may assign that consumer more chunks than it has permits for. It forgets the message with the last chunk, although the dispatcher returns the chunks beyond the permits to the replay queue. From then on these chunks have no consumer: the dispatcher replays them again and again without a pause, and reads nothing new (4.0.8, 3.3.6). 4.2.4 counts the chunk against the permits of the consumer that has the message.",
    upstream=("apache/pulsar#25620",),
    side="broker",
    releases=(">=2.11.0,<=4.0.8",),
    seen=("4.0.8", "3.3.6", "2.11.0"),
    shadow=Shadow(
        name="test_a_last_chunk_is_lost_by_a_deviation_only_if_the_permits_may_have_been_used_up",
        by="small history",
        statement="The last chunk is not dispatched although its consumer had permits left after the others.",
        missed_before=True,
    ),
)


def explains(state: Example, step: Step, broken: Broken) -> Judgement | None:
    match broken.evidence:
        case ChunksUndispatched() as undispatched if _is_stalled(state, undispatched):
            return broken.passing()
        case Starving() as starving if any(
            _is_last_one_lost(state, step, starving, one) for one in chunks.shared(starving)
        ):
            return broken.passing()
        case _:
            return None


# -------------------------------------------------------------------------------------- entries of the wire's clients


def _is_last_one_lost(state: Example, step: Step, starving: Starving, subscription: SubscriptionId) -> bool:
    """Whether a last chunk is left alone of a message whose first ones a consumer has, perhaps without permits left."""
    found = chunks.of(starving.state, subscription, starving.consumers)
    log, here = starving.state.log(subscription.topic).chunks, list(starving.state.consumers_of(subscription))
    left = Counter(chunk.uuid for chunk in found.chunks)
    within_permits = {log[position].uuid for position in _in_time(state, step) if position in log}
    is_lost = any(
        one.is_last and left[one.uuid] == 1 and found.holder(one) and one.uuid not in within_permits
        for one in found.chunks
    )
    return is_lost and len(here) > 1 and not any(map(found.may_wait, found.chunks))


def _in_time(state: Example, step: Step) -> tuple[Position, ...]:
    """The entries that a consumer received now, if it surely had permits left after them.

    Permits from before may run out after any message. A batch takes some for its acknowledged messages, too.
    """
    match step.operation, step.outcome:
        case Receive(name, count), ReceivedMessages(messages) | Starved(messages=messages):
            consumer = state.consumption.consumers[name]
            may_run_out = consumer.had_permits_left or any(one.batch_index >= 0 for one in messages)
            return () if may_run_out or len(messages) >= count else tuple(one.position for one in messages)
        case _:
            return ()


# ------------------------------------------------------------------------------------------------------ chunked topics


def _is_stalled(state: Example, undispatched: ChunksUndispatched) -> bool:
    """Whether the first due entry was assigned beyond permits. Permits do not end that, but a leave of the consumer."""
    if _may_be_assigned(undispatched):
        return True
    for past in state.trace:
        if is_reloaded_by(past, undispatched.subscription.topic):
            return False
        if is_look(past.step, undispatched.subscription):
            earlier = undispatched_at(past, undispatched.subscription)
            if earlier.owed[:1] != undispatched.owed[:1] or not _holders(earlier) <= undispatched.consumers.keys():
                return False
            if _may_be_assigned(earlier):
                return True
    return False


def _holders(undispatched: ChunksUndispatched) -> frozenset[str]:
    """The consumers with chunks of the message of the first due entry."""
    messages = ({entry.position for entry in whole} for whole in wholes(undispatched.topic.log))
    of_message = next((whole for whole in messages if undispatched.owed[0] in whole), set[Position]())
    return frozenset(name for name, one in undispatched.consumers.items() if not one.holds.isdisjoint(of_message))


def _may_be_assigned(undispatched: ChunksUndispatched) -> bool:
    """Whether one of several Shared consumers has only the first chunks of a message, for lack of permits.

    The first due entry must be the next chunk. The stall ends when that consumer leaves: its entries are then replayed
    from the first chunk on.
    """
    consumers, first = undispatched.consumers, undispatched.owed[0]
    if len(consumers) < 2 or any(consumer.kind != "Shared" for consumer in consumers.values()):
        return False
    for whole in ([entry.position for entry in whole] for whole in wholes(undispatched.topic.log)):
        if first in whole[1:]:
            before = set(whole[: whole.index(first)])
            having = [name for name, consumer in consumers.items() if not consumer.holds.isdisjoint(whole)]
            return any(
                consumers[name].holds & set(whole) == before and is_pressed(consumers[name], whole) for name in having
            )
    return False
