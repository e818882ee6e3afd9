"""The machines of document 000: producers with fixed names and explicit sequence ids, under operations on their topics.

The main machine moves topics by unloading them, which is quick. The one with failures sets failpoints inside the
broker. The one with kills restarts and kills the broker, and so has few and short examples, as has the one that
restarts it with another setting. That of :mod:`stateful.deduplication.inactivity` has producers that are inactive.
"""

from __future__ import annotations

from typing import ClassVar, Literal, assert_never

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from model.failpoints import FailpointKind
from model.operations import (
    ClearFailpoints,
    CloseProducer,
    CrashProducer,
    CreateTopic,
    OpenProducer,
    ReadSnapshot,
    Restart,
    Scope,
    Send,
    SetDeduplication,
    SetFailpoint,
    Switch,
    Unload,
)
from model.vocabulary import Client
from stateful.crashes import CRASHES, IN_PLACE, Crash
from stateful.deduplication.plan import DeduplicationPlan, Pick, PlannedSession
from stateful.lockstep_machine import LockstepMachine, Performing

TOPICS = ("t0", "t1")
CROWD = 8
"""Producers of a crowd: more than a snapshot holds on the brokers that the suite starts."""

LEDGER_ROOM = 5
"""Entries of a ledger on these brokers."""
SNAPSHOT_INTERVAL = 5
"""Entries between snapshots on these brokers."""
REPLAY_MS = 800
"""How long a slow replay takes: long enough for a producer to open meanwhile."""
TIMED = st.sampled_from([(True, False)] * 3 + [(True, True)] + [(False, False), (False, True)] * 2)
"""Whether the timer takes snapshots of a topic, and whether an example begins with one that is awaited: by the timer it
takes a second or two, by the number of entries a fraction of one."""
AWAITED_BY_ENTRIES = 3
"""How many snapshots are awaited in an example at most where no timer takes them; where one does, it is one."""
Preparation = Literal["none", "unload", "producers"]
PREPARATIONS: st.SearchStrategy[Preparation] = st.sampled_from(["none", "unload", "producers", "producers"])
"""What is done to a topic before one of its snapshots is awaited: it is unloaded, or several producers send. No policy
is changed: what is sent at once may be deduplicated or not, and each such entry doubles the possible states."""
SNAPSHOT_AT_LAST_MS = 2500
"""After so long a snapshot has come by the timer, which looks for topics that are due once a second."""

PICKS: st.SearchStrategy[Pick] = st.sampled_from(
    [
        Pick(),
        Pick(),
        Pick(),
        Pick(offset=3),
        Pick(about_old=True),
        Pick(again=1),
        Pick(again=1),
        Pick(again=2),
        Pick(again=5),
        Pick(offset=-1),
        Pick(offset=-3),
        Pick(size=2),
        Pick(size=4),
        Pick(size=3, step=3),
        Pick(offset=-1, size=2),
        Pick(offset=-2, size=4),
    ]
)
BURSTS: st.SearchStrategy[list[Pick]] = st.lists(PICKS, min_size=1, max_size=6)
INDEXES = st.integers(0, 63)
CLIENTS: st.SearchStrategy[Client] = st.sampled_from(["wire", "wire", "wire", "official"])
PRODUCERS = st.sampled_from(["p0", "p1", "p2"])
SWITCHES: st.SearchStrategy[Switch] = st.sampled_from(
    [
        "namespace-on",
        "namespace-on",
        "namespace-on",
        "broker",
        "namespace-off",
        "topic-on",
        "topic-off",
        "own-namespace-on",
    ]
)


