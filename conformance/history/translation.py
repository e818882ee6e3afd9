"""Translates a machine's example into events of a long history, so that ``verify`` judges it without the model.

An example is a run of its own, with its own clock. Operations without an event are left out: chunks, applications,
clusters. So is everything that could be misjudged without them: a trimmed topic is not read back, and a non-durable
subscription has a name for each consumer. A deleted subscription gets another name when it is created again. If two
sends have the same id, the payload of the stored one is unknown. The dispatch times are unknown, too, only the
receipts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.digest import digest
from conformance.history.document import Step
from conformance.history.recorded import FIRST_OF_ALL, KILL, RESTART, UNLOAD, CallOutcome, Kind, Recorded
from model.events import (
    Acknowledged,
    AllReceived,
    Answer,
    Created,
    CursorRead,
    CursorReset,
    Delivery,
    Done,
    DueReceived,
    Duplicate,
    LogRead,
    ReceivedMessages,
    RedeliveryRequested,
    Refused,
    Sent,
    Stored,
    Subscribed,
    TakenOver,
)
from model.log import Position
from model.operations import (
    CreateTopic,
    FreezeOwner,
    HoldAfterSends,
    Kill,
    OpenProducer,
    ReadLog,
    Restart,
    Send,
    SendToFrozen,
    SetDeduplication,
    TakeOver,
    Trim,
    Unload,
)
from model.producer_operations import PurgeProducers
from model.subscription_operations import (
    AckById,
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    CutConnection,
    CutDuring,
    DeleteSubscription,
    Expire,
    Nack,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
    Unsubscribe,
)
from model.vocabulary import Entry, partition_name

AFTER_EVERYTHING: Final = Position(2**62, 0)
"""The end of a skip of unknown length, which excuses every message that it may have skipped."""

OUT_OF_ORDER: Final = "Key_Shared, out of order"
"""The type of Key_Shared subscriptions with out-of-order delivery, which have fewer rules."""

NEVER_STORED: Final = frozenset({"NotAllowedError", "TopicTerminatedError", "ProducerFenced"})
"""The errors of a send that was surely not stored; a write that failed, or has no answer, may be."""

Name = tuple[str, str]
"""Topic and subscription."""


def translated(steps: Iterable[Step], *, run: str, lane: str) -> Iterator[Recorded]:
    """The events of one example; ``run``: a unique name, which is also a prefix of its topics."""
    example = _Example(run=run, lane=lane)
    for step in steps:
        yield from example.take(step)
    yield from example.ended()


@dataclass(slots=True)
class _Pending:
    """A send without an answer yet."""

    send: Send
    invoked_ns: int


@dataclass(slots=True)
class _Example:
    """Translates one example step by step."""

    run: str
    lane: str
    producers: dict[str, OpenProducer] = field(default_factory=dict)
    pending: dict[str, list[_Pending]] = field(default_factory=dict)
    consumers: dict[str, Subscribe] = field(default_factory=dict)
    subscriptions: set[Name] = field(default_factory=set)
    deleted: Counter[Name] = field(default_factory=Counter)
    blind: set[Name] = field(default_factory=set)
    """Subscriptions with an ack of a message that no consumer had received."""
    keys: dict[str, str | None] = field(default_factory=dict)
    delayed: set[str] = field(default_factory=set)
    """The key of each message for Key_Shared: that of its entry."""
    last: dict[str, Position] = field(default_factory=dict)
    logs: dict[str, list[Recorded]] = field(default_factory=dict)
    trimmed: set[str] = field(default_factory=set)
    now_ns: int = 0

    def take(self, step: Step) -> Iterator[Recorded]:
        """The events of one step."""
        self.now_ns = _ns(step.completed_ms)
        when = {"invoked_ns": _ns(step.invoked_ms), "completed_ns": self.now_ns}
        for late in step.late:
            waiting = self.pending.get(late.session)
            if waiting:
                before = waiting.pop(0)
                yield from self._answered(before.send, late.answers, before.invoked_ns)
        yield from self._sending(step, when)
        yield from self._consuming(step, when)
        yield from self._administration(step, when)
        yield from self._reading(step, when)

    def ended(self) -> Iterator[Recorded]:
        """The sends without an answer, and the last readings of the logs."""
        for waiting in self.pending.values():
            for one in waiting:
                yield from self._answered(one.send, (), one.invoked_ns)
        for topic, events in self.logs.items():
            if topic not in self.trimmed:
                yield from events

    # ---------------------------------------------------------------------------------------------------------- sending

    def _sending(self, step: Step, when: Mapping[str, int]) -> Iterator[Recorded]:
        if isinstance(step.operation, Send) and isinstance(step.operation.interruption, HoldAfterSends):
            others = step.operation.interruption
            yield from self._answered(Send(others.session, others.entries), (), when["invoked_ns"])
        match step.operation, step.outcome:
            case CreateTopic() as made, Created(deduplication=is_on):
                names = [partition_name(made.topic, number) for number in range(made.partitions)] or [made.topic]
                self.trimmed.update(names if made.is_trimmed else ())
                for name in names:
                    yield self._event(Kind.TOPIC, name, when, deduplication=is_on)
            case OpenProducer() as opened, _:
                self.producers[opened.session] = opened
            case Send() as send, Sent(answers=answers) if answers:
                yield from self._answered(send, answers, when["invoked_ns"])
            case SendToFrozen() as send, _:
                yield from self._answered(Send(send.session, send.entries), (), when["invoked_ns"])
            case Send() as send, Sent():
                self.pending.setdefault(send.session, []).append(_Pending(send, when["invoked_ns"]))
            case _:
                pass

    def _answered(self, send: Send, answers: Sequence[Answer], invoked_ns: int) -> Iterator[Recorded]:
        opened = self.producers[send.session]
        when = {"invoked_ns": invoked_ns, "completed_ns": self.now_ns}
        ids = Counter(message.sequence_id for entry in set(send.entries) for message in entry.messages)
        padded: tuple[Answer | None, ...] = (*answers, *(None,) * (len(send.entries) - len(answers)))
        for entry, answer in zip(send.entries, padded, strict=True):
            outcome, position = _outcome(answer)
            if position is not None:
                self.last[opened.topic] = max(position, self.last.get(opened.topic, position))
            for fields in self._messages(entry):
                place = {} if position is None else _place(position, fields["batch_index"])
                if ids[fields["sequence_id"]] > 1:
                    fields["digest"] = None
                known = {"outcome": outcome, "producer": opened.producer, "highest_sequence_id": entry.highest}
                yield self._event(Kind.SEND, opened.topic, when, **known, **(fields | place))

    def _messages(self, entry: Entry) -> Iterator[dict[str, Any]]:
        for index, message in enumerate(entry.messages):
            self.keys[message.business_id] = entry.sticky_key
            if message.delay_ms:
                self.delayed.add(message.business_id)
            yield {
                "batch_index": index if entry.is_batch else -1,
                "sequence_id": message.sequence_id,
                "key": entry.sticky_key,
                "digest": digest(message.business_id.encode()),
            }

    # -------------------------------------------------------------------------------------------------------- consuming

    def _consuming(self, step: Step, when: Mapping[str, int]) -> Iterator[Recorded]:
        doing = step.operation.doing if isinstance(step.operation, CutDuring) else step.operation
        match doing, step.outcome:
            case Subscribe() as asked, outcome:
                yield from self._subscribed(asked, isinstance(outcome, Subscribed), when)
            case (Acknowledge() | AckById()) as asked, Acknowledged() as acknowledged:
                yield from self._acknowledged(asked, acknowledged, when)
            case Nack(nth=None) as asked, _:
                yield self._of_consumer(Kind.REDELIVER, asked.consumer, when)
            case Nack() as asked, RedeliveryRequested(messages=messages):
                for place in (place for message in messages for place in _of_its_entry(message)):
                    yield self._of_consumer(Kind.NACK, asked.consumer, when, **place)
            case _, ReceivedMessages(messages=messages):
                yield from self._given(getattr(doing, "consumer"), messages, when)  # noqa: B009 - any that takes
            case _, DueReceived(consumers=consumers):
                for read in consumers:
                    yield from self._given(read.consumer, read.messages, when)
            case _:
                pass
        match step.operation:
            case CloseConsumer() | CrashConsumer() | CutDuring() | CutConnection() as left:
                name = left.doing.consumer if isinstance(left, CutDuring) else left.consumer
                if name in self.consumers:
                    yield self._of_consumer(Kind.UNSUBSCRIBE, name, when)
            case _:
                pass

    def _subscribed(self, asked: Subscribe, is_done: bool, when: Mapping[str, int]) -> Iterator[Recorded]:
        self.consumers[asked.consumer] = asked
        if is_done and asked.durable and asked.start == "earliest":
            yield from self._begun((asked.topic, asked.subscription), when)
        self.subscriptions.add((asked.topic, asked.subscription))
        if is_done:
            yield self._of_consumer(Kind.SUBSCRIBE, asked.consumer, when)

    def _begun(self, name: Name, when: Mapping[str, int]) -> Iterator[Recorded]:
        if name not in self.subscriptions:
            self.subscriptions.add(name)
            topic, subscription = name
            yield self._position_event(Kind.BEGIN, topic, subscription, Position(*FIRST_OF_ALL), when, CallOutcome.OK)

    def _acknowledged(
        self, asked: Acknowledge | AckById, acknowledged: Acknowledged, when: Mapping[str, int]
    ) -> Iterator[Recorded]:
        kind = Kind.ACK_CUMULATIVE if asked.cumulative else Kind.ACK
        outcome = CallOutcome.OK if acknowledged.receipt else CallOutcome.UNKNOWN
        if isinstance(asked, AckById) and (consumer := self.consumers.get(asked.consumer)):
            self.blind.add((consumer.topic, consumer.subscription))
        for message in acknowledged.messages:
            yield self._of_consumer(kind, asked.consumer, when, outcome=outcome, **_placed(message))

    def _given(self, consumer: str, messages: Iterable[Delivery], when: Mapping[str, int]) -> Iterator[Recorded]:
        for message in messages:
            yield self._of_consumer(Kind.DISPATCH, consumer, _seen(when), **self._dispatched(message))

    def _dispatched(self, message: Delivery) -> dict[str, Any]:
        return {
            **_placed(message),
            "key": self.keys.get(message.business_id),
            "digest": digest(message.business_id.encode()),
            "redeliveries": message.redeliveries,
            "delayed": True if message.business_id in self.delayed else None,
        }

    # ----------------------------------------------------------------------- what is done to subscriptions and topics

    def _administration(self, step: Step, when: Mapping[str, int]) -> Iterator[Recorded]:
        is_done = isinstance(step.outcome, Done | CursorReset)
        outcome = CallOutcome.OK if is_done else CallOutcome.UNKNOWN
        match step.operation:
            case CreateSubscription(topic=topic, subscription=name, start=start, at=message):
                if is_done and start == "earliest" and message is None:
                    yield from self._begun((topic, name), when)
                self.subscriptions.add((topic, name))
            case DeleteSubscription(topic=topic, subscription=name) if is_done:
                self.deleted[topic, name] += 1
                self.subscriptions.discard((topic, name))
            case Unsubscribe(consumer=consumer) if is_done and consumer in self.consumers:
                asked = self.consumers[consumer]
                self.deleted[asked.topic, asked.subscription] += 1
                self.subscriptions.discard((asked.topic, asked.subscription))
            case Skip(topic=topic, subscription=name) | SkipAll(topic=topic, subscription=name):
                yield self._position_event(Kind.SKIP, topic, name, AFTER_EVERYTHING, when, CallOutcome.UNKNOWN)
            case Expire(topic=topic, subscription=name):
                yield self._position_event(Kind.SKIP, topic, name, AFTER_EVERYTHING, when, CallOutcome.UNKNOWN)
            case ResetCursor(topic=topic, subscription=name):
                yield self._position_event(Kind.SEEK, topic, name, _set_to(step), when, outcome)
            case Seek(consumer=consumer) if consumer in self.consumers:
                asked = self.consumers[consumer]
                yield self._position_event(Kind.SEEK, asked.topic, asked.subscription, _set_to(step), when, outcome)
            case SetDeduplication(topic=topic) | PurgeProducers(topic=topic):
                yield self._event(
                    Kind.TOPIC, topic, when, deduplication=False
                )  # a topic is not judged once deduplication is switched, or may forget producers
            case Trim(topic=topic):
                self.trimmed.add(topic)
            case Unload(topic=topic):
                yield self._event(Kind.FAULT, topic, when, fault=UNLOAD)
            case TakeOver() | FreezeOwner() as fault if isinstance(step.outcome, TakenOver):
                is_killed = isinstance(fault, FreezeOwner) or fault.how == "kill"
                for topic in step.outcome.topics:
                    yield self._event(Kind.FAULT, topic, when, fault=KILL if is_killed else UNLOAD)
            case Kill() | Restart() as fault:
                name = KILL if isinstance(fault, Kill) else RESTART
                for topic in {opened.topic for opened in self.producers.values()} | {
                    one for one, _ in self.subscriptions
                }:
                    yield self._event(Kind.FAULT, topic, when, fault=name)
                    if isinstance(fault, Restart) and fault.deduplication is not None:
                        yield self._event(Kind.TOPIC, topic, when, deduplication=False)
            case _:
                pass

    def _position_event(
        self, kind: Kind, topic: str, subscription: str, to: Position, when: Mapping[str, int], outcome: CallOutcome
    ) -> Recorded:
        name = self._life(topic, subscription)
        return self._event(kind, topic, when, subscription=name, outcome=outcome, **_place(to))

    # ---------------------------------------------------------------------------------------------------------- reading

    def _reading(self, step: Step, when: Mapping[str, int]) -> Iterator[Recorded]:
        match step.operation, step.outcome:
            case ReadLog(topic=topic), LogRead() as read:
                self.logs[topic] = list(self._logged(topic, read, when))
            case asked, CursorRead(mark_delete=mark_delete):
                topic, name = getattr(asked, "topic"), getattr(asked, "subscription")  # noqa: B009 - any that reads one
                yield self._position_event(Kind.CURSOR, topic, name, mark_delete, when, CallOutcome.OK)
            case asked, AllReceived(messages=messages):
                topic, name = getattr(asked, "topic"), getattr(asked, "subscription")  # noqa: B009 - any that takes all
                yield from self._all_taken((topic, name), messages, when)
            case _:
                pass

    def _logged(self, topic: str, read: LogRead, when: Mapping[str, int]) -> Iterator[Recorded]:
        for logged in read.entries:
            for fields in self._messages(logged.entry):
                place = _place(logged.position, fields["batch_index"])
                yield self._event(Kind.LOG, topic, when, producer=logged.producer, **(fields | place))
        if read.entries:
            yield self._event(Kind.LOG_END, topic, when, **_place(read.entries[-1].position))

    def _all_taken(self, name: Name, messages: Iterable[Delivery], when: Mapping[str, int]) -> Iterator[Recorded]:
        """All consumers are disconnected, and a new one receives the backlog."""
        topic, subscription = name
        for consumer, asked in self.consumers.items():
            if (asked.topic, asked.subscription) == name:
                yield self._of_consumer(Kind.UNSUBSCRIBE, consumer, when)
        for message in messages:
            drained = {"subscription": self._life(*name), "consumer": "drain"}
            yield self._event(Kind.DISPATCH, topic, _seen(when), **drained, **self._dispatched(message))
        if topic in self.last and name not in self.blind:
            yield self._position_event(Kind.DRAINED, topic, subscription, self.last[topic], when, CallOutcome.OK)

    # ----------------------------------------------------------------------------------------------------------- events

    def _of_consumer(self, kind: Kind, consumer: str, when: Mapping[str, int | None], **fields: Any) -> Recorded:
        asked = self.consumers[consumer]
        type_ = OUT_OF_ORDER if self._is_out_of_order(asked) else asked.kind
        return self._event(
            kind,
            asked.topic,
            when,
            subscription=self._subscription(asked),
            subscription_type=type_,
            consumer=consumer,
            **fields,
        )

    def _is_out_of_order(self, asked: Subscribe) -> bool:
        name = asked.topic, asked.subscription
        return any((one.topic, one.subscription) == name and one.out_of_order for one in self.consumers.values())

    def _subscription(self, asked: Subscribe) -> str:
        name = self._life(asked.topic, asked.subscription)
        return name if asked.durable else f"{name} of {asked.consumer}"

    def _life(self, topic: str, subscription: str) -> str:
        """A subscription's name, another one after each deletion."""
        deleted = self.deleted[topic, subscription]
        return f"{subscription}, made again {deleted}" if deleted else subscription

    def _event(self, kind: Kind, topic: str, when: Mapping[str, Any], **fields: Any) -> Recorded:
        return Recorded(run=self.run, lane=self.lane, kind=kind, topic=f"{self.run}/{topic}", **{**fields, **when})


