"""Document 003 in words: what consumers and cursors were asked for, and what came of it.

:mod:`conformance.report.actions` and :mod:`conformance.report.results`, which tell all others, ask this module for
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from conformance.report.lists import count, joined, times
from conformance.report.network import in_words
from conformance.report.participants import SUITE, Cast
from model.events import (
    Acknowledged,
    AllReceived,
    ConsumerRead,
    CursorOutcome,
    CursorRead,
    CursorReset,
    Delivery,
    Expired,
    NotPersisted,
    Persisted,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    RedeliveryTimes,
    Starved,
    StoredCursorRead,
    Subscribed,
    Trimmed,
)
from model.operations import CursorOperation, Terminate, Trim
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Start

ConsumerOperation = (
    Subscribe | CloseConsumer | CrashConsumer | Receive | Acknowledge | AckById | Nack | Seek | CutConnection
)
"""What a consumer does; the rest is done by the suite, through the admin interface."""

CursorRequest = (
    CreateSubscription
    | DeleteSubscription
    | Skip
    | SkipAll
    | Expire
    | ResetCursor
    | ReadCursor
    | ReadStoredCursor
    | AwaitPersisted
)
"""What the suite asks for one cursor."""


def deed(operation: CursorOperation, cast: Cast) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case Subscribe() | CloseConsumer() | CrashConsumer() | Receive() | Acknowledge() | AckById():
            return operation.consumer, cast.consumer(operation.consumer), _deed_of_consumer(operation)
        case Nack() | Seek() | CutConnection():
            return operation.consumer, cast.consumer(operation.consumer), _deed_of_consumer(operation)
        case CutDuring(doing, fault):
            does = f"{_deed_of_consumer(doing)} while the network is to {in_words(fault)}, and is cut off then"
            return doing.consumer, cast.consumer(doing.consumer), does
        case ReceiveAll(topic=topic, subscription=subscription, kind=kind):
            left = f"all that is left of subscription {subscription} ({kind}) of topic {topic}"
            return SUITE, "the suite", f"cuts off whoever is connected, and receives {left}, acknowledging nothing"
        case NackRepeatedly(topic=topic, times=number):
            what = f"a subscription of topic {topic} of its own, {times(number)} with its first message"
            return SUITE, "a consumer of pulsar-client", f"fails on {what}, acknowledging all others"
        case Terminate(topic=topic):
            return SUITE, "the suite", f"terminates topic {topic}: nothing more can be written to it"
        case Trim(topic=topic):
            return SUITE, "the suite", f"has the ledgers of topic {topic} deleted that may be deleted"
        case _:
            return SUITE, "the suite", _asked_of_cursor(operation)


def _deed_of_consumer(operation: ConsumerOperation) -> str:
    match operation:
        case Subscribe():
            return _subscribes(operation)
        case CloseConsumer():
            return "closes in good order"
        case CrashConsumer():
            return "crashes: its connection is cut without a goodbye"
        case CutConnection():
            return "is cut off by the network, and comes back by itself"
        case Receive(count=number):
            return f"receives up to {count(number, 'message', 'messages')}"
        case Acknowledge(nth=nth, cumulative=cumulative):
            return f"acknowledges {_up_to(cumulative)}what it received as {_numbers(nth)}"
        case AckById(ids=ids, cumulative=cumulative):
            return f"acknowledges {_up_to(cumulative)}{joined(ids)}, whether or not it received that"
        case Nack(nth=nth):
            return _asks_again(nth)
        case Seek(to=to, by_time=by_time):
            return f"sets its subscription {_to(to, by_time)}"
        case _:
            assert_never(operation)


def _subscribes(operation: Subscribe) -> str:
    durable = "" if operation.durable else ", without a cursor that lasts"
    queue = f", with a queue for {count(operation.queue, 'message', 'messages')}" if operation.queue else ""
    name = f", known to the broker as {operation.known_as}" if operation.known_as is not None else ""
    proxy = ", through a proxy of its own" if operation.proxied else ""
    begins = f"subscribes to topic {operation.topic}{_beginning(operation.start)}"
    return f"{begins}{durable}{queue}{name}{_sharing(operation)}{proxy}"


def _sharing(operation: Subscribe) -> str:
    hashes = joined([f"{first} to {last}" for first, last in operation.sticky])
    sticky = f", for hashes {hashes}" if operation.sticky else ""
    return sticky + (", allowing messages of a key out of order" if operation.out_of_order else "")


def _beginning(start: Start) -> str:
    match start:
        case "earliest":
            return ""
        case "latest":
            return ", to begin behind what is there, if it is the first"
        case _:
            assert_never(start)


def _asked_of_cursor(operation: CursorRequest) -> str:
    cursor = f"subscription {operation.subscription} of topic {operation.topic}"
    match operation:
        case CreateSubscription(start=start):
            at = "the earliest message" if start == "earliest" else "the end of the log"
            return f"creates {cursor}, at {at}"
        case DeleteSubscription():
            return f"deletes {cursor}"
        case Skip(count=number):
            return f"skips the next {count(number, 'entry', 'entries')} of {cursor}"
        case SkipAll():
            return f"skips all that is in the log for {cursor}"
        case Expire(up_to=up_to):
            return f"has everything up to {up_to} expire for {cursor}"
        case ResetCursor(to=to, by_time=by_time):
            return f"sets {cursor} {_to(to, by_time)}"
        case ReadCursor():
            return f"reads the state of {cursor}"
        case ReadStoredCursor():
            return f"reads what the metadata store has of {cursor}"
        case AwaitPersisted():
            return f"waits until the state of {cursor} is persisted"
        case _:
            assert_never(operation)


def _asks_again(nth: tuple[int, ...] | None) -> str:
    if nth is None:
        return "asks for everything again that it has outstanding"
    return f"failed with what it received as {_numbers(nth)}, and asks for it again"


def _up_to(cumulative: bool) -> str:
    return "everything up to " if cumulative else ""


def _numbers(nth: tuple[int, ...]) -> str:
    return f"no. {joined([str(number) for number in nth])} (counted from 0)"


def _to(business_id: str | None, by_time: bool) -> str:
    if business_id is None:
        return "back to the beginning"
    return f"to {business_id}" + (", by the time when that was published" if by_time else "")


def outcome_in_words(outcome: CursorOutcome) -> str:
    """What came of an operation on a consumer or a cursor."""
    match outcome:
        case Subscribed():
            return "subscribed"
        case ReceivedMessages(messages=messages, settled=settled):
            return messages_in_words(messages) + ("; the broker has sent it nothing more" if settled else "")
        case Acknowledged(messages=messages, receipt=receipt):
            return f"{_listed(messages)}; {'the broker confirmed it' if receipt else 'without a receipt'}"
        case RedeliveryRequested(messages=messages):
            return _listed(messages)
        case RedeliveryTimes(message=message, first_ms=first_ms, after_ms=after_ms, others=others):
            delays = ", ".join(f"{after:.0f}" for after in after_ms)
            besides = f"; {_listed(others)} came again too" if others else ""
            return f"{message.business_id} came again after {delays} ms ({first_ms:.0f} asked for at first){besides}"
        case CursorRead():
            return _state(outcome)
        case StoredCursorRead(mark_delete=None):
            return "only where the cursor's ledger is"
        case StoredCursorRead(mark_delete=mark_delete, ranges=ranges):
            return f"mark-delete at {mark_delete}; {_beyond(ranges)}"
        case Persisted(after_ms=after_ms, entries=entries):
            return f"persisted after {after_ms:.0f} ms, {count(entries, 'entry', 'entries')} written in all"
        case NotPersisted(waited_ms=waited_ms):
            return f"not persisted within {waited_ms:.0f} ms"
        case Expired():
            return "the broker is through with it"
        case CursorReset(to=to):
            return f"it is set to {to}" if to is not None else "it is set to the beginning"
        case Trimmed(ledgers=ledgers):
            return "left: " + (joined([str(ledger) for ledger in ledgers]) or "no ledger")
        case AllReceived(messages=messages):
            return f"{messages_in_words(messages)}; the cursor has nothing else"
        case Starved(why=why, messages=messages):
            return f"starved: {why}; only {messages_in_words(messages)} came"
        case _:
            assert_never(outcome)


def _beyond(ranges: Sequence[Range]) -> str:
    return f"beyond it is acknowledged: {joined([f'behind {r.after} up to {r.last}' for r in ranges]) or 'nothing'}"


def _state(read: CursorRead) -> str:
    waiting = count(read.backlog, "entry", "entries")
    held = count(read.unacknowledged, "message", "messages")
    parts = [
        f"mark-delete at {read.mark_delete}",
        _beyond(read.ranges),
        f"{waiting} not acknowledged, {held} at consumers",
        *(_arrived(one) for one in read.arrived),
    ]
    return "; ".join(parts)


def _arrived(one: ConsumerRead) -> str:
    return f"{one.consumer} got {messages_in_words(one.messages)} more, and has {one.unacknowledged} outstanding"


def messages_in_words(messages: Sequence[Delivery]) -> str:
    """Messages that were delivered: how many, and which."""
    number = count(len(messages), "message", "messages")
    return f"{number} ({_listed(messages)})" if messages else number


def _listed(messages: Sequence[Delivery]) -> str:
    return joined([_message(one) for one in messages]) or "nothing"


def _message(one: Delivery) -> str:
    within = f"[{one.batch_index}]" if one.batch_index >= 0 else ""
    before = f" (delivered {times(one.redeliveries)} before)" if one.redeliveries else ""
    return f"{one.position}{within} {one.business_id}{before}"