class OnTopics(LockstepMachine):
    """The base of all machines of this document; it has no rules."""

    clients: ClassVar[tuple[Client, ...]] = ("wire", "official")

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.plan = DeduplicationPlan()
        self.topics: tuple[str, ...] = ()

    def topic(self, index: int) -> str:
        """One of the topics."""
        return self.topics[index % len(self.topics)]

    def session(self, index: int) -> PlannedSession:
        """One of the planned sessions; a new one if there is none."""
        if not self.plan.sessions:
            return self.open(self.topic(index), "p0", "wire")
        return self.plan.sessions[index % len(self.plan.sessions)]

    def open(self, topic: str, producer: str, client: Client) -> PlannedSession:
        """Open a producer. If its name is taken, the broker must refuse it, and the plan does not expect it."""
        client = client if client in self.clients else "wire"
        session = PlannedSession(self.plan.session_name(), topic, producer, client)
        is_taken = self.plan.is_taken(topic, producer)
        self.do(OpenProducer(session=session.name, topic=topic, producer=producer, client=client))
        if not is_taken:
            self.plan.sessions.append(session)
        return session

    def live(self, topic: str, producer: str) -> PlannedSession:
        """A producer's session; a new one if there is none."""
        live = [one for one in self.plan.sessions if (one.topic, one.producer) == (topic, producer)]
        return live[0] if live else self.open(topic, producer, "wire")

    def send_new(self, topic: str, producer: str, entries: int) -> None:
        """Send this many entries under a producer's name."""
        session = self.live(topic, producer)
        self.do(Send(session=session.name, entries=self.plan.entries(session, [Pick()] * entries)))

    def disconnected(self) -> None:
        """Its producers of the wire client are disconnected."""
        self.plan.drop_wire_sessions()

    def leave(self, session: PlannedSession, operation: CloseProducer | CrashProducer) -> None:
        """Close or crash a session."""
        self.do(operation)
        self.plan.sessions.remove(session)


class Producers(OnTopics):
    """Producers open, send, close, crash and reconnect."""

    @rule(topic=INDEXES, producer=PRODUCERS, client=CLIENTS)
    def open_producer(self, topic: int, producer: str, client: Client) -> None:
        """Open a producer, whether or not its name is taken."""
        self.open(self.topic(topic), producer, client)

    @rule(index=INDEXES, burst=BURSTS)
    def send(self, index: int, burst: list[Pick]) -> None:
        """Send entries, all in flight at once, and wait for the answers."""
        session = self.session(index)
        if session.client == "wire":
            self.do(Send(session=session.name, entries=self.plan.entries(session, burst)))
            return
        # pulsar-client waits for answers in the order of rising ids, and does not end when ids repeat in flight.
        for pick in burst:
            self.do(Send(session=session.name, entries=self.plan.entries(session, [pick])))

    @rule(index=INDEXES, burst=BURSTS)
    def send_again(self, index: int, burst: list[Pick]) -> None:
        """Send again, because the machine should mostly send."""
        self.send(index, burst)

    @rule(index=INDEXES)
    def close(self, index: int) -> None:
        """Close a producer."""
        session = self.session(index)
        self.leave(session, CloseProducer(session=session.name))

    @rule(index=INDEXES, burst=BURSTS, comes_back=st.booleans())
    def crash_while_sending(self, index: int, burst: list[Pick], comes_back: bool) -> None:
        """Cut a producer's connection while it sends; it may open again under its name at once."""
        session = self.session(index)
        if session.client == "official":
            burst = [pick for pick in burst if pick.is_rising] or [Pick()]
        self.do(Send(session=session.name, entries=self.plan.entries(session, burst), wait=False))
        self.leave(session, CrashProducer(session=session.name))
        if comes_back:
            self.open(session.topic, session.producer, "wire")


