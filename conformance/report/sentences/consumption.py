"""Document 003 in words: operations on consumers and cursors, and their outcomes.

:mod:`conformance.report.sentences.actions` and :mod:`conformance.report.sentences.results` have all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from conformance.report.sentences import reads
from conformance.report.sentences.lists import count, joined, times
from conformance.report.sentences.network import in_words
from conformance.report.sentences.participants import CLIENTS, SUITE, Participants, of_topic
from model.administrator_operations import AdministratorRequest, AtOnce, ClearBacklog, Concurrent
from model.events import (
    Acknowledged,
    AllReceived,
    ConsumerRead,
    CursorOutcome,
    CursorRead,
    CursorReset,
    Expired,
    MessagePeeked,
    NotPersisted,
    Persisted,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    RedeliveryTimes,
    Starved,
    StoredCursorRead,
    Subscribed,
    Terminated,
    Trimmed,
)
from model.operations import CursorOperation, Terminate, Trim
from model.read_operations import AnalyzeBacklog
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CursorRequest,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    PeekMessage,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
    Unsubscribe,
)
from model.traffic import Delivery
from model.vocabulary import Start, Withheld

ConsumerOperation = (
    Subscribe
    | CloseConsumer
    | CrashConsumer
    | Receive
    | Acknowledge
    | AckById
    | Nack
    | Seek
    | Unsubscribe
    | CutConnection
)
"""Operations of a consumer; the suite does the others by the admin API."""


def action(operation: CursorOperation, participants: Participants) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case Subscribe() | CloseConsumer() | CrashConsumer() | Receive() | Acknowledge() | AckById():
            return operation.consumer, participants.consumer(operation.consumer), _action_of_consumer(operation)
        case Nack() | Seek() | Unsubscribe() | CutConnection():
            return operation.consumer, participants.consumer(operation.consumer), _action_of_consumer(operation)
        case CutDuring(doing, fault):
            does = f"{_action_of_consumer(doing)} while the network is to {in_words(fault)}, and then disconnects"
            return doing.consumer, participants.consumer(doing.consumer), does
        case NackRepeatedly(topic=topic, times=number, library=library):
            what = f"a subscription of topic {topic} of its own, {times(number)} with its first message"
            consumer = f"a consumer of {library or CLIENTS['official']}"
            return SUITE, consumer, f"nacks on {what}, and acknowledges all others"
        case Terminate(topic=topic):
            return SUITE, "the suite", f"terminates topic {topic}"
        case Trim(topic=topic):
            return SUITE, "the suite", f"trims topic {topic}"
        case _:
            return SUITE, "the suite", asked_of_cursor(operation)


def _action_of_consumer(operation: ConsumerOperation) -> str:
    match operation:
        case Subscribe():
            return _subscribes(operation)
        case CloseConsumer():
            return "closes"
        case CrashConsumer():
            return "crashes: its connection closes without CloseConsumer"
        case CutConnection():
            return "loses its connection, and reconnects"
        case Receive(count=number):
            return f"receives up to {count(number, 'message', 'messages')}"
        case Acknowledge(nth=nth, cumulative=cumulative):
            return f"acknowledges {_up_to(cumulative)}what it received as {_numbers(nth)}"
        case AckById(ids=ids, cumulative=cumulative):
            return f"acknowledges {_up_to(cumulative)}{joined(ids)} by message id"
        case Nack(nth=nth):
            return _asks_again(nth)
        case Seek(to=to, by_time=by_time, later_ms=later_ms):
            return f"seeks {_to(to, by_time, later_ms)}"
        case Unsubscribe():
            return "unsubscribes"
        case _:
            assert_never(operation)


def _subscribes(operation: Subscribe) -> str:
    durable = "" if operation.durable else ", non-durable"
    queue = f", with a receiver queue of {count(operation.queue, 'message', 'messages')}" if operation.queue else ""
    name = f", with the consumer name {operation.known_as}" if operation.known_as is not None else ""
    proxy = ", through a proxy of its own" if operation.proxied else ""
    replicated = ", replicated" if operation.is_replicated else ""
    begins = f"subscribes to topic {operation.topic}{_beginning(operation.start)}"
    return f"{begins}{durable}{queue}{name}{_sharing(operation)}{_assembling(operation)}{proxy}{replicated}"


def _assembling(operation: Subscribe) -> str:
    limit, oldest = operation.max_pending_chunked, operation.acks_oldest_chunked
    if (limit, oldest) == (10, False):
        return ""
    number = f"at most {limit}" if limit else "any number of"
    return f", assembling {number} chunked messages{', and acknowledging the oldest beyond that' if oldest else ''}"


def _sharing(operation: Subscribe) -> str:
    hashes = joined([f"{first} to {last}" for first, last in operation.sticky])
    sticky = f", for hashes {hashes}" if operation.sticky else ""
    return sticky + (", with out-of-order delivery" if operation.out_of_order else "")


def _beginning(start: Start) -> str:
    match start:
        case "earliest":
            return ""
        case "latest":
            return ", at the latest position if it is the first"
        case _:
            assert_never(start)


def asked_of_cursor(operation: CreateSubscription | CursorRequest) -> str:
    """What is requested for a subscription, as the rest of a sentence."""
    scope = operation.scope if isinstance(operation, DeleteSubscription | SkipAll) else "topic"
    cursor = f"subscription {operation.subscription} of {of_topic(operation.topic, scope)}"
    match operation:
        case CreateSubscription(at=str(message)):
            return f"creates {cursor}, at {message}"
        case CreateSubscription(start=start, is_replicated=is_replicated):
            at = "the earliest position" if start == "earliest" else "the latest position"
            return f"creates {'replicated ' if is_replicated else ''}{cursor}, at {at}"
        case DeleteSubscription(by_force=by_force):
            return f"deletes {cursor}{' by force' if by_force else ''}"
        case Skip(count=number):
            return f"skips the next {count(number, 'entry', 'entries')} of {cursor}"
        case SkipAll():
            return f"clears the backlog of {cursor}"
        case Expire(up_to=up_to):
            return f"expires everything up to {_message_named(up_to)} of {cursor}"
        case ResetCursor(to=to, by_time=by_time, later_ms=later_ms, after=after):
            return f"resets {cursor} {_to(to, by_time, later_ms, after=after)}"
        case ReadCursor(after_delays=after_delays):
            return f"reads the state of {cursor}{', once its delayed messages have come' if after_delays else ''}"
        case PeekMessage(nth=nth):
            return f"peeks at unacknowledged entry {nth} of {cursor}"
        case ReadStoredCursor():
            return f"reads {cursor} in the metadata store"
        case ReceiveAll(cluster=str(cluster)):
            return (
                f"has a consumer fail over to cluster {cluster}, and receive the backlog of {cursor} there without acks"
            )
        case ReceiveAll(kind=kind):
            left = f"the backlog of subscription {operation.subscription} ({kind}) of topic {operation.topic}"
            return f"disconnects all consumers, and receives {left} without acks"
        case AwaitPersisted():
            return f"waits until the state of {cursor} is persisted"
        case _:
            assert_never(operation)


def requested(operation: AdministratorRequest) -> str:
    """What administrators request for a namespace, or two of them at once, as the rest of a sentence."""
    match operation:
        case ClearBacklog(topic=topic, scope=scope):
            return f"clears the backlog of all subscriptions of {of_topic(topic, scope)}"
        case AtOnce(first=first, second=second):
            return f"{_one_of_two(first)}, and at the same time {_one_of_two(second)}"
        case _:
            assert_never(operation)


def _one_of_two(request: Concurrent) -> str:
    return reads.action(request) if isinstance(request, AnalyzeBacklog) else asked_of_cursor(request)


def _asks_again(nth: tuple[int, ...] | None) -> str:
    if nth is None:
        return "requests redelivery of all its unacknowledged messages"
    return f"nacks what it received as {_numbers(nth)}"


def _up_to(cumulative: bool) -> str:
    return "everything up to " if cumulative else ""


def _numbers(nth: tuple[int, ...]) -> str:
    return f"no. {joined([str(number) for number in nth])} (counted from 0)"


def _to(to: str | int | None, by_time: bool, later_ms: int, *, after: bool = False) -> str:
    if to is None:
        return "to the earliest position"
    if not by_time:
        return f"to {'the message after ' if after else ''}{_message_named(to)}"
    moved = f", {abs(later_ms)} ms {'later' if later_ms > 0 else 'earlier'}" if later_ms else ""
    return f"to {_message_named(to)}, by its publish time{moved}"


def _message_named(name: str | int) -> str:
    return f"entry {name} of the log" if isinstance(name, int) else name


def blocked_in_words(withheld: Withheld | None) -> str:
    """The broker's words on a blocked subscription."""
    if withheld is None:
        return ""
    return f"; the broker says that {withheld.unacknowledged} unacknowledged messages block the subscription"


