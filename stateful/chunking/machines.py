"""The machines of document 002: payloads around the limit, interrupted producers, all types of consumers.

After each operation the recorded commands are judged, and everything due is received.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import (
    CrashProducer,
    CreateTopic,
    CutAfterSends,
    HoldAfterSends,
    Meanwhile,
    OpenProducer,
    Send,
    Unload,
)
from model.subscription_operations import (
    Acknowledge,
    CloseConsumer,
    CrashConsumer,
    Expire,
    Nack,
    ReceiveDue,
    ResetCursor,
    Skip,
    Subscribe,
)
from model.vocabulary import Compression, SubscriptionType
from stateful.chunking.plan import ChunkPlan, ChunkSource, PayloadPick
from stateful.lockstep_machine import LockstepMachine, Performing

TOPIC = "t0"
SUBSCRIPTION = "s0"
PICKS = st.lists(
    st.builds(
        PayloadPick,
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
    """The base of all machines of this document; it has no rules."""

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.plan = ChunkPlan()

    def source(self, name: str, *, compression: Compression = "none", is_chunking: bool = True) -> ChunkSource:
        """A source; opens its producer if it is not open."""
        source = self.plan.sources.setdefault(name, ChunkSource(name, compression, is_chunking))
        if source.session is None:
            source.session = self.plan.fresh("p")
            self.do(
                OpenProducer(
                    source.session,
                    TOPIC,
                    source.name,
                    client="official",
                    is_chunking=source.is_chunking,
                    compression=source.compression,
                )
            )
        return source

    def create(self, *, deduplication: bool = False) -> None:
        """The topic of the example."""
        self.do(CreateTopic(TOPIC, "namespace-on" if deduplication else "namespace-off", is_chunked=True))

    def send(self, source: ChunkSource, picks: list[PayloadPick]) -> None:
        """New payloads of a source."""
        assert source.session is not None
        self.do(Send(source.session, self.plan.entries(source, picks)))

    def interrupt(self, source: ChunkSource, picks: list[PayloadPick], cut_after: int, meanwhile: Meanwhile) -> None:
        """Send payloads of a source whose connection ends; if it crashes, it restarts and sends them again."""
        assert source.session is not None
        if meanwhile == "dies":
            self.die_with(source, picks, cut_after)
            self.send_again(self.source(source.name))
        else:
            cut = CutAfterSends(cut_after, meanwhile)
            self.do(Send(source.session, self.plan.entries(source, picks), interruption=cut))

    def send_again(self, source: ChunkSource) -> None:
        """A source sends once more what it sent last."""
        assert source.session is not None
        self.do(Send(source.session, source.last))

    def die_with(self, source: ChunkSource, picks: list[PayloadPick], cut_after: int) -> None:
        """A source crashes between two chunks, and never sends that message again."""
        assert source.session is not None
        cut = CutAfterSends(cut_after, "dies")
        self.do(Send(source.session, self.plan.entries(source, picks), interruption=cut))
        self.do(CrashProducer(source.session))
        source.session = None

    def interleaved(
        self, source: ChunkSource, picks: list[PayloadPick], other: ChunkSource, others: list[PayloadPick], after: int
    ) -> None:
        """New payloads of two sources, those of the second one after some chunks of the first."""
        assert source.session is not None
        assert other.session is not None
        entries, more = self.plan.entries(source, picks), self.plan.entries(other, others)
        self.do(Send(source.session, entries, interruption=HoldAfterSends(after, other.session, more)))

    def subscribe(
        self,
        kind: SubscriptionType,
        *,
        subscription: str = SUBSCRIPTION,
        queue: int = 1000,
        pending: int = 0,
        acks: bool = False,
    ) -> str:
        """A consumer subscribes."""
        name = self.plan.fresh("c")
        self.plan.consumers.setdefault(subscription, []).append(name)
        self.do(
            Subscribe(
                name,
                TOPIC,
                subscription,
                kind,
                client="official",
                queue=queue,
                max_pending_chunked=pending,
                acks_oldest_chunked=acks,
            )
        )
        return name

    def leave(self, name: str, *, crashes: bool) -> None:
        """A consumer closes or crashes."""
        self.do(CrashConsumer(name) if crashes else CloseConsumer(name))

    def gather(self, subscription: str = SUBSCRIPTION) -> None:
        """Receive everything that is due."""
        self.do(ReceiveDue(TOPIC, subscription))


class ChunksMachine(OnChunks):
    """Two producers, one ordered subscription; payloads around the limit, acknowledged in any order."""

    @initialize(picks=PICKS, kind=KINDS, queue=QUEUES, compression=COMPRESSIONS)
    def begin(self, picks: list[PayloadPick], kind: SubscriptionType, queue: int, compression: Compression) -> None:
        """A topic with messages, and a consumer."""
        self.kind, self.queue = kind, queue
        self.create()
        self.send(self.source("a", compression=compression), picks)
        self.subscribe(kind, queue=queue)
        self.gather()

    @rule(name=NAMES, picks=PICKS)
    def more(self, name: str, picks: list[PayloadPick]) -> None:
        """Send more messages."""
        self.send(self.source(name), picks)
        self.gather()

    @rule(name=NAMES, picks=PICKS, others=PICKS, after=CUTS)
    def interleave(self, name: str, picks: list[PayloadPick], others: list[PayloadPick], after: int) -> None:
        """Send chunks of one producer between those of another one."""
        self.interleaved(self.source(name), picks, self.source("b" if name == "a" else "a"), others, after)
        self.gather()

    @rule(picks=PICKS)
    def without_chunking(self, picks: list[PayloadPick]) -> None:
        """Send with a producer that may not split messages."""
        self.send(self.source("w", is_chunking=False), picks)

    @rule(nth=NTH)
    def acknowledge(self, nth: tuple[int, ...]) -> None:
        """A consumer acknowledges some of its messages."""
        self.do(Acknowledge(self.consumer(), nth))

    @rule(nth=st.none() | NTH)
    def fail(self, nth: tuple[int, ...] | None) -> None:
        """A consumer nacks some of its messages."""
        self.do(Nack(self.consumer(), nth))
        self.gather()

    @rule(crashes=st.booleans())
    def next_one(self, crashes: bool) -> None:
        """The consumer leaves, and another one subscribes."""
        for name in self.plan.consumers.pop(SUBSCRIPTION, []):
            self.leave(name, crashes=crashes)
        self.subscribe(self.kind, queue=self.queue)
        self.gather()

    @rule()
    def unload(self) -> None:
        """The topic is unloaded."""
        self.do(Unload(TOPIC))
        self.gather()

    @rule(move=st.sampled_from([Skip, Expire, ResetCursor]), entries=st.integers(0, 6))
    def administer(self, move: type[Skip | Expire | ResetCursor], entries: int) -> None:
        """The subscription's cursor moves, maybe into the middle of a message."""
        self.do(move(TOPIC, SUBSCRIPTION, entries))
        self.gather()

    def consumer(self) -> str:
        """The consumer."""
        found = self.plan.consumers.get(SUBSCRIPTION)
        return found[-1] if found else self.subscribe(self.kind, queue=self.queue)