class DeduplicationMachine(Producers):
    """Topics are unloaded, and deduplication is switched in all ways."""

    crowded = False
    is_timed = True
    awaited = 0

    @initialize(
        first=SWITCHES,
        second=st.none() | SWITCHES,
        crowded=st.sampled_from([False] * 5 + [True]),
        timed=TIMED,
        preparation=PREPARATIONS,
    )
    def create_topics(
        self,
        first: Switch,
        second: Switch | None,
        crowded: bool,
        timed: tuple[bool, bool],
        preparation: Preparation,
    ) -> None:
        """Create one topic or two, each with a producer, and maybe a snapshot. In few examples, many producers join."""
        self.crowded = crowded
        self.is_timed, is_awaited = timed
        switches = (first,) if second is None else (first, second)
        self.topics = TOPICS[: len(switches)]
        for topic, switch in zip(self.topics, switches, strict=True):
            self.do(CreateTopic(topic=topic, deduplication=switch, is_timed=self.is_timed))
            self.open(topic, "p0", "wire")
        if is_awaited and self.is_timed:
            self.await_snapshot_by_timer(0, "p0", 1, preparation)
        elif is_awaited:
            self.await_snapshot_by_entries(0, "p0", SNAPSHOT_INTERVAL, preparation)

    @rule(index=INDEXES, burst=BURSTS, in_flight=st.booleans())
    def unload(self, index: int, burst: list[Pick], in_flight: bool) -> None:
        """Unload a topic, while one of its producers sends or while nothing is in flight."""
        topic = self.topic(index)
        wire = [s for s in self.plan.sessions if s.topic == topic and s.client == "wire"]
        if in_flight and wire:
            session = wire[index % len(wire)]
            self.do(Send(session=session.name, entries=self.plan.entries(session, burst), wait=False))
        self.do(Unload(topic=topic))
        self.plan.drop_wire_sessions(topic)

    @rule(index=INDEXES, scope=st.sampled_from(["topic", "namespace"]), on=st.booleans())
    def switch(self, index: int, scope: Scope, on: bool) -> None:
        """Switch deduplication by a policy."""
        self.do(SetDeduplication(topic=self.topic(index), scope=scope, on=on))

    @precondition(lambda self: self.crowded)
    @rule(index=INDEXES)
    def crowd(self, index: int) -> None:
        """More producers than a snapshot holds send one message each."""
        for number in range(CROWD):
            producer = f"c{number}"
            if not self.plan.is_taken(self.topic(index), producer):
                session = self.open(self.topic(index), producer, "wire")
                self.do(Send(session=session.name, entries=self.plan.entries(session, [Pick()])))
                self.leave(session, CloseProducer(session=session.name))

    @rule(index=INDEXES)
    def read_snapshot(self, index: int) -> None:
        """Read the stored snapshot."""
        self.do(ReadSnapshot(topic=self.topic(index)))

    @precondition(lambda self: not self.is_timed and self.awaited < AWAITED_BY_ENTRIES)
    @rule(
        index=INDEXES,
        producer=PRODUCERS,
        entries=st.integers(SNAPSHOT_INTERVAL, 2 * SNAPSHOT_INTERVAL),
        preparation=PREPARATIONS,
    )
    def await_snapshot_by_entries(self, index: int, producer: str, entries: int, preparation: Preparation) -> None:
        """Send enough entries after a moment at which no snapshot is in progress, and wait for the snapshot."""
        topic = self.topic(index)
        self.prepare(topic, preparation)
        self.do(ReadSnapshot(topic=topic, due=True))
        self.await_snapshot(topic, producer, entries)

    @precondition(lambda self: self.is_timed and not self.awaited)
    @rule(index=INDEXES, producer=PRODUCERS, entries=st.integers(1, 2 * SNAPSHOT_INTERVAL), preparation=PREPARATIONS)
    def await_snapshot_by_timer(self, index: int, producer: str, entries: int, preparation: Preparation) -> None:
        """Send any number of entries, and wait for the timer to take a snapshot at the end of the log."""
        self.prepare(self.topic(index), preparation)
        self.await_snapshot(self.topic(index), producer, entries)

    def prepare(self, topic: str, preparation: Preparation) -> None:
        """Prepare a topic for a snapshot that will be awaited."""
        match preparation:
            case "none":
                pass
            case "unload":
                self.do(Unload(topic=topic))
                self.plan.drop_wire_sessions(topic)
            case "producers":
                for producer in ("p0", "p1"):
                    self.send_new(topic, producer, 1)
            case _:
                assert_never(preparation)

    def await_snapshot(self, topic: str, producer: str, entries: int) -> None:
        """Send this many entries under a producer's name, and wait for the snapshot that is due."""
        self.awaited += 1
        self.send_new(topic, producer, entries)
        self.do(ReadSnapshot(topic=topic, due=True))