def _outcome(answer: Answer | None) -> tuple[CallOutcome, Position | None]:
    match answer:
        case Stored(position=position):
            return CallOutcome.OK, position
        case Duplicate():
            return CallOutcome.DUPLICATE, None
        case Refused(code=code) if code in NEVER_STORED:
            return CallOutcome.FAILED, None
        case _:
            return CallOutcome.UNKNOWN, None


def _set_to(step: Step) -> Position:
    to = step.outcome.to if isinstance(step.outcome, CursorReset) else None
    return Position(*FIRST_OF_ALL) if to is None else to


def _placed(message: Delivery) -> dict[str, int]:
    return _place(message.position, message.batch_index)


def _of_its_entry(message: Delivery) -> list[dict[str, int]]:
    """All messages of an entry, because redelivery is of whole entries."""
    return [_place(message.position, index) for index in range(message.batch_size)] or [_placed(message)]


def _place(position: Position, batch_index: int = -1) -> dict[str, int]:
    return {"ledger": position.ledger, "entry": position.entry, "batch_index": batch_index}


def _seen(when: Mapping[str, int]) -> dict[str, int | None]:
    """Only the time of the receipt is known."""
    return {"invoked_ns": None, "completed_ns": when["completed_ns"]}


def _ns(at_ms: float) -> int:
    return round(at_ms * 1e6)
