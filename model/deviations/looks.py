"""What happened to a Key_Shared subscription between the looks at it, for the deviations of its dispatcher.

Each function searches the trace of a state. A *look* receives everything in flight and reads the stats. The search ends
where the dispatcher began to read: after a reset, an unload, or the leave of the last consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import takewhile

from model.deviations.facts import is_reloaded_by
from model.events import Acknowledged, CursorReset, DueReceived, RedeliveryRequested, Skipped
from model.example.state import Example, Judgement, Past
from model.judgement import Broken
from model.key_shared.liveness import Open
from model.key_shared.stats import receivers_of
from model.log import Position
from model.subscription_operations import AckById, Acknowledge, CutDuring, Nack, Permit, ReceiveAll, ReceiveDue
from model.subscriptions import draining, due
from model.subscriptions.administration import reset_by
from model.subscriptions.consumers import SHARED, Consumer, Message
from model.subscriptions.draining import Shown
from model.subscriptions.evidence import OvertakesLeaver, Undispatched
from model.subscriptions.invariant import hash_before_4
from model.subscriptions.state import Consumption
from model.vocabulary import HashRange, SubscriptionId

Cause = Callable[[Example, Undispatched], Collection[Position]]
"""The due entries that a deviation stalls at a look. The state is the one before the look."""

# --------------------------------------------------------------------------------------------------------------- steps


def names_of(state: Example, subscription: SubscriptionId) -> frozenset[str]:
    """The consumers of a subscription."""
    return frozenset(name for name, _ in state.consumption.consumers_of(subscription))


def leaves_in(past: Past, subscription: SubscriptionId) -> frozenset[str]:
    """The consumers that left in a step."""
    return names_of(past.before, subscription) - names_of(past.after, subscription)


def is_last_leave(past: Past, subscription: SubscriptionId) -> bool:
    """Whether the last consumer left in a step."""
    return bool(leaves_in(past, subscription)) and not names_of(past.after, subscription)


def is_reset(past: Past, subscription: SubscriptionId) -> bool:
    """Whether a step reloaded or reset the subscription."""
    return is_reloaded_by(past, subscription.topic) or subscription in reset_by(
        past.before.consumption, past.step.operation
    )


def permits_in(past: Past, subscription: SubscriptionId) -> str | None:
    """The consumer that sent permits in a step."""
    match past.step.operation:
        case Permit(name) if name in names_of(past.before, subscription):
            return None if isinstance(past.step.outcome, Skipped) else name
        case _:
            return None


def nacks_in(past: Past, subscription: SubscriptionId) -> bool:
    """Whether a consumer requested redelivery in a step."""
    match past.step.operation, past.step.outcome:
        case Nack(name), RedeliveryRequested() if name in names_of(past.before, subscription):
            had, has = (one.consumption.consumers[name].unacknowledged for one in (past.before, past.after))
            return len(has) < len(had)
        case _:
            return False


def acknowledges_in(past: Past, subscription: SubscriptionId) -> bool:
    """Whether a consumer acknowledged messages in a step."""
    match past.step.operation, past.step.outcome:
        case ((Acknowledge(name) | AckById(name)), Acknowledged()):
            return name in names_of(past.before, subscription)
        case _:
            return False


def reads_in(past: Past, subscription: SubscriptionId) -> bool:
    """Whether permits, a leave or a redelivery request made the dispatcher read the replay queue in a step."""
    is_read = permits_in(past, subscription) is not None or bool(leaves_in(past, subscription))
    return is_read or nacks_in(past, subscription)


def had_in(past: Past, subscription: SubscriptionId, name: str) -> bool:
    """Whether a consumer that left in a step had pending messages. It may have acknowledged the last ones before."""
    acked: set[tuple[Position, int]] = set()
    match past.step.operation, past.step.outcome:
        case CutDuring(doing=Acknowledge()), Acknowledged(messages):
            acked |= {(one.position, one.batch_index) for one in messages}
        case _:
            pass
    return any(
        topic == subscription.topic and (place.position, place.batch_index) not in acked
        for topic, place in past.before.consumption.consumers[name].unacknowledged
    )


def last_of(state: Example, subscription: SubscriptionId) -> Position:
    """The last entry of the log."""
    return state.consumption.log(subscription.topic).last


# --------------------------------------------------------------------------------------------------------------- looks


def outcome_in(past: Past, subscription: SubscriptionId) -> DueReceived | None:
    """What a step received and read, if it was a look at the subscription."""
    match past.step.operation, past.step.outcome:
        case ReceiveDue(topic, name), DueReceived() as outcome if (topic, name) == subscription:
            is_tracked = subscription in past.before.consumption.cursors
            return outcome if is_tracked and past.before.consumption.topics[topic].is_sure else None
        case _:
            return None


def since_reset(state: Example, subscription: SubscriptionId) -> Iterator[Past]:
    """The steps since the dispatcher began to read, the last one first."""

    def goes_on(past: Past) -> bool:
        return not is_reset(past, subscription) and not is_last_leave(past, subscription)

    return takewhile(goes_on, state.trace)


def since_look(state: Example, subscription: SubscriptionId, *, with_blocked: bool = True) -> Iterator[Past]:
    """The steps since the last look. ``with_blocked``: also if the subscription was blocked by its limit then."""
    for past in since_reset(state, subscription):
        outcome = outcome_in(past, subscription)
        if outcome is not None and (with_blocked or outcome.withheld is None):
            return
        yield past


def since_dispatch(state: Example, subscription: SubscriptionId) -> Iterator[Past]:
    """The steps since the last look that received anything."""
    return takewhile(lambda past: not has_dispatched(outcome_in(past, subscription)), since_reset(state, subscription))


def looks(state: Example, subscription: SubscriptionId) -> Iterator[tuple[Past, DueReceived]]:
    """The looks since the dispatcher began to read, the last one first."""
    for past in since_reset(state, subscription):
        if (outcome := outcome_in(past, subscription)) is not None:
            yield past, outcome


def has_dispatched(outcome: DueReceived | None) -> bool:
    return outcome is not None and any(read.messages for read in outcome.consumers)


def last_look(state: Example, subscription: SubscriptionId) -> DueReceived | None:
    return next((outcome for _, outcome in looks(state, subscription)), None)


def had_replays(state: Example, subscription: SubscriptionId) -> bool:
    """Whether messages were in the replay queue at the last look."""
    look = last_look(state, subscription)
    return look is not None and look.in_replay > 0


def permits_of(state: Example, subscription: SubscriptionId) -> dict[str, int]:
    """The permits at the last look, of the consumers that are still there."""
    look, here = last_look(state, subscription), names_of(state, subscription)
    return {} if look is None else {one.consumer: one.permits for one in look.consumers if one.consumer in here}


def ready(state: Example, subscription: SubscriptionId) -> frozenset[str]:
    """The consumers that had permits at the last look and are still there."""
    return frozenset(name for name, permits in permits_of(state, subscription).items() if permits > 0)


def permitted(state: Example, subscription: SubscriptionId) -> frozenset[str]:
    """The consumers that sent permits since the last look."""
    sent = (permits_in(past, subscription) for past in since_look(state, subscription, with_blocked=False))
    return frozenset(name for name in sent if name is not None)


def may_be_ready(state: Example, subscription: SubscriptionId) -> frozenset[str]:
    """The consumers that may have permits."""
    return ready(state, subscription) | permitted(state, subscription)


def is_asked(state: Example, subscription: SubscriptionId) -> bool:
    """Whether a consumer requested redelivery since the last look."""
    return any(nacks_in(past, subscription) for past in since_look(state, subscription))


def is_woken(state: Example, subscription: SubscriptionId) -> bool:
    """Whether a permit, a leave, an ack or a redelivery request triggered a read of the replay queue since the last
    look."""
    return any(
        reads_in(past, subscription) or acknowledges_in(past, subscription)
        for past in since_look(state, subscription, with_blocked=False)
    )


def leavers(state: Example, subscription: SubscriptionId) -> list[tuple[str, bool]]:
    """The consumers that left since the last look, in this order, and whether they may have had permits. If so,
    messages may have been sent to them unseen."""
    steps = list(since_look(state, subscription))
    return [
        (name, name in may_be_ready(past.before, subscription))
        for past in reversed(steps)
        for name in sorted(leaves_in(past, subscription))
    ]


def was_sent_unseen(state: Example, subscription: SubscriptionId, consumer: str) -> bool:
    """Whether the messages of a consumer that left may have been sent to another one since, which left as well."""
    left = leavers(state, subscription)
    names = [name for name, _ in left]
    after = names.index(consumer) + 1 if consumer in names else 0
    return any(may_be_ready for _, may_be_ready in left[after:])


def were_together(state: Example, one: OvertakesLeaver) -> bool:
    """Whether one consumer had both messages when it left. They enter the replay queue together, so their order stays,
    unless another consumer was sent some of them before it left."""
    got = one.state.keyed_of(one.subscription).got
    had = got.get(one.position)
    is_one = had is not None and had == got.get(one.first[1].position)
    return is_one and not was_sent_unseen(state, one.subscription, str(had))


def last_leave(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step in which a consumer left last, if others stayed and no look has received anything since."""
    return next((past for past in since_dispatch(state, subscription) if leaves_in(past, subscription)), None)


