"""What brokers dispatched to the consumers of chunked topics before, for the deviations of their dispatchers.

Each function searches the trace of a state. A *look* receives everything that is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.chunking import dispatch
from model.chunking.assignment import NOTHING_SENT, Assignment
from model.chunking.evidence import BeyondPermits, ChunksUndispatched, OutOfOrder
from model.chunking.state import Chunking
from model.deviations.chunks import traffic_in
from model.deviations.facts import is_reloaded_by
from model.events import DueReceived
from model.example.state import Example, Past
from model.example.step import Step
from model.judgement import Allowed
from model.log import EARLIEST, Position
from model.subscription_operations import ReceiveDue, Subscribe
from model.traffic import CommandMessage, CommandRedeliver, CommandSubscribe, ConsumerCommand
from model.vocabulary import SubscriptionId


def names_of(state: Chunking, subscription: SubscriptionId) -> frozenset[str]:
    """The connected consumers of a subscription."""
    return frozenset(name for name, _ in state.consumers_of(subscription))


def is_look(step: Step, subscription: SubscriptionId) -> bool:
    match step.operation, step.outcome:
        case ReceiveDue(topic, name), DueReceived():
            return (topic, name) == subscription
        case _:
            return False


def commands_in(step: Step, state: Chunking, subscription: SubscriptionId) -> Iterator[tuple[str, ConsumerCommand]]:
    """What passed between the broker and the consumers of a subscription in a step."""
    every = [name for name, one in state.consumers.items() if one.subscription == subscription]
    for traffic in traffic_in(step, every):
        yield from ((traffic.consumer, one) for one in traffic.commands)


def undispatched_at(past: Past, subscription: SubscriptionId) -> ChunksUndispatched:
    """The due entries that were not dispatched, after a look."""
    state = past.after.chunking
    consumers = dict(state.consumers_of(subscription))
    kinds = {one.kind for one in consumers.values()}
    owed = [dispatch.due(kind, state.left(subscription), [one.holds for one in consumers.values()]) for kind in kinds]
    return ChunksUndispatched(state, subscription, tuple(position for every in owed for position in every))


# ---------------------------------------------------------------------------------------------- Key_Shared: new owners


def reassigned(state: Example, step: Step, now: Chunking, name: str) -> frozenset[Position]:
    """The pending entries of a consumer when another one joined or left last, which may have reassigned their hash.

    They are known at the next look, when everything in flight then was received. ``now``: after the present look.
    """
    consumer = now.consumers[name]
    subscription = consumer.subscription
    if _is_resubscribed(step, now, subscription):
        return consumer.holds
    at_next_look = consumer.holds
    for past in state.trace:
        before, after = past.before.chunking, past.after.chunking
        if isinstance(past.step.operation, Subscribe) and past.step.operation.consumer == name:
            break
        if is_look(past.step, subscription):
            at_next_look = after.consumers[name].holds
        has_changed = names_of(before, subscription) != names_of(after, subscription)
        if has_changed or _is_resubscribed(past.step, after, subscription):
            return at_next_look
    return frozenset()


def _is_resubscribed(step: Step, state: Chunking, subscription: SubscriptionId) -> bool:
    return any(isinstance(one, CommandSubscribe) for _, one in commands_in(step, state, subscription))


def share_keys(undispatched: ChunksUndispatched) -> bool:
    """Whether several consumers have a Key_Shared subscription."""
    consumers = undispatched.consumers.values()
    return len(consumers) > 1 and all(consumer.kind == "Key_Shared" for consumer in consumers)


# ------------------------------------------------------------------------------------------ Shared: assigned consumers


def assignment(state: Example, step: Step, now: Chunking, subscription: SubscriptionId) -> Assignment:
    """Which consumers of a Shared subscription were sent which chunks since its topic was loaded.

    ``now``: after all that passed in the present step.
    """
    steps: list[tuple[Step, Chunking, Chunking]] = [(step, state.chunking, now)]
    for past in state.trace:
        if is_reloaded_by(past, subscription.topic):
            break
        steps.append((past.step, past.before.chunking, past.after.chunking))
    found = NOTHING_SENT
    for one, before, after in reversed(steps):
        for name, command in commands_in(one, after, subscription):
            match command:
                case CommandMessage(part=part) if (chunk := part.chunk) is not None:
                    found = found.sent(name, chunk)
                case CommandSubscribe():
                    found = found.without(name)
                case _:
                    pass
        for name in names_of(before, subscription) - names_of(after, subscription):
            found = found.without(name)
    return found


# ------------------------------------------------------------------------------------------------- ordered consumers


def requested_after(state: Example, step: Step, out: OutOfOrder | BeyondPermits) -> Position | None:
    """The last entry that an ordered consumer had been sent when it requested redelivery last, if there may have been
    others to read then. None: there were none, or a look has received everything in order since."""
    name = out.consumer
    passed = _own(step, name)[: out.number]
    if (request := _last_request(passed)) is not None:
        return _may_read_on(passed[:request], name, state.chunking, out.state)
    for past in _since_subscribed(state, passed, name):
        passed = _own(past.step, name)
        if (request := _last_request(passed)) is not None:
            return _may_read_on(passed[:request], name, past.before.chunking, past.after.chunking)
        if isinstance(past.step.outcome, DueReceived) and _is_in_order(past, name, passed):
            return None
    return None


def sent_since_request(state: Example, step: Step, name: str) -> frozenset[Position]:
    """The entries that a consumer was sent since it requested redelivery last; none if it did not since it
    subscribed."""
    passed, sent = _own(step, name), set[Position]()
    for every in (passed, *(_own(past.step, name) for past in _since_subscribed(state, passed, name))):
        request = _last_request(every)
        sent.update(one.position for one in every[request or 0 :] if isinstance(one, CommandMessage))
        if request is not None:
            return frozenset(sent)
    return frozenset()


def last_chunks_discarded(state: Example, step: Step, name: str) -> int:
    """How many last chunks a consumer was sent since it subscribed or reconnected, of messages that its application did
    not receive."""
    passed = _own(step, name)
    steps = [step, *(past.step for past in _since_subscribed(state, passed, name))]
    every = [one for each in steps for one in _own(each, name)]
    given = {one.position for each in steps for traffic in traffic_in(each, [name]) for one in traffic.received}
    sent = [one for one in every if isinstance(one, CommandMessage) and one.part.is_chunk and one.part.is_last]
    return sum(one.position not in given for one in sent)


def _own(step: Step, name: str) -> list[ConsumerCommand]:
    return [one for traffic in traffic_in(step, [name]) for one in traffic.commands]


def _since_subscribed(state: Example, passed: Sequence[ConsumerCommand], name: str) -> Iterator[Past]:
    """The steps before since a consumer subscribed, or reconnected, the last one first. That one counts, too."""
    for past in state.trace if not _has_subscribed(passed) else ():
        if name not in past.after.chunking.consumers:
            return
        yield past
        if _has_subscribed(_own(past.step, name)):
            return


def _has_subscribed(passed: Sequence[ConsumerCommand]) -> bool:
    return any(isinstance(one, CommandSubscribe) for one in passed)


def _last_request(passed: Sequence[ConsumerCommand]) -> int | None:
    """The number of the last redelivery request since the consumer subscribed."""
    for number in reversed(range(len(passed))):
        match passed[number]:
            case CommandRedeliver():
                return number
            case CommandSubscribe():
                return None
            case _:
                pass
    return None


def _may_read_on(passed: Sequence[ConsumerCommand], name: str, before: Chunking, after: Chunking) -> Position | None:
    """The last entry that was sent to a consumer before a request, if there may have been others to read then."""
    own = before.consumers.get(name)
    last = EARLIEST if own is None or own.last is None else own.last
    for one in passed:
        match one:
            case CommandMessage(position):
                last = position
            case CommandSubscribe():
                last = EARLIEST
            case _:
                pass
    topic = after.topics[after.consumers[name].subscription.topic]
    return last if topic.end > last or topic.has_unanswered else None


def _is_in_order(past: Past, name: str, passed: Sequence[ConsumerCommand]) -> bool:
    """Whether a consumer was sent everything in order at a look."""
    before, after = past.before.chunking, past.after.chunking
    topic = before.consumers[name].subscription.topic
    judged = dispatch.met(before.with_topic(topic, after.topics[topic]), name, passed, is_read=True)
    return isinstance(judged, Allowed)