class FailuresMachine(Producers):
    """Writes and snapshots fail inside the broker, and producers reconnect afterwards.

    The wire client only: pulsar-client hides what happens here, and does not end when ids repeat in flight.
    """

    clients: ClassVar[tuple[Client, ...]] = ("wire",)
    is_patient = False
    raced = 0

    @initialize(is_patient=st.sampled_from([False] * 19 + [True]))
    def create_topic(self, is_patient: bool) -> None:
        """Create a topic with deduplication. Few examples have time for operations of a second."""
        self.is_patient = is_patient
        self.topics = TOPICS[:1]
        self.do(CreateTopic(topic="t0", deduplication="namespace-on"))
        self.open("t0", "p0", "wire")

    @rule(
        index=INDEXES,
        burst=BURSTS,
        kind=st.sampled_from(["write-fails", "write-fails-late", "confirmation-lost"]),
        count=st.integers(1, 3),
        spared=st.integers(0, 5),
        waits=st.booleans(),
    )
    def fail_writes(
        self, index: int, burst: list[Pick], kind: FailpointKind, count: int, spared: int, waits: bool
    ) -> None:
        """Send new messages, of which some fail and one is sent twice; reconnect, and send all of them again.

        The writes that are spared may make the broker take a snapshot, while others are in flight that will fail.
        """
        session = self.session(index)
        entries = self.plan.entries(session, [*[Pick()] * (spared + 1), Pick(again=1), *burst])
        self.do(SetFailpoint(topic=session.topic, kind=kind, count=count, delay_ms=30, spared=spared))
        self.do(Send(session=session.name, entries=entries, wait=waits))
        self.leave(session, CrashProducer(session=session.name))
        if waits:
            self.do(ClearFailpoints())
            self.do(ReadSnapshot(topic=session.topic))
        again = self.open(session.topic, session.producer, "wire")
        self.do(ClearFailpoints())
        self.do(Send(session=again.name, entries=entries))

    @rule(index=INDEXES, burst=BURSTS, delay_ms=st.sampled_from([5, 30]))
    def slow_writes(self, index: int, burst: list[Pick], delay_ms: int) -> None:
        """While a write is slow, its message is sent again; when it is over, once more."""
        session = self.session(index)
        entries = self.plan.entries(session, [Pick(), Pick(again=1), *burst])
        self.do(SetFailpoint(topic=session.topic, kind="write-slow", count=2, delay_ms=delay_ms))
        self.do(Send(session=session.name, entries=entries))
        self.do(ClearFailpoints())
        self.do(Send(session=session.name, entries=entries[:2]))

    @rule(index=INDEXES, entries=st.integers(5, 12))
    def fail_snapshots(self, index: int, entries: int) -> None:
        """Snapshots fail while entries are stored; everything is sent again, before the topic is unloaded and after."""
        session = self.session(index)
        sent = self.plan.entries(session, [Pick()] * entries)
        self.do(SetFailpoint(topic=session.topic, kind="snapshot-write-fails", count=100))
        self.do(Send(session=session.name, entries=sent))
        self.do(ReadSnapshot(topic=session.topic))  # which waits until the failing has happened
        self.do(ClearFailpoints())
        self.do(Send(session=session.name, entries=sent))
        self.do(Unload(topic=session.topic))
        self.plan.drop_wire_sessions(session.topic)
        again = self.open(session.topic, session.producer, "wire")
        self.do(Send(session=again.name, entries=sent))

    @precondition(lambda self: self.is_patient)
    @rule(index=INDEXES, before=st.integers(1, 4))
    def close_a_ledger_slowly(self, index: int, before: int) -> None:
        """The timer's snapshot may come while a full ledger is being closed; then the topic is unloaded.

        An unload begins a ledger, and how much is in it before decides which entry is due for a snapshot by number.
        """
        session = self.session(index)
        self.do(Send(session=session.name, entries=self.plan.entries(session, [Pick()] * before)))
        again = self.unloaded(session)
        entries = self.plan.entries(again, [Pick()] * LEDGER_ROOM)
        self.do(SetFailpoint(topic=again.topic, kind="ledger-close-slow", delay_ms=SNAPSHOT_AT_LAST_MS))
        self.do(Send(session=again.name, entries=entries))
        self.do(ClearFailpoints())
        again = self.unloaded(again)
        self.do(Send(session=again.name, entries=entries[-2:]))

    @precondition(lambda self: self.is_patient)
    @rule(before=st.integers(1, SNAPSHOT_INTERVAL - 1))
    def recover_slowly(self, before: int) -> None:
        """A topic with a policy of its own is loaded, and its log is slow to be replayed; everything is sent again."""
        self.raced += 1
        topic = f"r{self.raced}"  # for this alone: with a policy, whatever is wrong could be a race
        self.do(CreateTopic(topic=topic, deduplication="topic-on"))
        session = self.open(topic, "p0", "wire")
        entries = self.plan.entries(session, [Pick()] * before)
        self.do(SetFailpoint(topic=topic, kind="replay-slow", delay_ms=REPLAY_MS))
        self.do(Send(session=session.name, entries=entries))  # now, or a snapshot comes by the timer before the unload
        again = self.unloaded(session)
        self.do(Send(session=again.name, entries=entries))
        self.do(ClearFailpoints())
        again = self.unloaded(again)  # what is still being replayed ends with it
        self.leave(again, CloseProducer(session=again.name))

    def unloaded(self, session: PlannedSession) -> PlannedSession:
        """Unload a session's topic, and open its producer again."""
        self.do(Unload(topic=session.topic))
        self.plan.drop_wire_sessions(session.topic)
        return self.open(session.topic, session.producer, "wire")

    @precondition(lambda self: self.is_patient)
    @rule(burst=BURSTS, delay_ms=st.sampled_from([5, 300]))
    def switch_on_in_flight(self, burst: list[Pick], delay_ms: int) -> None:
        """Deduplication of a topic is switched on while a write is in flight, and its message is sent again.

        In between another producer sends as much as takes a snapshot, from which can be seen what counts as persisted.
        """
        topic = f"t{len(self.topics)}"
        self.topics += (topic,)
        self.do(CreateTopic(topic=topic, deduplication="own-namespace-off"))
        first, other = self.open(topic, "p0", "wire"), self.open(topic, "p1", "wire")
        entries = self.plan.entries(first, [Pick(), *burst])
        self.do(SetFailpoint(topic=topic, kind="write-slow", delay_ms=delay_ms))
        self.do(Send(session=first.name, entries=entries, wait=False))
        self.do(SetDeduplication(topic=topic, scope="namespace", on=True, in_flight=True))
        self.do(Send(session=other.name, entries=self.plan.entries(other, [Pick()] * 2 * SNAPSHOT_INTERVAL)))
        self.do(ReadSnapshot(topic=topic))
        self.do(Send(session=first.name, entries=entries))

    @rule(index=INDEXES)
    def read_snapshot(self, index: int) -> None:
        """Read the stored snapshot."""
        self.do(ReadSnapshot(topic=self.topic(index)))