def last_gone(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step in which the last consumer with permits left, if no consumer had permits at a look since."""
    for past in since_reset(state, subscription):
        outcome = outcome_in(past, subscription)
        if outcome is not None and any(read.permits > 0 for read in outcome.consumers):
            return None
        before = past.before
        for name in leaves_in(past, subscription) & may_be_ready(before, subscription):
            is_last = not (may_be_ready(before, subscription) - {name})
            return past if is_last else None
    return None


def ranges_of(state: Example, subscription: SubscriptionId, name: str, every: HashRange) -> tuple[HashRange, ...]:
    """The possible ranges of a consumer since the last look: ``every`` hash, if it joined since or others left."""
    look = last_look(state, subscription)
    own = [read.ranges for read in look.consumers if read.consumer == name] if look is not None else []
    return own[0] if own and own[0] is not None and not leavers(state, subscription) else (every,)


# ---------------------------------------------------------------------------------------------------- the last consumer


def pending_read(state: Example, subscription: SubscriptionId) -> Past | None:
    """The step in which the last consumer left during a read, perhaps, if the next consumers may still receive its
    result: nothing was delivered since, or what was read is in the replay queue, because nobody has permits."""
    for past in state.trace:
        if is_reset(past, subscription):
            return None
        if is_last_leave(past, subscription):
            keyed = past.before.consumption.keyed_of(subscription)
            is_sure = keyed.is_gathered and pending_read(past.before, subscription) is None
            is_disconnected = past.step.operation.topic is not None  # by the broker, which ends what it read
            return None if is_sure or is_disconnected else past
        outcome = outcome_in(past, subscription)
        if outcome is not None and has_dispatched(outcome):
            is_any_ready = any(read.permits > 0 for read in outcome.consumers)
            if is_any_ready or not outcome.in_replay:
                return None
    return None


def in_replay(state: Consumption, subscription: SubscriptionId, last: Consumer) -> frozenset[Message]:
    """What may have been in the replay queue as the last consumer left.

    Its own pending messages were not, unless it requested their redelivery. Other messages were if they were due for
    redelivery, or were read without permits, or are delayed.
    """
    topic = state.topics[subscription.topic]
    left = state.all_left(subscription) if topic.delayed or not last.is_settled else ()
    if last.is_settled:
        delayed = (message for message in left if topic.is_delayed(message[1].position))
        may_be_queued = redelivered(state, subscription).union(delayed)
    else:
        may_be_queued = frozenset(left)
    had = () if last.may_repeat else (message for message in last.unacknowledged if message not in last.requested_twice)
    return may_be_queued.difference(had)


def redelivered(state: Consumption, subscription: SubscriptionId) -> frozenset[Message]:
    return frozenset(message for message, why in state.due(subscription).items() if why != "unloaded")


def replay_read_in(past: Past, subscription: SubscriptionId) -> frozenset[Message] | None:
    """What may have been in a replay read when all consumers left in a step, or were disconnected. None: they did
    not."""
    before, after = past.before.consumption, past.after.consumption
    consumers = [one for _, one in before.consumers_of(subscription)]
    is_disconnected = isinstance(past.step.operation, ReceiveAll) or (
        isinstance(past.step.outcome, CursorReset) and subscription in reset_by(before, past.step.operation)
    )
    if not consumers or consumers[0].kind not in SHARED or subscription not in after.cursors:
        return None
    if is_disconnected:
        return in_replay(before, subscription, consumers[0]) if len(consumers) == 1 else before.all_left(subscription)
    return in_replay(after, subscription, consumers[-1]) if is_last_leave(past, subscription) else None


def leaves_replay_read(state: Consumption, subscription: SubscriptionId) -> bool:
    """Whether a replay read may be pending if all consumers leave now. That a delayed message is replayed in the very
    moment is no reason to expect it on Shared."""
    consumers = [consumer for _, consumer in state.consumers_of(subscription) if consumer.kind in SHARED]
    if len(consumers) != 1:
        return len(consumers) > 1 and bool(state.all_left(subscription))
    (last,), had_leavers = consumers, state.keyed_of(subscription).has_left
    is_expected = last.kind == "Key_Shared" or had_leavers or bool(redelivered(state, subscription))
    return is_expected and bool(in_replay(state, subscription, last))


def may_wait_before_rewind(state: Example, subscription: SubscriptionId) -> bool:
    """Whether a replay read may have been pending when the last consumer left, and nothing was written since."""
    past = pending_read(state, subscription)
    if past is None or last_of(past.before, subscription) != last_of(state, subscription):
        return False
    return leaves_replay_read(past.before.consumption, subscription)


# -------------------------------------------------------------------------------------------------------------- stalls


def undispatched_at(past: Past, subscription: SubscriptionId) -> Undispatched | None:
    """The due entries that a look did not receive. None: it was no look, or one that judges no dispatch."""
    outcome = outcome_in(past, subscription)
    if outcome is None or outcome.withheld is not None:
        return None
    receivers, after = receivers_of(outcome), past.after.consumption
    if receivers is None or any(one.client != "wire" for _, one in after.consumers_of(subscription)):
        return None
    return due.undispatched(after, subscription, outcome, receivers)


def shown_at(past: Past, subscription: SubscriptionId) -> Shown | None:
    """What the stats showed of draining hashes at a look. None: it was no look, or they were not judged."""
    missing, outcome = undispatched_at(past, subscription), outcome_in(past, subscription)
    if missing is None or outcome is None:
        return None
    before = past.before.consumption.keyed_of(subscription)
    after = replace(missing.keyed, draining=before.draining, back=before.back, cleared=before.cleared)
    after = replace(after, has_left=before.has_left)
    return draining.shown(missing.state.with_keyed(subscription, after), subscription, outcome, list(missing.receivers))


def crowded_out(missing: Undispatched) -> frozenset[Position]:
    """The entries that the classic implementation never looks at, because its replay queue begins with other ones, as
    many as there are permits."""
    if missing.topic.drains or not missing.is_waiting:
        return frozenset()
    permits = [one.permits for one in missing.receivers]
    room = max(sum(permits), min((one for one in permits if one > 0), default=0))
    in_the_way, found = 0, set[Position]()
    for entry in missing.entries:
        if entry.position in missing.owed and room <= in_the_way < missing.in_replay:
            found.add(entry.position)
        elif entry.holder is None and entry.position not in missing.owed:
            in_the_way += 1
    return frozenset(found)


def hashed_before_4(missing: Undispatched) -> list[Open]:
    """The unacknowledged entries with the hashes of releases before 4.0."""
    state, subscription = missing.state, missing.subscription
    return [replace(one, hashed=hash_before_4(state, subscription, one.position)) for one in missing.entries]


def ends_with_permits(past: Past, subscription: SubscriptionId) -> bool:
    """Whether a stall that any permits end has ended in a step."""
    return permits_in(past, subscription) is not None


def stalled(
    state: Example,
    missing: Undispatched,
    cause: Cause,
    ends: Callable[[Past, SubscriptionId], bool] = ends_with_permits,
) -> frozenset[Position]:
    """The due entries that a cause stalls. If one was stalled at an earlier look, it still is, unless something was
    dispatched since, or a step ``ends`` that."""
    found = missing.left & frozenset(cause(state, missing))
    going_on = frozenset[Position]() if missing.has_dispatched else missing.left - found
    for past in since_reset(state, missing.subscription):
        if not going_on or ends(past, missing.subscription):
            break
        if (earlier := undispatched_at(past, missing.subscription)) is not None:
            going_on &= earlier.owed.keys()
            again = going_on & frozenset(cause(past.before, earlier)) if going_on else going_on
            found, going_on = found | again, going_on - again
            if earlier.has_dispatched:
                break
    return found


def explained(broken: Broken, positions: Collection[Position]) -> Judgement | None:
    """What is left of a violation if it is explained why these due entries were not dispatched."""
    return broken.passing(frozenset(positions)) if positions else None


def stalls(
    state: Example,
    broken: Broken,
    cause: Cause,
    *,
    is_classic: bool | None = None,
    ends: Callable[[Past, SubscriptionId], bool] = ends_with_permits,
) -> Judgement | None:
    """What is left of a violation if a cause stalls due entries. ``is_classic``: only with that implementation, or only
    with the other one, if the subscription was looked at."""
    match broken.evidence:
        case Undispatched(topic=topic) as missing if (
            is_classic is None or missing.outcome is None or is_classic != topic.drains
        ):
            return explained(broken, stalled(state, missing, cause, ends))
        case _:
            return None
