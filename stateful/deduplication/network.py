"""The machines of document 000 with network faults: connections end, and receipts are lost or late.

One has producers that reconnect and send everything again, as FailuresMachine does. The other has sources, whose
messages must be in the log once and in order after any fault (DEDUP-13).
"""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import (
    ClearFailpoints,
    ClearNetworkFaults,
    CrashProducer,
    CreateTopic,
    InjectNetworkFault,
    Send,
    SetFailpoint,
    Unload,
    UseProxy,
)
from model.vocabulary import Client, NetworkFault
from stateful.deduplication.applications import HABITS, SIZES, SOURCES, ApplicationMachine, Habit
from stateful.deduplication.machines import BURSTS, INDEXES, Producers
from stateful.deduplication.network_faults import AT_OPENING, AT_SENDS, FAULTS, LATE
from stateful.deduplication.plan import Pick


class NetworkMachine(Producers):
    """Producers whose connections end, with or without an unload of their topic; they reconnect and resend everything.

    The wire client only: pulsar-client hides what happens here, and does not end when ids repeat in flight.
    """

    clients: ClassVar[tuple[Client, ...]] = ("wire",)

    @initialize()
    def create_topic(self) -> None:
        """One topic, deduplication on."""
        self.topics = ("t0",)
        self.do(UseProxy())
        self.do(CreateTopic(topic="t0", deduplication="namespace-on"))
        self.open("t0", "p0", "wire")

    @rule(index=INDEXES, burst=BURSTS, faults=st.lists(AT_SENDS | LATE, min_size=1, max_size=2), unloads=st.booleans())
    def cut_off(self, index: int, burst: list[Pick], faults: list[NetworkFault], unloads: bool) -> None:
        """Send under a network fault, reconnect, and send everything again, twice."""
        session = self.session(index)
        entries = self.plan.entries(session, [Pick(), *burst])
        for fault in faults:
            self.do(InjectNetworkFault(topic=session.topic, fault=fault))
        self.do(Send(session=session.name, entries=entries, wait=False))
        if unloads:
            self.do(Unload(topic=session.topic))
            self.plan.drop_wire_sessions(session.topic)
        else:
            self.leave(session, CrashProducer(session=session.name))
        again = self.open(session.topic, session.producer, "wire")
        self.do(Send(session=again.name, entries=entries))
        self.do(ClearNetworkFaults())
        self.leave(again, CrashProducer(session=again.name))  # the network may have ended it by now
        again = self.open(session.topic, session.producer, "wire")
        self.do(Send(session=again.name, entries=entries))

    @rule(index=INDEXES, burst=BURSTS, fault=AT_OPENING)
    def keep_out(self, index: int, burst: list[Pick], fault: NetworkFault) -> None:
        """A producer reconnects only after a while, and sends its last messages again."""
        session = self.session(index)
        entries = self.plan.entries(session, [Pick(), *burst])
        self.do(Send(session=session.name, entries=entries, wait=False))
        self.leave(session, CrashProducer(session=session.name))
        self.do(InjectNetworkFault(topic=session.topic, fault=fault))
        again = self.open(session.topic, session.producer, "wire")
        self.do(ClearNetworkFaults())
        self.do(Send(session=again.name, entries=entries))


class ApplicationsNetworkMachine(ApplicationMachine):
    """Sources whose connections end, again and again, while their topic is unloaded and writes fail."""

    @initialize(first=HABITS, second=HABITS, sizes=SIZES)
    def begin(self, first: Habit, second: Habit, sizes: list[int]) -> None:
        """Create a topic with messages."""
        self.do(UseProxy())
        self.do(CreateTopic(topic=SOURCES))
        self.add_sources(SOURCES, first, second)
        for source in self.sources:
            self.start(source, sizes, back=0)
            self.end(source, None)

    @rule(
        index=INDEXES,
        sizes=SIZES,
        back=st.integers(0, 3),
        faults=st.lists(FAULTS, min_size=1, max_size=3),
        unloads=st.booleans(),
        write_fails=st.sampled_from([False, False, True]),
        dies_after=st.none() | st.none() | st.integers(0, 6),
    )
    def live(
        self,
        index: int,
        sizes: list[int],
        back: int,
        faults: list[NetworkFault],
        unloads: bool,
        write_fails: bool,
        dies_after: int | None,
    ) -> None:
        """A source runs under network faults, while its topic is unloaded or has failing writes."""
        source = self.source(index)
        for fault in faults:
            self.do(InjectNetworkFault(topic=SOURCES, fault=fault))
        if write_fails:
            self.do(SetFailpoint(topic=SOURCES, kind="write-fails"))
        self.start(source, sizes, back=back)
        if unloads:
            self.do(Unload(SOURCES))
        self.end(source, dies_after)
        self.do(ClearNetworkFaults())
        if write_fails:
            self.do(ClearFailpoints())
