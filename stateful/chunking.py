"""The machines of document 002: payloads around the limit, producers that are interrupted, all kinds of consumers.

Whatever is done, the wire is watched, and all that must come is received behind it.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from conformance.engine.example import RunningExample
from model.chunking.vocabulary import (
    AcknowledgeChunked,
    Compression,
    CreateChunkedTopic,
    GatherChunked,
    GiveBack,
    Kind,
    LeaveChunked,
    LeaveChunking,
    Meanwhile,
    MoveSubscription,
    Moving,
    OpenChunking,
    SendInterleaved,
    SendPayloads,
    SubscribeChunked,
)
from model.operations import Unload
from stateful.chunking_plan import ChunkPlan, Pick, Source
from stateful.lockstep_machine import LockstepMachine

TOPIC = "t0"
SUBSCRIPTION = "s0"
PICKS = st.lists(
    st.builds(
        Pick,
        rooms=st.sampled_from([0, 1, 1, 1, 2, 2, 3, 4]),
        extra=st.sampled_from([-40, -1, 0, 1, 1, 7, 300]),
        is_compressible=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=3,
)
NAMES = st.sampled_from(["a", "b"])
NTH = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple)
CUTS = st.integers(1, 6)
COMPRESSIONS = st.sampled_from(["none", "none", "lz4", "zlib"])
KINDS = st.sampled_from(["Exclusive", "Exclusive", "Failover"])
QUEUES = st.sampled_from([1, 2, 1000])


class OnChunks(LockstepMachine):
    """What all machines of this document are made of; no rules of its own."""

    def __init__(self, example: RunningExample) -> None:
        super().__init__(example)
        self.plan = ChunkPlan()

    def source(self, name: str, *, compression: Compression = "none", is_chunking: bool = True) -> Source:
        """A source, which opens its producer when it is first asked for, and when it is not open."""
        source = self.plan.sources.setdefault(name, Source(name, compression, is_chunking))
        if source.session is None:
            source.session = self.plan.fresh("p")
            self.do(
                OpenChunking(
                    source.session,
                    TOPIC,
                    source.name,
                    is_chunking=source.is_chunking,
                    compression=source.compression,
                )
            )
        return source

    def send(self, source: Source, picks: list[Pick]) -> None:
        """New payloads of a source."""
        assert source.session is not None
        self.do(SendPayloads(source.session, self.plan.payloads(source, picks)))

    def interrupt(self, source: Source, picks: list[Pick], cut_after: int, meanwhile: Meanwhile) -> None:
        """New payloads of a source that is cut off meanwhile; if it dies, it comes back and sends them again."""
        assert source.session is not None
        payloads = self.plan.payloads(source, picks)
        self.do(SendPayloads(source.session, payloads, cut_after, meanwhile))
        if meanwhile == "dies":
            self.do(LeaveChunking(source.session, crashes=True))
            source.session = None
            self.send_again(self.source(source.name))

    def send_again(self, source: Source) -> None:
        """A source sends once more what it sent last."""
        assert source.session is not None
        self.do(SendPayloads(source.session, source.last))

    def die_with(self, source: Source, picks: list[Pick], cut_after: int) -> None:
        """A source dies between two chunks, and lets go of what it was sending."""
        assert source.session is not None
        self.do(SendPayloads(source.session, self.plan.payloads(source, picks), cut_after, "dies"))
        self.do(LeaveChunking(source.session, crashes=True))
        source.session = None

    def interleaved(self, source: Source, picks: list[Pick], other: Source, others: list[Pick], after: int) -> None:
        """New payloads of two sources, those of the second one behind some chunks of the first."""
        assert source.session is not None
        assert other.session is not None
        payloads, more = self.plan.payloads(source, picks), self.plan.payloads(other, others)
        self.do(SendInterleaved(source.session, payloads, after, other.session, more))

    def subscribe(
        self, kind: Kind, *, subscription: str = SUBSCRIPTION, queue: int = 1000, pending: int = 0, acks: bool = False
    ) -> str:
        """A consumer subscribes."""
        name = self.plan.fresh("c")
        self.plan.consumers.setdefault(subscription, []).append(name)
        self.do(SubscribeChunked(name, TOPIC, subscription, kind, queue, pending, acks))
        return name

    def gather(self, subscription: str = SUBSCRIPTION) -> None:
        """All that must come."""
        self.do(GatherChunked(TOPIC, subscription))


class ChunksMachine(OnChunks):
    """Two producers, one ordered subscription; payloads around the limit, acknowledged in any order."""

    @initialize(picks=PICKS, kind=KINDS, queue=QUEUES, compression=COMPRESSIONS)
    def begin(self, picks: list[Pick], kind: Kind, queue: int, compression: Compression) -> None:
        """A topic with messages, and a consumer."""
        self.kind, self.queue = kind, queue
        self.do(CreateChunkedTopic(TOPIC))
        self.send(self.source("a", compression=compression), picks)
        self.subscribe(kind, queue=queue)
        self.gather()

    @rule(name=NAMES, picks=PICKS)
    def more(self, name: str, picks: list[Pick]) -> None:
        """More messages come."""
        self.send(self.source(name), picks)
        self.gather()

    @rule(name=NAMES, picks=PICKS, others=PICKS, after=CUTS)
    def interleave(self, name: str, picks: list[Pick], others: list[Pick], after: int) -> None:
        """Chunks of one producer come between those of another one."""
        self.interleaved(self.source(name), picks, self.source("b" if name == "a" else "a"), others, after)
        self.gather()

    @rule(picks=PICKS)
    def without_chunking(self, picks: list[Pick]) -> None:
        """A producer that may not split."""
        self.send(self.source("w", is_chunking=False), picks)

    @rule(nth=NTH)
    def acknowledge(self, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of what it has."""
        self.do(AcknowledgeChunked(self.consumer(), nth))

    @rule(nth=st.none() | NTH)
    def fail(self, nth: tuple[int, ...] | None) -> None:
        """A consumer fails with some of what it has."""
        self.do(GiveBack(self.consumer(), nth))
        self.gather()

    @rule(crashes=st.booleans())
    def next_one(self, crashes: bool) -> None:
        """The consumer leaves, and another one takes its place."""
        for name in self.plan.consumers.pop(SUBSCRIPTION, []):
            self.do(LeaveChunked(name, crashes))
        self.subscribe(self.kind, queue=self.queue)
        self.gather()

    @rule()
    def unload(self) -> None:
        """The topic is moved."""
        self.do(Unload(TOPIC))
        self.gather()

    @rule(how=st.sampled_from(["skip", "expire", "reset"]), entries=st.integers(0, 6))
    def administer(self, how: Moving, entries: int) -> None:
        """The subscription is moved, maybe into the middle of a message."""
        self.do(MoveSubscription(TOPIC, SUBSCRIPTION, how, entries))
        self.gather()

    def consumer(self) -> str:
        """The consumer."""
        found = self.plan.consumers.get(SUBSCRIPTION)
        return found[-1] if found else self.subscribe(self.kind, queue=self.queue)
