"""The machines of document 000 for applications: sources, subscribers and programs, under faults.

They choose how many messages a source has, where it resumes, which faults meet its messages in flight, and whether it
crashes; what a consumer acknowledges before it leaves; and where a program is killed. The main machine unloads topics
and lets writes fail inside the broker. The one with kills stops the broker under all of them, so its examples are few
and short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from model.operations import (
    ClearFailpoints,
    ClearNetworkFaults,
    Consume,
    CrashSource,
    CreateTopic,
    Death,
    FinishSource,
    GoesOn,
    InjectNetworkFault,
    Point,
    RunReader,
    RunSubscriber,
    SetFailpoint,
    StartSource,
    Switch,
    Then,
    Unload,
    UseProxy,
)
from model.vocabulary import Client, Entry, Message, NetworkFault, SubscriptionType
from stateful.crashes import CRASHES, IN_PLACE, Crash
from stateful.deduplication.network_faults import FAULTS
from stateful.lockstep_machine import LockstepMachine, Performing

SOURCES = "t0"
"""The topic of the sources that are deduplicated, of the subscription and of the reader."""
DUPLICATES = "t1"
"""The topic whose log has business ids more than once, and of the program that applies each once."""
BUSINESS_IDS = 4
"""How many of them there are on that topic."""

Disturbance = Literal["none", "unload", "write-fails", "write-fails-late", "write-slow", "confirmation-lost"]
"""What may disturb a source's topic while it has messages in flight."""

Habit = tuple[GoesOn, Client]
"""What kind of source it is."""

HABITS: st.SearchStrategy[Habit] = st.sampled_from(
    [
        ("from-checkpoint", "wire"),
        ("from-checkpoint", "official"),
        ("from-told-id", "wire"),
        ("from-told-id", "official"),
        ("with-new-only", "wire"),
        ("with-new-only", "official"),
    ]
)
SIZES: st.SearchStrategy[list[int]] = st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=1, max_size=10)
"""How many messages each new entry of a source has."""
DISTURBANCES: st.SearchStrategy[Disturbance] = st.sampled_from(
    ["none", "unload", "write-fails", "write-fails-late", "write-slow", "confirmation-lost"]
)
INDEXES = st.integers(0, 63)
CONSUMERS = st.sampled_from(["c0", "c1"])
CLIENTS: st.SearchStrategy[Client] = st.sampled_from(["wire", "official"])
KINDS: st.SearchStrategy[SubscriptionType] = st.sampled_from(["Exclusive", "Shared"])
ACKS: st.SearchStrategy[tuple[bool, ...]] = st.sampled_from(
    [(True,), (False,), (True, False), (False, True), (True, True, False), (False, False, True)]
)
THENS: st.SearchStrategy[Then] = st.sampled_from(["stays", "closes", "crashes", "crashes"])
READER_POINTS: st.SearchStrategy[Point] = st.sampled_from(["received", "state-changed", "before-commit", "committed"])
SUBSCRIBER_POINTS: st.SearchStrategy[Point] = st.sampled_from(
    ["received", "state-changed", "before-commit", "committed", "acknowledged"]
)
READER_DEATHS = st.builds(Death, st.integers(1, 8), READER_POINTS)
SUBSCRIBER_DEATHS = st.builds(Death, st.integers(1, 8), SUBSCRIBER_POINTS)


@dataclass(slots=True)
class PlannedSource:
    """What a machine knows of a source, from its own choices alone."""

    name: str
    topic: str
    goes_on: GoesOn
    client: Client
    highest: int = 0

    def comes_to(self, sizes: list[int]) -> tuple[Entry, ...]:
        """Entries of these sizes, after all earlier ones; pulsar-client sends batches without highest id."""
        return tuple(self._entry(size if self.client == "wire" else 1) for size in sizes)

    def _entry(self, size: int) -> Entry:
        first = self.highest + 1
        self.highest += size
        return Entry(tuple(Message(number, self._business_id(number)) for number in range(first, self.highest + 1)))

    def _business_id(self, number: int) -> str:
        return f"{self.name}-{number % BUSINESS_IDS if self.topic == DUPLICATES else number}"