class KillsMachine(OnTopics):
    """The broker is restarted and killed, with messages in flight or without, which takes most of the time."""

    crashes: ClassVar[tuple[Crash, ...]] = IN_PLACE

    @initialize(second=st.booleans())
    def create_topics(self, second: bool) -> None:
        """One topic or two, deduplication on."""
        self.topics = TOPICS[: 1 + second]
        for topic in self.topics:
            self.do(CreateTopic(topic=topic, deduplication="namespace-on"))

    @rule(producers=st.lists(PRODUCERS, min_size=1, max_size=3, unique=True), burst=BURSTS, crash=CRASHES)
    def bounce(self, producers: list[str], burst: list[Pick], crash: int) -> None:
        """Send, kill or restart the broker with more in flight, reconnect, and send the confirmed messages again."""
        sent = []
        for topic in self.topics:
            for producer in producers:
                if not self.plan.is_taken(topic, producer):
                    self.open(topic, producer, "wire")
        for session in list(self.plan.sessions):
            entries = self.plan.entries(session, [Pick(), *burst])
            self.do(Send(session=session.name, entries=entries))
            self.do(Send(session=session.name, entries=self.plan.entries(session, burst), wait=False))
            sent.append((session, entries))
        self.do(self.crashes[crash % len(self.crashes)])
        self.plan.drop_wire_sessions()
        for session, entries in sent:
            again = self.open(session.topic, session.producer, "wire")
            self.do(Send(session=again.name, entries=entries))


class SettingsMachine(OnTopics):
    """The broker's own setting switches deduplication, back and forth; it takes a restart each time."""

    is_on = True

    @initialize(second=SWITCHES)
    def create_topics(self, second: Switch) -> None:
        """A topic that follows the broker's setting, and another one."""
        self.topics = TOPICS
        for topic, switch in zip(TOPICS, ("broker", second), strict=True):
            self.do(CreateTopic(topic=topic, deduplication=switch))

    @rule(burst=BURSTS, in_flight=st.booleans())
    def switch(self, burst: list[Pick], in_flight: bool) -> None:
        """Send, switch, with more in flight or not, and send all of it again, twice."""
        sent = []
        for topic in self.topics:
            session = self.open(topic, "p0", "wire")
            entries = self.plan.entries(session, [Pick(), *burst])
            self.do(Send(session=session.name, entries=entries))
            if in_flight:
                self.do(Send(session=session.name, entries=self.plan.entries(session, burst), wait=False))
            sent.append((session, entries))
        self.is_on = not self.is_on
        self.do(Restart(deduplication=self.is_on))
        self.plan.drop_wire_sessions()
        for session, entries in sent:
            again = self.open(session.topic, session.producer, "wire")
            for _ in range(2):
                self.do(Send(session=again.name, entries=entries))
            self.leave(again, CloseProducer(session=again.name))
