"""The steps of a history as calls: what a program of a released client does instead of the suite's performer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from conformance.history.document import Step
from conformance.report.reproducer.calls import Argument, Call, call
from conformance.report.reproducer.inexpressible import Inexpressible
from conformance.report.reproducer.judged import JudgedHistory
from conformance.report.reproducer.promise import later_in, promised
from model.events import (
    Acknowledged,
    DueReceived,
    ReceivedMessages,
    RedeliveryRequested,
    Refused,
    Sent,
    Skipped,
    Starved,
)
from model.expiry_operations import ExpireOlder, SetTtl
from model.operations import (
    AnyOperation,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    CutAfterSends,
    DisturbMetadataStore,
    FreezeOwner,
    Kill,
    OpenProducer,
    ReadLog,
    ReadSnapshot,
    Restart,
    Send,
    SetDeduplication,
    SetFailpoint,
    StartSource,
    TakeOver,
    Terminate,
    Trim,
    Unload,
    UseProxy,
)
from model.producer_operations import AwaitProducers, PurgeProducers
from model.read_operations import AnalyzeBacklog, ExamineMessage, ReadMessage
from model.reader_operations import CloseReader, HasMessageAvailable, MessagesRead, OpenReader, ReadNext
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    DeleteSubscription,
    Expire,
    Nack,
    NackRepeatedly,
    PeekMessage,
    Permit,
    ReadCursor,
    ReadStoredCursor,
    Receive,
    ReceiveAll,
    ReceiveDue,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
    Unsubscribe,
)
from model.traffic import Delivery, Life
from model.vocabulary import PERSISTED_PER_S, Entry, Message

OLD_S: Final = 6
YOUNG_S: Final = 3
"""A program cannot send messages that are old already: it waits, and expires what is older than this."""


_PERMITS: Final = "permits that a client does not send by itself"
_NEEDS: Final[dict[type[AnyOperation], str]] = {
    SetFailpoint: "a failpoint in the broker",
    Kill: "a kill of the broker",
    Restart: "a restart of the broker",
    TakeOver: "a takeover by another broker",
    FreezeOwner: "a frozen broker",
    DisturbMetadataStore: "a disturbed metadata store",
    AwaitProducers: "producers that wait for exclusive access",
    PurgeProducers: "hours that pass at once in the broker",
    AwaitPersisted: "the number of entries in a cursor's ledger",
    ReadSnapshot: "the stored deduplication snapshot",
    ReadStoredCursor: "the stored cursor",
    NackRepeatedly: "the times between redeliveries",
    StartSource: "an application that resumes from the last sequence id",
    UseProxy: "a proxy that injects network faults",
}


def _needed(operation: AnyOperation) -> str:
    return _NEEDS.get(type(operation), f"the operation {type(operation).__name__}")


def calls_of(judged: JudgedHistory, *, is_exact: bool = False) -> list[Call]:
    """The calls that perform a history, and demand at the end what the document promises.

    ``is_exact``: consumers give the broker the permits of the history, and chunks are sent one by one.

    Raises:
        Inexpressible: it needs what a released client cannot do.
    """
    translation = _Translation(judged, is_exact=is_exact)
    return [one for index in range(len(judged.steps)) for one in translation.step(index)]


class _Translation:
    """Translates a history step by step, and remembers who is open."""

    def __init__(self, judged: JudgedHistory, *, is_exact: bool) -> None:
        self._judged = judged
        self._is_exact = is_exact
        self._permits: dict[str, int] = {}
        self._subscription_of: dict[str, tuple[str, str]] = {}
        self._batching = any(
            len(entry.messages) > 1
            for step in judged.steps
            if isinstance(step.operation, Send)
            for entry in step.operation.entries
        )
        self._names: dict[str, tuple[str, str]] = {}
        self._topic_of: dict[str, str] = {}
        self._of_released_client: set[str] = set()
        self._received: dict[str, list[str]] = {}
        self._open: dict[str, None] = {}
        self._chunking: set[str] = set()
        self._chunks = {
            message.business_id
            for step in judged.steps
            if isinstance(step.operation, Send)
            for entry in step.operation.entries
            for message in entry.messages
            if message.chunk is not None and not message.chunk.is_last
        }

    def step(self, index: int) -> list[Call]:
        step = self._judged.steps[index]
        if isinstance(step.outcome, Skipped):
            return []
        is_last = index + 1 == len(self._judged.steps)
        calls = list(self._performed(index, step))
        if is_last:
            return promised(self._judged, calls)
        if isinstance(step.outcome, Refused):
            return [later_in("attempt", calls)] if calls else []
        return calls

    def _performed(self, index: int, step: Step) -> Iterable[Call]:
        operation = step.operation
        match operation:
            case CreateTopic():
                yield from self._create(operation)
            case OpenProducer() | Send() | CloseProducer() | CrashProducer():
                yield from self._producing(operation, step)
            case Subscribe() | Permit() | CloseConsumer() | CrashConsumer() | Unsubscribe() | Seek():
                yield from self._connecting(operation)
            case Receive() | ReceiveDue() | Acknowledge() | AckById() | Nack():
                yield from self._consuming(operation, step)
            case OpenReader() | ReadNext() | HasMessageAvailable() | CloseReader():
                yield from self._reading(operation, step)
            case Unload(topic=topic, classic=classic, cluster=None, scope="topic") if classic is None or (
                classic and self._judged.is_classic
            ):
                yield from self._left_by_unload(index, topic)
                yield call("unload", topic)
            case Kill(cluster=None, power_fails=False) if self._is_exact:
                if self._of_released_client & self._open.keys():
                    raise Inexpressible("a client that reconnects after a kill of the broker")
                self._open.clear()
                yield call("kill_broker")
            case ReadLog(cluster=None) | ReadCursor() | ReceiveAll(cluster=None):
                if isinstance(operation, ReceiveAll) and index + 1 < len(self._judged.steps):
                    raise Inexpressible("a consumer that receives all and is gone")
            case _:
                yield from self._administration(index, operation)

    # ------------------------------------------------------------------------------------------------- administration

    def _create(self, asked: CreateTopic) -> Iterable[Call]:
        if asked.clusters > 1:
            raise Inexpressible(f"{asked.clusters} clusters with replicated subscriptions")
        if asked.is_chunked and not self._is_exact:
            raise Inexpressible("what passes on the wire between a client and its broker")
        if asked.quorum is not None:
            raise Inexpressible("several bookies")
        deduplication: bool | None = None if asked.deduplication == "broker" else asked.deduplication.endswith("-on")
        if asked.deduplication.startswith("topic-"):
            deduplication = not deduplication
        if asked.persistence is not None:
            deduplication = False
        yield call("create_topic", asked.topic, deduplication, asked.is_trimmed, asked.partitions)
        if asked.is_chunked and deduplication:
            yield call("take_no_snapshots", asked.topic)
        if asked.persistence is not None:
            yield call("set_persistence", asked.topic, PERSISTED_PER_S[asked.persistence] or 0.0)
        if asked.limits is not None:
            limits = asked.limits
            yield call("set_limits", asked.topic, limits.consumers, limits.unacknowledged, limits.in_all)
        if asked.deduplication.startswith("topic-"):
            yield call("set_topic_deduplication", asked.topic, asked.deduplication == "topic-on")

    def _administration(self, index: int, operation: AnyOperation) -> Iterable[Call]:
        match operation:
            case CreateSubscription(topic=topic, subscription=name, start=start, at=None):
                yield call("create_subscription", topic, name, start)
            case DeleteSubscription(topic=topic, subscription=name, by_force=by_force, scope="topic"):
                yield call("delete_subscription", topic, name, by_force)
            case Skip(topic=topic, subscription=name, count=count):
                yield call("skip", topic, name, count)
            case SkipAll(topic=topic, subscription=name, scope="topic"):
                yield call("skip_all", topic, name)
            case Expire(topic=topic, subscription=name, up_to=str(message)):
                yield call("expire_up_to", topic, name, message)
                yield from self._awaited_backlog(index, topic)
            case ResetCursor(topic=topic, subscription=name, to=str() | None as to, by_time=False, after=after):
                yield call("reset_cursor", topic, name, to or "", after)
            case PeekMessage(topic=topic, subscription=name, nth=nth):
                yield call("peek", topic, name, nth)
            case AnalyzeBacklog(topic=topic, subscription=name):
                yield call("analyze_backlog", topic, name)
            case ExamineMessage(topic=topic, nth=nth, from_end=from_end):
                yield call("examine", topic, nth, from_end)
            case ReadMessage(topic=topic, message=message):
                yield call("read_message", topic, message or self._sent()[-1][-1], int(message is None))
            case Terminate(topic=topic):
                yield call("terminate", topic)
            case Trim(topic=topic):
                yield call("trim", topic)
            case SetDeduplication(topic=topic, scope=scope, on=is_on, in_flight=False):
                yield call(f"set_{scope}_deduplication", topic, is_on)
            case ExpireOlder(topic=topic, subscription=None):
                yield call("expire_older_of_all", topic, YOUNG_S)
                yield from self._awaited_backlog(index, topic)
            case ExpireOlder(topic=topic, subscription=str(name)):
                yield call("expire_older", topic, name, YOUNG_S)
                yield from self._awaited_backlog(index, topic)
            case SetTtl(topic=topic, seconds=int(), scope="topic"):
                yield call("set_ttl", topic, YOUNG_S)
                yield from self._awaited_backlog(index, topic)
            case _:
                raise Inexpressible(_needed(operation))

    def _awaited_backlog(self, index: int, topic: str) -> Iterable[Call]:
        """Wait for what the broker does after it answered: the backlog of each durable subscription."""
        if index + 1 == len(self._judged.steps):
            return
        for subscription, cursor in self._judged.before[index + 1].consumption.cursors.items():
            left = self._judged.backlog(index + 1, subscription)
            if subscription.topic == topic and cursor.durable and left is not None:
                yield call("await_backlog", topic, subscription.name, left)

    def _left_by_unload(self, index: int, topic: str) -> Iterable[Call]:
        """The suite's own clients do not reconnect after an unload, as released ones do."""
        used = {one.operation.actor for one in self._judged.steps[index + 1 :] if not isinstance(one.outcome, Skipped)}
        for name in [one for one in self._open if self._topic_of[one].startswith(topic)]:
            if name not in used and name not in self._of_released_client:
                yield self._gone("close", name)

    def _sent(self) -> list[list[str]]:
        """The messages of each entry."""
        sent = (one.operation for one in self._judged.steps if isinstance(one.operation, Send))
        return [[message.business_id for message in entry.messages] for one in sent for entry in one.entries]

    # ------------------------------------------------------------------------------------------------------ producers

    def _producing(self, operation: OpenProducer | Send | CloseProducer | CrashProducer, step: Step) -> Iterable[Call]:
        match operation:
            case OpenProducer() as asked:
                if asked.has_epoch or asked.access == "WaitForExclusive":
                    raise Inexpressible("a producer that reconnects with an epoch or waits for exclusive access")
                for session, (topic, name) in list(self._names.items()):
                    if (topic, name) == (asked.topic, asked.producer) and session in self._open:
                        yield self._gone("close", session)
                self._names[asked.session] = (asked.topic, asked.producer)
                if asked.is_chunking and self._is_exact:
                    self._chunking.add(asked.session)
                self._opened(asked.session, asked.topic, is_released=asked.client == "official")
                yield call("open_producer", asked.session, asked.topic, asked.producer, self._batching, asked.access)
            case Send(session=session) if session in self._chunking:
                yield from self._sent_in_chunks(operation, step.outcome)
            case Send(interruption=None) as send:
                if not send.wait:
                    raise Inexpressible("sends that are unanswered during the next operation")
                entries = (Call("entry", tuple(map(self._message, entry.messages))) for entry in send.entries)
                yield call("send", send.session, *entries)
                if send.age_s:
                    yield call("wait", OLD_S)
            case CloseProducer(session=session):
                yield self._gone("close", session)
            case CrashProducer(session=session):
                yield self._gone("crash", session)
            case _:
                raise Inexpressible("an interruption between the chunks of a message")

    def _sent_in_chunks(self, send: Send, outcome: object) -> Iterable[Call]:
        """Each chunk that passed to the broker, as a message with the metadata of a chunk."""
        match send, outcome:
            case (
                Send(
                    entries=(Entry(messages=(message,)),),
                    interruption=None | CutAfterSends(meanwhile="dies") as interruption,
                ),
                Sent(lives=(Life(sends=parts, refused=0),)),
            ):
                for part in parts:
                    name = message.business_id if part.chunk_id == 0 else ""
                    options: dict[str, str | int] = {"chunk_of": part.uuid or message.business_id}
                    options |= {"chunk_id": part.chunk_id, "chunks": part.chunks, "size": len(message.business_id)}
                    sent = Call("message", (name, part.sequence_id), options)
                    yield call("send", send.session, Call("entry", (sent,)))
                if interruption is not None:
                    yield self._gone("crash", send.session)
            case _:
                raise Inexpressible("an interruption between the chunks of a message")

    def _message(self, message: Message) -> Call:
        options: dict[str, str | int] = {}
        if message.chunk is not None and self._is_exact and not self._batching:
            chunk = message.chunk
            options |= {
                "chunk_of": chunk.uuid or message.business_id,
                "chunk_id": chunk.chunk_id,
                "chunks": chunk.chunks,
            }
        elif message.chunk is not None or message.content != "text":
            raise Inexpressible("chunks that the suite's own client sends one by one")
        if message.only_to is not None:
            raise Inexpressible("a message that is restricted to some clusters")
        for name, value in (("key", message.key), ("ordering_key", message.ordering_key)):
            if value is not None:
                options[name] = value
        for name, number in (("size", message.size_bytes), ("delay", message.delay_ms)):
            if number:
                options[name] = number
        return Call("message", (message.business_id, message.sequence_id), options)

    def _opened(self, name: str, topic: str, *, is_released: bool) -> None:
        self._open[name] = None
        self._topic_of[name] = topic
        if is_released:
            self._of_released_client.add(name)

    def _gone(self, how: str, name: str) -> Call:
        self._open.pop(name, None)
        return call(how, name)

    # ------------------------------------------------------------------------------------------------------ consumers

    def _connecting(
        self, operation: Subscribe | Permit | CloseConsumer | CrashConsumer | Unsubscribe | Seek
    ) -> Iterable[Call]:
        match operation:
            case Subscribe(client="wire", queue=0) as asked if self._is_exact:
                yield from self._subscribe_paused(asked)
            case Subscribe() as asked:
                if asked.sticky or asked.out_of_order or asked.is_replicated or not asked.durable or asked.proxied:
                    raise Inexpressible("a consumer with hash ranges of its own, out of order, non-durable or cut off")
                self._received[asked.consumer] = []
                self._opened(asked.consumer, asked.topic, is_released=asked.client == "official")
                arguments = (asked.consumer, asked.topic, asked.subscription, asked.kind, asked.start)
                yield call("subscribe", *arguments, max(1, asked.queue))
            case Permit(consumer=consumer, count=count) if self._is_exact:
                yield self._permitted(consumer, count)
            case Permit():
                raise Inexpressible(_PERMITS)
            case CloseConsumer(consumer=consumer):
                yield self._gone("close", consumer)
            case CrashConsumer(consumer=consumer):
                yield self._gone("crash", consumer)
            case Unsubscribe(consumer=consumer):
                yield call("unsubscribe", consumer)
            case Seek(consumer=consumer, to=to, by_time=False):
                yield call("seek", consumer, to or "")
            case _:
                raise Inexpressible("a seek to a time")

    def _subscribe_paused(self, asked: Subscribe) -> Iterable[Call]:
        if asked.is_replicated or not asked.durable or asked.proxied or asked.known_as not in (None, asked.consumer):
            raise Inexpressible("a consumer that is non-durable, cut off, or has the name of another one")
        self._received[asked.consumer] = []
        self._permits[asked.consumer] = 0
        self._subscription_of[asked.consumer] = (asked.topic, asked.subscription)
        self._opened(asked.consumer, asked.topic, is_released=False)
        policy = None
        if asked.kind == "Key_Shared" and len(self._permits) == 1:
            yield call("demand_draining_hashes", self._judged.has_draining_hashes)
        if asked.sticky:
            policy = Call("hash_ranges", tuple(end for ends in asked.sticky for end in ends))
        elif asked.out_of_order:
            policy = Call("out_of_order")
        arguments = (asked.consumer, asked.topic, asked.subscription, asked.kind, asked.start, policy)
        yield call("subscribe_paused", *arguments)

    def _permitted(self, consumer: str, count: int) -> Call:
        self._permits[consumer] += count
        return call("permit", consumer, count)

    def _takes_exactly(self, topic: str, subscription: str, read: Mapping[str, Sequence[Delivery]]) -> Iterable[Call]:
        """Receive what each consumer of a subscription got, and wait for more that must not come.

        A client assembles chunks, so it hands over the message with the last one; the broker counts them all.
        """
        for consumer, messages in read.items():
            self._permits[consumer] -= len(messages)
            names = [one.business_id for one in messages]
            self._received[consumer] += names
            whole = [name for name in names if name not in self._chunks]
            if whole:
                yield call("receive", consumer, *whole)
            if len(whole) < len(names):
                pending = dict.fromkeys(self._received[consumer])
                yield call("await_unacknowledged", topic, subscription, consumer, len(pending))
        yield call("settle")

    def _consuming(self, operation: Receive | ReceiveDue | Acknowledge | AckById | Nack, step: Step) -> Iterable[Call]:
        match operation, step.outcome:
            case Receive(consumer=consumer, count=count), (
                ReceivedMessages(messages=messages) | Starved(messages=messages)
            ) if consumer in self._permits:
                if (missing := count - self._permits[consumer]) > 0:
                    yield self._permitted(consumer, missing)
                yield from self._takes_exactly(*self._subscription_of[consumer], {consumer: messages})
            case ReceiveDue(topic=topic, subscription=name), DueReceived(consumers=consumers) if self._is_exact:
                yield from self._takes_exactly(topic, name, {one.consumer: one.messages for one in consumers})
            case Receive(consumer=consumer), ReceivedMessages(messages=messages) | Starved(messages=messages):
                if not messages and step is not self._judged.violated:
                    raise Inexpressible(_PERMITS)
                yield from self._takes(consumer, [one.business_id for one in messages])
            case ReceiveDue(), DueReceived(consumers=consumers):
                for read in consumers:
                    yield from self._takes(read.consumer, [one.business_id for one in read.messages])
            case Acknowledge() | AckById() as asked, outcome:
                yield from self._acknowledging(asked, outcome)
            case Nack(consumer=consumer, nth=None), _:
                yield call("redeliver_unacknowledged", consumer)
            case Nack(consumer=consumer), RedeliveryRequested(messages=messages) if consumer in self._permits:
                yield call("redeliver", consumer, *(one.business_id for one in messages))
            case Nack(consumer=consumer), RedeliveryRequested(messages=messages):
                yield call("negatively_acknowledge", consumer, *(one.business_id for one in messages))
            case _:
                raise Inexpressible(_needed(operation))

    def _takes(self, consumer: str, names: list[str]) -> Iterable[Call]:
        self._received.setdefault(consumer, []).extend(names)
        if names:
            yield call("receive", consumer, *names)

    def _acknowledging(self, asked: Acknowledge | AckById, outcome: object) -> Iterable[Call]:
        if isinstance(outcome, Acknowledged):
            names: list[Argument] = [one.business_id for one in outcome.messages]
        elif isinstance(asked, AckById):
            names = list(asked.ids)
        else:
            received = self._received[asked.consumer]
            names = [received[one % len(received)] for one in asked.nth]
        if asked.consumer in self._of_released_client:
            raise Inexpressible("an ack that pulsar-client holds at that moment")
        if asked.cumulative and any(len(batch) > 1 and {*batch} & {*map(str, names)} for batch in self._sent()):
            raise Inexpressible("a cumulative ack within a batch as the suite's own client sends it")
        missing = {str(one) for one in names}.difference(self._received[asked.consumer])
        yield from self._takes(asked.consumer, [one for batch in self._sent() if missing & {*batch} for one in batch])
        if names:
            yield call("acknowledge_up_to" if asked.cumulative else "acknowledge", asked.consumer, *names)

    def _reading(
        self, operation: OpenReader | ReadNext | HasMessageAvailable | CloseReader, step: Step
    ) -> Iterable[Call]:
        match operation, step.outcome:
            case OpenReader() as asked, _:
                self._opened(asked.reader, asked.topic, is_released=True)
                arguments = (asked.reader, asked.topic, asked.start, asked.at or "", asked.is_inclusive)
                yield call("open_reader", *arguments, max(1, asked.queue))
            case ReadNext(reader=reader), MessagesRead(messages=messages):
                if messages:
                    yield call("read", reader, *(one.business_id for one in messages))
            case CloseReader(reader=reader), _:
                yield self._gone("close", reader)
            case _:
                return
