"""The last call of a reproducer: it performs the step that breaks the rule, and demands what the document promises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.report.reproducer.calls import Call, call, later
from conformance.report.reproducer.inexpressible import Inexpressible
from conformance.report.reproducer.judged import JudgedHistory, backlog_in, names_at
from model.chunking.evidence import LogDiffers
from model.cursors.log import Place
from model.deduplication.account import WrongLastId
from model.deduplication.policies import STATUS, OwnPolicyIgnored
from model.deduplication.topic_observer import WrongAnswer
from model.events import (
    AllReceived,
    CursorRead,
    DueReceived,
    Duplicate,
    Refused,
    Sent,
    Starved,
    Stored,
    Subscribed,
)
from model.example.readers import PassedOver
from model.operations import ReadLog, Send, SetDeduplication
from model.reader_operations import AvailabilityRead, HasMessageAvailable, ReadNext
from model.service.unexpected import ErrorAnswer, Silence
from model.subscription_operations import (
    Expire,
    PeekMessage,
    ReadCursor,
    Receive,
    ReceiveAll,
    ReceiveDue,
    Subscribe,
)
from model.subscriptions.consumers import Message
from model.subscriptions.counts import Count, SentAgain
from model.subscriptions.evidence import Overtaking, Undispatched
from model.subscriptions.state import Consumption, surely_left
from model.vocabulary import SubscriptionId


def promised(judged: JudgedHistory, performed: Sequence[Call]) -> list[Call]:
    """The calls of the violated step. ``performed``: the calls that perform it. Raises :class:`Inexpressible`."""
    evidence, step = judged.broken.evidence, judged.violated
    state = judged.before[-1].consumption
    if _is_exact(performed) and (calls := _of_exact(judged, performed[:-1])):
        return calls
    match evidence, step.operation, step.outcome:
        case Count(of=of, subscription=subscription) as count, ReadCursor(), _:
            expected = count.shown - count.difference
            topic, name = subscription
            match of:
                case "backlog":
                    return [call("expect_backlog", topic, name, expected)]
                case "at consumer":
                    return [call("expect_unacknowledged", topic, name, count.consumer, expected)]
                case "in all":
                    return [call("expect_unacknowledged", topic, name, "", expected)]
                case _:
                    raise Inexpressible("what the broker counts by itself")
        case LogDiffers(entries=entries), ReadLog(topic=topic), _:
            if any(one.part.chunk_id == one.part.chunks - 1 for one in entries):
                raise Inexpressible("what only the wire or the broker's own record shows")
            names = list(dict.fromkeys(_confirmed(judged, topic)))
            return [call("expect_stored", topic, *names), call("expect_stored_once", topic, *names)]
        case WrongLastId(), Send(session=session), _:
            return [*performed, call("expect_last_sequence_id", session, _highest(judged, session))]
        case WrongAnswer(answer=answer, entry=entry), Send(session=session), _:
            topic = _topic_of(judged, session)
            function = "expect_stored" if isinstance(answer, Duplicate) else "expect_stored_once"
            return [*performed, call(function, topic, *(one.business_id for one in entry.messages))]
        case PassedOver(places=places), ReadNext(reader=reader), _:
            topic = _topic_of(judged, reader)
            return [call("expect_next", reader, *_names(state, topic, places))]
        case AvailabilityRead(is_available=False), HasMessageAvailable(reader=reader), _:
            return [call("expect_message_available", reader)]
        case OwnPolicyIgnored(topic=topic), SetDeduplication(on=is_on), _:
            return [*performed, call("expect_deduplication", topic, STATUS[is_on])]
        case _, Receive(consumer=consumer), Starved():
            wanted = [state.words(one).partition(" ")[0] for one in _owed(state, consumer)]
            return [call("expect_received", consumer, *wanted)]
        case _, ReceiveAll(topic=topic, subscription=name, kind=kind), AllReceived():
            return [call("expect_all_received", topic, name, kind, *_left(state, SubscriptionId(topic, name)))]
        case _, ReadCursor(topic=topic, subscription=name), CursorRead():
            return [call("expect_backlog", topic, name, _certain(state, SubscriptionId(topic, name)))]
        case _, Expire(topic=topic, subscription=name, up_to=str(message)), Starved():
            left = _left_after(state, SubscriptionId(topic, name), message)
            return [*performed, call("expect_backlog", topic, name, left)]
        case _, PeekMessage(), _ if performed and not isinstance(evidence, Refused | ErrorAnswer | Silence):
            return [later_in("expect_refused", performed)]
        case _, Subscribe(), Subscribed():
            return [later_in("expect_refused", performed)]
        case Silence(), _, _ if performed:
            return [later_in("expect_any_answer", performed)]
        case Refused() | ErrorAnswer(), _, _ if performed:
            return [later_in("expect_answer", performed)]
        case ErrorAnswer() | Silence(), ReadCursor(topic=topic, subscription=name), _:
            return [
                call("expect_answer", later("await_backlog", topic, name, _certain(state, SubscriptionId(topic, name))))
            ]
        case _:
            raise Inexpressible("what only the wire or the broker's own record shows")


def _of_exact(judged: JudgedHistory, received: Sequence[Call]) -> list[Call]:
    """What is demanded of consumers that have the permits of the history. ``received``: what receives the messages."""
    evidence, step = judged.broken.evidence, judged.violated
    match evidence, step.operation, step.outcome:
        case _, Receive(consumer=consumer), Starved():
            return [*received, call("expect_more", consumer)]
        case Count(of="blocked", consumer=consumer), Receive(), _:
            return [*received, call("expect_more", consumer)]
        case Undispatched(subscription=subscription), ReceiveDue(), _:
            names = [name for at in sorted(evidence.open) for name in names_at(evidence.state, subscription.topic, at)]
            return [*received, call("expect_delivered", *names)]
        case SentAgain(consumer=consumer), ReceiveDue(), DueReceived(consumers=consumers):
            (read,) = (one for one in consumers if one.consumer == consumer)
            names = list(dict.fromkeys(one.business_id for one in read.messages))
            return [call("expect_once", consumer, *names)]
        case Overtaking(first=first), ReceiveDue(), _:
            both = (evidence.state.words(one).partition(" ")[0] for one in (first, evidence.message))
            return [call("expect_before", *both)]
        case _:
            return []


def _is_exact(performed: Sequence[Call]) -> bool:
    """Whether the consumers have the permits of the history, so that all that they do not receive is seen."""
    return bool(performed) and performed[-1].function == "settle"


def later_in(function: str, performed: Sequence[Call]) -> Call:
    """The call of a function that performs the only one of these."""
    *_, last = performed
    return call(function, Call(last.function, last.arguments, last.options, is_later=True))


def _confirmed(judged: JudgedHistory, topic: str) -> Iterable[str]:
    """The messages of a topic that the broker confirmed."""
    for step in judged.steps:
        if isinstance(step.operation, Send) and isinstance(step.outcome, Sent):
            for entry, answer in zip(step.operation.entries, step.outcome.answers, strict=False):
                if isinstance(answer, Stored | Duplicate) and _topic_of(judged, step.operation.session) == topic:
                    yield from (one.business_id for one in entry.messages)


def _topic_of(judged: JudgedHistory, actor: str) -> str:
    named = (one.operation for one in judged.steps if one.operation.actor == actor)
    return next(one.topic for one in named if one.topic is not None)


def _highest(judged: JudgedHistory, session: str) -> int:
    """The highest sequence id that a session sent."""
    sent = (one.operation for one in judged.steps if isinstance(one.operation, Send))
    return max(entry.highest for one in sent if one.session == session for entry in one.entries)


def _certain(state: Consumption, subscription: SubscriptionId) -> int:
    left = backlog_in(state, subscription)
    if left is None:
        raise Inexpressible("a state of the cursor that is not certain")
    return left


def _owed(state: Consumption, consumer: str) -> Iterable[Message]:
    """The messages that no consumer has."""
    for subscription in state.consumers[consumer].subscriptions:
        others = state.consumers_of(subscription)
        pending = frozenset(message for _, other in others for message in other.unacknowledged)
        yield from (message for message in surely_left(state, subscription) if message not in pending)


def _left(state: Consumption, subscription: SubscriptionId) -> list[str]:
    """The messages that are not acknowledged."""
    _certain(state, subscription)
    places = sorted(place for _, place in state.all_left(subscription))
    return list(_names(state, subscription.topic, places))


def _names(state: Consumption, topic: str, places: Iterable[Place]) -> Iterable[str]:
    return (names_at(state, topic, place.position)[max(0, place.batch_index)] for place in places)


def _left_after(state: Consumption, subscription: SubscriptionId, message: str) -> int:
    """The number of unacknowledged entries after the one of a message."""
    log = state.log(subscription.topic)
    end = next(position for position, names in log.entries.items() if message in names)
    (one,) = state.cursors[subscription].possible
    return sum(position > end for position in one.unacknowledged(log))