def outcome_in_words(outcome: CursorOutcome) -> str:
    """The outcome of an operation on a consumer or a cursor."""
    match outcome:
        case Subscribed():
            return "subscribed"
        case ReceivedMessages(messages=messages, settled=settled, blocked=blocked, withheld=withheld):
            more = "; the broker dispatched nothing more" if settled else ""
            more = blocked_in_words(withheld) if withheld is not None else more
            return messages_in_words(messages) + ("; the broker says that the consumer is blocked" if blocked else more)
        case Acknowledged(messages=messages, receipt=receipt):
            return f"{_listed(messages)}; {'the broker confirmed it' if receipt else 'without a receipt'}"
        case RedeliveryRequested(messages=messages):
            return _listed(messages)
        case RedeliveryTimes(message=message, first_ms=first_ms, after_ms=after_ms, others=others):
            delays = ", ".join(f"{after:.0f}" for after in after_ms)
            others_listed = f"; {_listed(others)} too" if others else ""
            first = f"the first delay is {first_ms:.0f} ms"
            return f"{message.business_id} was redelivered after {delays} ms ({first}){others_listed}"
        case CursorRead():
            return _state(outcome)
        case MessagePeeked(position=position):
            return f"entry {position}" if position is not None else "no such entry"
        case StoredCursorRead(mark_delete=None):
            return "only the ledger of the cursor"
        case StoredCursorRead(mark_delete=mark_delete, ranges=ranges):
            return f"mark-delete at {mark_delete}; {_beyond(ranges)}"
        case Persisted(after_ms=after_ms, entries=entries):
            return f"persisted after {after_ms:.0f} ms, {count(entries, 'entry', 'entries')} written in total"
        case NotPersisted(waited_ms=waited_ms):
            return f"not persisted within {waited_ms:.0f} ms"
        case Expired():
            return "done"
        case CursorReset(to=to):
            return f"reset to {to}" if to is not None else "reset to the earliest position"
        case Terminated(end=end):
            return f"the last position is {end}"
        case Trimmed(ledgers=ledgers):
            return "ledgers left: " + (joined([str(ledger) for ledger in ledgers]) or "none")
        case AllReceived(messages=messages):
            return f"{messages_in_words(messages)}; the cursor has no other message"
        case Starved(why=why, messages=messages):
            return f"starved: {why}; only {messages_in_words(messages)} arrived"
        case _:
            assert_never(outcome)


