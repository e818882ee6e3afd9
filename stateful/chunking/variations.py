"""More machines of document 002: interrupted producers, crafted chunks, shared subscriptions, kills, and the stats."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from model.failpoints import FailpointKind
from model.operations import (
    ClearFailpoints,
    CloseProducer,
    Kill,
    Meanwhile,
    OpenProducer,
    ReadChunkRate,
    ReadLog,
    Restart,
    Send,
    SetFailpoint,
    Unload,
)
from model.subscription_operations import Acknowledge, Nack
from model.vocabulary import ChunkNumber, Compression, Entry, Message, SubscriptionType
from stateful.chunking.machines import (
    COMPRESSIONS,
    CUTS,
    KINDS,
    NAMES,
    NTH,
    PICKS,
    QUEUES,
    SUBSCRIPTION,
    TOPIC,
    OnChunks,
)
from stateful.chunking.plan import ROOM_BYTES, PayloadPick

MEANWHILE = st.sampled_from(["dies", "reconnects", "unload"])
LARGE = st.lists(
    st.builds(PayloadPick, rooms=st.sampled_from([1, 2, 3]), extra=st.sampled_from([1, 7])), min_size=1, max_size=2
)
"""Payloads that are split."""


class ChunksInterruptedMachine(OnChunks):
    """Producers' connections end between two chunks: they crash and restart, or reconnect, maybe after an unload."""

    @initialize(deduplication=st.booleans(), picks=PICKS, compression=COMPRESSIONS, is_there=st.booleans(), kind=KINDS)
    def begin(
        self,
        deduplication: bool,
        picks: list[PayloadPick],
        compression: Compression,
        is_there: bool,
        kind: SubscriptionType,
    ) -> None:
        """A topic with messages, and in half of the examples a consumer from the beginning."""
        self.create(deduplication=deduplication)
        self.send(self.source("a", compression=compression), picks)
        self.is_there, self.kind = is_there, kind
        if is_there:
            self.subscribe(kind)
            self.gather()

    @rule(name=NAMES, picks=LARGE, cut_after=CUTS, meanwhile=MEANWHILE)
    def cut_off(self, name: str, picks: list[PayloadPick], cut_after: int, meanwhile: Meanwhile) -> None:
        """A producer's connection ends while it sends."""
        self.interrupt(self.source(name), picks, cut_after, meanwhile)
        self.look()

    @rule(name=NAMES, picks=LARGE, cut_after=st.integers(1, 3))
    def die(self, name: str, picks: list[PayloadPick], cut_after: int) -> None:
        """A producer crashes while it sends, and never sends these messages again."""
        source = self.source(name)
        self.die_with(source, picks, cut_after)
        self.look()

    @rule(name=NAMES, picks=PICKS)
    def more(self, name: str, picks: list[PayloadPick]) -> None:
        """Send more messages."""
        self.send(self.source(name), picks)
        self.look()

    @rule()
    def unload(self) -> None:
        """The topic is unloaded."""
        self.do(Unload(TOPIC))
        self.look()

    @rule(crashes=st.booleans())
    def next_one(self, crashes: bool) -> None:
        """The consumer leaves, and another one subscribes."""
        for consumer in self.plan.consumers.pop(SUBSCRIPTION, []):
            self.leave(consumer, crashes=crashes)
        self.is_there = True
        self.subscribe(self.kind)
        self.gather()

    @rule(nth=NTH)
    def acknowledge(self, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of its messages."""
        for consumer in self.plan.consumers.get(SUBSCRIPTION, [])[-1:]:
            self.do(Acknowledge(consumer, nth))

    def look(self) -> None:
        """Receive everything that is due, or read the log."""
        if self.is_there:
            self.gather()
        else:
            self.do(ReadLog(TOPIC))


class ChunksKillsMachine(OnChunks):
    """The broker is restarted or killed between two chunks; a later consumer receives complete messages."""

    @initialize(deduplication=st.sampled_from([True, True, False]))
    def begin(self, deduplication: bool) -> None:
        """An empty topic."""
        self.create(deduplication=deduplication)

    @rule(before=PICKS, picks=LARGE, cut_after=CUTS, is_killed=st.booleans(), after=PICKS)
    def bounce(
        self,
        before: list[PayloadPick],
        picks: list[PayloadPick],
        cut_after: int,
        is_killed: bool,
        after: list[PayloadPick],
    ) -> None:
        """A producer crashes while it sends, the broker is killed or restarted, and the producer restarts."""
        self.send(self.source("a"), before)
        self.die_with(self.source("a"), picks, cut_after)
        self.do(Kill() if is_killed else Restart())
        self.send_again(self.source("a"))
        self.send(self.source("a"), after)
        self.do(ReadLog(TOPIC))
        subscription = self.plan.fresh("s")
        self.subscribe("Exclusive", subscription=subscription)
        self.gather(subscription)


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of one of a few messages under way, or, without a message, a plain one."""

    message: int | None
    chunk_id: int


PIECES = st.lists(
    st.builds(Piece, message=st.sampled_from([0, 0, 1, 2, None]), chunk_id=st.sampled_from([0, 0, 1, 1, 2])),
    min_size=2,
    max_size=7,
)
ORDERLY = st.permutations([0, 0, 0, 1, 1, 2, 2, 2])
"""In which order messages go on, each with its next chunk."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A producer sends its next chunk; a message that begins with it has so many chunks, and this key."""

    producer: int
    chunks: int
    key: str | None


@dataclass(slots=True)
class Unfinished:
    """A message of which some chunks are sent."""

    number: int
    chunks: int
    key: str | None
    sent: int = 0


TURNS = st.lists(
    st.builds(
        Turn,
        producer=st.integers(0, 3),
        chunks=st.sampled_from([2, 2, 3, 4, 6]),
        key=st.sampled_from([None, None, "k0", "k1"]),
    ),
    min_size=2,
    max_size=12,
)
SMALL_QUEUES = st.sampled_from([1, 1, 2, 3, 1000])
INDEXES = st.integers(0, 9)
RACES: st.SearchStrategy[FailpointKind] = st.sampled_from(["read-slow", "read-slow", "leave-slow"])
MOST_CONSUMERS = 5
ALL = tuple(range(60))


class ChunksCraftedMachine(OnChunks):
    """Chunks that no client sends: partial, repeated, out of order, of many messages; small limits on buffers."""

    @initialize(
        kind=st.sampled_from(["Exclusive", "Failover"]),
        pending=st.sampled_from([0, 1, 1, 2, 2]),
        acks=st.booleans(),
        pieces=PIECES,
        queue=QUEUES,
    )
    def begin(self, kind: SubscriptionType, pending: int, acks: bool, pieces: list[Piece], queue: int) -> None:
        """A topic with chunks, and a consumer."""
        self.kind, self.pending, self.acks, self.queue = kind, pending, acks, queue
        self.numbers: dict[int, int] = {}
        self.number = 0
        self.create()
        self.craft(pieces)
        self.join()

    @rule(pieces=PIECES)
    def pieces_come(self, pieces: list[Piece]) -> None:
        """Send any chunks in any order, of earlier or new messages."""
        self.craft(pieces)
        self.gather()

    @rule(order=ORDERLY)
    def messages_come(self, order: list[int]) -> None:
        """Send messages with interleaved chunks."""
        self.numbers.clear()
        there: dict[int, int] = {}
        pieces = []
        for message in order:
            pieces.append(Piece(message, there.get(message, 0)))
            there[message] = there.get(message, 0) + 1
        self.craft(pieces)
        self.gather()

    @rule(nth=NTH, is_cumulative=st.sampled_from([False, False, True]))
    def acknowledge(self, nth: tuple[int, ...], is_cumulative: bool) -> None:
        """A consumer acknowledges some of its messages."""
        self.do(Acknowledge(self.plan.consumers[SUBSCRIPTION][-1], nth, is_cumulative))

    @rule(nth=st.none() | NTH)
    def fail(self, nth: tuple[int, ...] | None) -> None:
        """A consumer nacks some of its messages."""
        self.do(Nack(self.plan.consumers[SUBSCRIPTION][-1], nth))
        self.gather()

    @rule(crashes=st.booleans())
    def next_one(self, crashes: bool) -> None:
        """The consumer leaves, maybe with half a message, and another one subscribes."""
        self.leave(self.plan.consumers[SUBSCRIPTION][-1], crashes=crashes)
        self.join()

    @rule()
    def unload(self) -> None:
        """The topic is unloaded, and unfinished messages are redelivered to consumers that may have them."""
        self.do(Unload(TOPIC))
        self.gather()

    def join(self) -> None:
        """A consumer joins."""
        self.subscribe(self.kind, queue=self.queue, pending=self.pending, acks=self.acks)
        self.gather()

    def craft(self, pieces: list[Piece]) -> None:
        """Send chunks, of messages with a number each, in a session of their own."""
        session = self.plan.fresh("p")
        self.do(OpenProducer(session, TOPIC, "w"))
        self.do(Send(session, tuple(Entry((self.chunk(piece),)) for piece in pieces)))
        self.do(CloseProducer(session))

    def chunk(self, piece: Piece) -> Message:
        """A chunk of the message that has this number now."""
        if piece.message is None:
            self.number += 1
            return Message(self.number, f"m{self.number}")
        if piece.message not in self.numbers:
            self.number += 1
            self.numbers[piece.message] = self.number
        number = self.numbers[piece.message]
        chunks = 2 if piece.message == 1 else 3
        return Message(number, f"u{number}", chunk=ChunkNumber(piece.chunk_id % chunks, chunks))


class ChunksSharedMachine(OnChunks):
    """Several consumers share a subscription; they join, leave with parts of messages, and nack."""

    @initialize(picks=PICKS, kind=st.sampled_from(["Shared", "Shared", "Key_Shared"]), queue=QUEUES)
    def begin(self, picks: list[PayloadPick], kind: SubscriptionType, queue: int) -> None:
        """A topic with messages, and a consumer."""
        self.kind, self.queue = kind, queue
        self.create()
        self.send(self.source("a"), picks)
        self.join()

    @rule()
    def join(self) -> None:
        """A consumer joins."""
        self.subscribe(self.kind, queue=self.queue)
        self.gather()

    @rule(name=NAMES, picks=PICKS, others=LARGE, after=CUTS)
    def more(self, name: str, picks: list[PayloadPick], others: list[PayloadPick], after: int) -> None:
        """Send more messages of two producers."""
        self.interleaved(self.source(name), picks, self.source("b" if name == "a" else "a"), others, after)
        self.gather()

    @rule(picks=LARGE, cut_after=st.integers(1, 2))
    def die(self, picks: list[PayloadPick], cut_after: int) -> None:
        """A producer crashes, and never sends its messages again."""
        self.die_with(self.source("b"), picks, cut_after)
        self.gather()

    @rule(index=st.integers(0, 3), nth=NTH)
    def acknowledge(self, index: int, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of its messages."""
        if there := self.plan.consumers[SUBSCRIPTION]:
            self.do(Acknowledge(there[index % len(there)], nth))

    @rule(index=st.integers(0, 3), nth=st.none() | NTH)
    def fail(self, index: int, nth: tuple[int, ...] | None) -> None:
        """A consumer nacks some of its messages."""
        if there := self.plan.consumers[SUBSCRIPTION]:
            self.do(Nack(there[index % len(there)], nth))
            self.gather()

    @rule(
        kind=RACES,
        count=st.integers(1, 3),
        delay_ms=st.sampled_from([20, 60, 120]),
        picks=LARGE,
        others=LARGE,
        after=CUTS,
        index=st.integers(0, 3),
        meanwhile=st.lists(st.sampled_from(["joins", "crashes", "closes"]), min_size=1, max_size=2),
    )
    def race(
        self,
        kind: FailpointKind,
        count: int,
        delay_ms: int,
        picks: list[PayloadPick],
        others: list[PayloadPick],
        after: int,
        index: int,
        meanwhile: list[str],
    ) -> None:
        """While reads or leaves take long, messages are sent, and consumers join and leave."""
        self.do(SetFailpoint(TOPIC, kind, count, delay_ms))
        self.interleaved(self.source("a"), picks, self.source("b"), others, after)
        there = self.plan.consumers[SUBSCRIPTION]
        for number, what in enumerate(meanwhile):
            if what == "joins" or not there:
                self.subscribe(self.kind, queue=self.queue)
            else:
                self.leave(there.pop((index + number) % len(there)), crashes=what == "crashes")
        self.gather()
        self.do(ClearFailpoints())

    @rule(index=st.integers(0, 3), crashes=st.booleans())
    def lose(self, index: int, crashes: bool) -> None:
        """A consumer leaves with its pending messages."""
        if there := self.plan.consumers[SUBSCRIPTION]:
            self.leave(there.pop(index % len(there)), crashes=crashes)
            self.gather()

    @rule()
    def unload(self) -> None:
        """The topic is unloaded."""
        self.do(Unload(TOPIC))
        self.gather()


class ChunksManyMachine(OnChunks):
    """Producers send chunks in turns; consumers with small queues share the subscription, and acknowledge everything.

    No consumer leaves with a part of a message or nacks, so every complete message must be delivered.
    """

    @initialize(kind=st.sampled_from(["Shared", "Key_Shared"]), queues=st.lists(SMALL_QUEUES, min_size=2, max_size=4))
    def begin(self, kind: SubscriptionType, queues: list[int]) -> None:
        """An empty topic, and consumers."""
        self.kind = kind
        self.number = 0
        self.messages: dict[str, Unfinished] = {}
        self.producers: dict[str, str] = {}
        self.create()
        for queue in queues:
            self.subscribe(kind, queue=queue)

    @rule(turns=TURNS, is_finished=st.sampled_from([True, True, False]))
    def publish(self, turns: list[Turn], is_finished: bool) -> None:
        """Producers take turns, and their messages may stay unfinished."""
        self.take(turns)
        if is_finished:
            self.finish()
        self.gather()

    @precondition(lambda self: len(self.plan.consumers[SUBSCRIPTION]) < MOST_CONSUMERS)
    @rule(turns=TURNS, count=st.integers(1, 3), delay_ms=st.sampled_from([20, 60, 120]), queue=SMALL_QUEUES)
    def read_slowly(self, turns: list[Turn], count: int, delay_ms: int, queue: int) -> None:
        """Chunks that were read reach the dispatcher late; a consumer joins meanwhile."""
        self.do(SetFailpoint(TOPIC, "read-slow", count, delay_ms))
        self.take(turns)
        self.subscribe(self.kind, queue=queue)
        self.finish()
        self.gather()
        self.do(ClearFailpoints())

    @rule(index=INDEXES, nth=NTH)
    def acknowledge(self, index: int, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of its messages."""
        there = self.plan.consumers[SUBSCRIPTION]
        self.do(Acknowledge(there[index % len(there)], nth))

    @rule()
    def acknowledge_all(self) -> None:
        """Every message is finished, delivered and acknowledged."""
        self.drain()

    @precondition(lambda self: len(self.plan.consumers[SUBSCRIPTION]) < MOST_CONSUMERS)
    @rule(queue=SMALL_QUEUES)
    def join(self, queue: int) -> None:
        """Another consumer joins while others have pending messages."""
        self.subscribe(self.kind, queue=queue)
        self.gather()

    @precondition(lambda self: len(self.plan.consumers[SUBSCRIPTION]) > 2)
    @rule(index=INDEXES, crashes=st.booleans())
    def lose(self, index: int, crashes: bool) -> None:
        """A consumer without pending messages leaves."""
        self.drain()
        there = self.plan.consumers[SUBSCRIPTION]
        self.leave(there.pop(index % len(there)), crashes=crashes)

    @rule()
    def unload(self) -> None:
        """The topic is unloaded while no consumer has a part of a message."""
        self.drain()
        self.do(Unload(TOPIC))
        self.producers.clear()
        self.gather()

    def take(self, turns: list[Turn]) -> None:
        """Each producer sends the next chunk of its message, or the first one of a new message."""
        for turn in turns:
            name = f"w{turn.producer}"
            if name not in self.messages:
                self.number += 1
                self.messages[name] = Unfinished(self.number, turn.chunks, turn.key)
            self.send_next(name)

    def drain(self) -> None:
        """Finish all messages and acknowledge them until nothing more is delivered."""
        self.finish()
        for _ in range(2):
            self.gather()
            for name in self.plan.consumers[SUBSCRIPTION]:
                self.do(Acknowledge(name, ALL))
        self.gather()

    def finish(self) -> None:
        """Send the missing chunks of the messages."""
        for name in list(self.messages):
            while name in self.messages:
                self.send_next(name)

    def send_next(self, producer: str) -> None:
        """Send the next chunk of a producer's message."""
        if producer not in self.producers:
            self.producers[producer] = self.plan.fresh("p")
            self.do(OpenProducer(self.producers[producer], TOPIC, producer))
        message = self.messages[producer]
        chunk = ChunkNumber(message.sent, message.chunks)
        part = Message(message.number, f"u{message.number}", key=message.key, chunk=chunk)
        self.do(Send(self.producers[producer], (Entry((part,)),)))
        message.sent += 1
        if message.sent == message.chunks:
            del self.messages[producer]


class ChunksStatsMachine(OnChunks):
    """The broker counts chunks, and nothing else."""

    @initialize()
    def begin(self) -> None:
        """An empty topic, without deduplication: what is not stored is not counted either."""
        self.create()

    @rule(rooms=st.integers(1, 3), small_first=st.booleans())
    def publish(self, rooms: int, small_first: bool) -> None:
        """Payloads that are split, in half of the examples after some that are not."""
        if small_first:
            self.rate(100)
        self.rate(rooms * ROOM_BYTES + 1)

    def rate(self, size_bytes: int) -> None:
        """Send payloads of this size for a while, by a producer of its own."""
        source = self.source(self.plan.fresh("n"))
        assert source.session is not None
        self.do(
            ReadChunkRate(TOPIC, source.session, Message(1, f"{source.name}-1", size_bytes=size_bytes, content="noise"))
        )