class ApplicationMachine(LockstepMachine):
    """The base of the machines of applications."""

    def __init__(self, example: Performing) -> None:
        super().__init__(example)
        self.sources: list[PlannedSource] = []
        self.kind: SubscriptionType = "Exclusive"

    def add_sources(self, topic: str, *habits: Habit) -> None:
        """Let a topic have sources of these kinds."""
        for goes_on, client in habits:
            self.sources.append(PlannedSource(f"a{len(self.sources)}", topic, goes_on, client))

    def source(self, index: int) -> PlannedSource:
        """One of the sources."""
        return self.sources[index % len(self.sources)]

    def start(self, source: PlannedSource, sizes: list[int], *, back: int) -> None:
        """Start a source."""
        self.do(
            StartSource(
                source=source.name,
                topic=source.topic,
                entries=source.comes_to(sizes),
                goes_on=source.goes_on,
                back=back if source.goes_on == "from-checkpoint" else 0,
                client=source.client,
            )
        )

    def end(self, source: PlannedSource, dies_after: int | None) -> None:
        """Stop a source: it closes, or it crashes."""
        if dies_after is None:
            self.do(FinishSource(source.name))
        else:
            self.do(CrashSource(source.name, confirmed=dies_after))

    def receive(self, consumer: str, client: Client, count: int, acks: tuple[bool, ...], then: Then) -> None:
        """A consumer receives; its name decides its client, so that the client is always the same."""
        self.do(
            Consume(
                consumer=f"{consumer}-{client}",
                topic=SOURCES,
                subscription="s",
                count=count,
                acks=acks,
                then=then,
                kind=self.kind,
                client=client,
            )
        )


class ApplicationsMachine(ApplicationMachine):
    """Unloaded topics, failing writes, and applications that crash."""

    @initialize(
        first=HABITS,
        second=st.none() | HABITS,
        repeating=HABITS,
        switch=st.sampled_from(["namespace-on", "namespace-off"]),
        kind=KINDS,
        sizes=SIZES,
    )
    def begin(
        self,
        first: Habit,
        second: Habit | None,
        repeating: Habit,
        switch: Switch,
        kind: SubscriptionType,
        sizes: list[int],
    ) -> None:
        """Create two topics, one with deduplication on or off, with messages of sources that crashed once."""
        self.kind = kind
        self.do(CreateTopic(topic=SOURCES))
        self.do(CreateTopic(topic=DUPLICATES, deduplication=switch))
        self.add_sources(SOURCES, first, *([] if second is None else [second]))
        self.add_sources(DUPLICATES, repeating)
        for source in self.sources:
            for dies_after in (None, 0, None):
                self.start(source, sizes, back=0)
                self.end(source, dies_after)

    @rule(
        index=INDEXES,
        sizes=SIZES,
        back=st.integers(0, 3),
        disturbance=DISTURBANCES,
        is_late=st.booleans(),
        count=st.integers(1, 3),
        dies_after=st.none() | st.integers(0, 6),
        clears=st.booleans(),
    )
    def live(
        self,
        index: int,
        sizes: list[int],
        back: int,
        disturbance: Disturbance,
        is_late: bool,
        count: int,
        dies_after: int | None,
        clears: bool,
    ) -> None:
        """A source runs, and its topic is disturbed before or after it sends."""
        source = self.source(index)
        if not is_late:
            self.disturb(source.topic, disturbance, count)
        self.start(source, sizes, back=back)
        if is_late:
            self.disturb(source.topic, disturbance, count)
        self.end(source, dies_after)
        if clears and disturbance not in ("none", "unload"):
            self.do(ClearFailpoints())

    @rule(
        index=INDEXES,
        sizes=SIZES,
        more=SIZES,
        disturbance=st.sampled_from(["write-fails-late", "write-slow"]),
        count=st.integers(1, 3),
        dies_again=st.booleans(),
        unloads=st.booleans(),
    )
    def die_and_come_back(
        self,
        index: int,
        sizes: list[int],
        more: list[int],
        disturbance: Disturbance,
        count: int,
        dies_again: bool,
        unloads: bool,
    ) -> None:
        """A source crashes while the broker delays its writes, and restarts before they finish."""
        source = self.source(index)
        self.disturb(source.topic, disturbance, count)
        self.start(source, sizes, back=0)
        self.end(source, 0)
        self.start(source, more, back=0)
        if unloads:
            self.do(Unload(source.topic))
        self.end(source, 0 if dies_again else None)
        self.do(ClearFailpoints())

    def disturb(self, topic: str, disturbance: Disturbance, count: int) -> None:
        """Unload a topic, or let its writes fail."""
        match disturbance:
            case "none":
                pass
            case "unload":
                self.do(Unload(topic))
            case "write-fails-late" | "write-slow":
                self.do(SetFailpoint(topic=topic, kind=disturbance, count=count, delay_ms=20))
            case "write-fails" | "confirmation-lost":
                self.do(SetFailpoint(topic=topic, kind=disturbance, count=count))

    @rule(consumer=CONSUMERS, client=CLIENTS, count=st.integers(1, 12), acks=ACKS, then=THENS, unloads=st.booleans())
    def consume(
        self, consumer: str, client: Client, count: int, acks: tuple[bool, ...], then: Then, unloads: bool
    ) -> None:
        """A consumer receives and acknowledges some messages; it leaves, or its topic is unloaded, or both."""
        self.receive(consumer, client, count, acks, then)
        if unloads:
            self.do(Unload(SOURCES))

    @rule(death=READER_DEATHS, again=READER_DEATHS, unloads=st.booleans())
    def read(self, death: Death, again: Death, unloads: bool) -> None:
        """The program of scenario 1 is killed, and killed once more when it is started again."""
        self.do(RunReader("reader", SOURCES, death))
        if unloads:
            self.do(Unload(SOURCES))
        self.do(RunReader("reader", SOURCES, again))

    @rule(death=SUBSCRIBER_DEATHS, again=SUBSCRIBER_DEATHS, unloads=st.booleans())
    def subscribe(self, death: Death, again: Death, unloads: bool) -> None:
        """The program of scenario 2 is killed, and killed once more when it is started again."""
        self.do(RunSubscriber("subscriber", DUPLICATES, death))
        if unloads:
            self.do(Unload(DUPLICATES))
        self.do(RunSubscriber("subscriber", DUPLICATES, again))