def _beyond(ranges: Sequence[Range]) -> str:
    return f"ranges: {joined([f'({r.after}..{r.last}]' for r in ranges]) or 'none'}"


def _state(read: CursorRead) -> str:
    waiting = count(read.backlog, "entry", "entries")
    unacknowledged = count(read.unacknowledged, "message", "messages")
    parts = [
        f"mark-delete at {read.mark_delete}",
        _beyond(read.ranges),
        f"{waiting} in the backlog, {unacknowledged} unacknowledged at consumers",
        *(_arrived(one) for one in read.arrived),
    ]
    return "; ".join(parts)


def _arrived(one: ConsumerRead) -> str:
    return f"{one.consumer} received {messages_in_words(one.messages)}, and has {one.unacknowledged} unacknowledged"


def messages_in_words(messages: Sequence[Delivery]) -> str:
    """Delivered messages: their number, and each of them."""
    number = count(len(messages), "message", "messages")
    return f"{number} ({_listed(messages)})" if messages else number


def _listed(messages: Sequence[Delivery]) -> str:
    return joined([_message(one) for one in messages]) or "nothing"


def _message(one: Delivery) -> str:
    within = f"[{one.batch_index}]" if one.batch_index >= 0 else ""
    before = f" (delivered {times(one.redeliveries)} before)" if one.redeliveries else ""
    return f"{one.position}{within} {one.business_id}{before}"