class ApplicationsKillsMachine(ApplicationMachine):
    """The broker is killed or restarted under sources, consumers and programs."""

    crashes: ClassVar[tuple[Crash, ...]] = IN_PLACE

    @initialize(first=HABITS, second=HABITS, repeating=HABITS, kind=KINDS, sizes=SIZES)
    def begin(self, first: Habit, second: Habit, repeating: Habit, kind: SubscriptionType, sizes: list[int]) -> None:
        """Create two topics with messages."""
        self.kind = kind
        self.do(UseProxy())
        self.do(CreateTopic(topic=SOURCES))
        self.do(CreateTopic(topic=DUPLICATES))
        self.add_sources(SOURCES, first, second)
        self.add_sources(DUPLICATES, repeating)
        for source in self.sources:
            self.start(source, sizes, back=0)
            self.end(source, None)

    @rule(
        crash=CRASHES,
        sizes=SIZES,
        back=st.integers(0, 3),
        faults=st.lists(FAULTS, max_size=2),
        unloads=st.booleans(),
        dies_after=st.none() | st.integers(0, 6),
        client=CLIENTS,
        acks=ACKS,
        reader_death=READER_DEATHS,
        subscriber_death=SUBSCRIBER_DEATHS,
    )
    def bounce(
        self,
        crash: int,
        sizes: list[int],
        back: int,
        faults: list[NetworkFault],
        unloads: bool,
        dies_after: int | None,
        client: Client,
        acks: tuple[bool, ...],
        reader_death: Death,
        subscriber_death: Death,
    ) -> None:
        """Kill or restart the broker while sources and consumers are at work; they go on afterwards.

        The network may fail as well, before the kill or after it, and the topic may be unloaded just before.
        """
        self.receive("c0", client, 6, acks, "stays")
        self.do(RunReader("reader", SOURCES, reader_death))
        self.do(RunSubscriber("subscriber", DUPLICATES, subscriber_death))
        for fault in faults:
            self.do(InjectNetworkFault(topic=SOURCES, fault=fault))
        for source in self.sources:
            self.start(source, sizes, back=back)
        if unloads:
            self.do(Unload(SOURCES))
        self.do(self.crashes[crash % len(self.crashes)])
        for source in self.sources:
            self.end(source, dies_after)
        self.do(ClearNetworkFaults())
        self.receive("c0", client, 6, acks, "crashes")
