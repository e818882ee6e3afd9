"""The machines of document 000 from its applications' side: sources, subscribers and programs, and what befalls them.

They choose lives: how much a source comes to, where it goes on, what happens while it has messages in flight, and
whether it dies of it. The main machine unloads topics and has writes fail inside the broker; the one with kills takes
the broker's process away under all of them at once, and so has few and short examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from conformance.engine.example import RunningExample
from model.applications import CrashSource, FinishSource, GoesOn, StartSource
from model.operations import AnyOperation, ClearFailpoints, CreateTopic, SetFailpoint, Unload
from model.vocabulary import Client, Entry, Message

Misfortune = Literal["none", "unload", "write-fails", "write-fails-late", "write-slow", "confirmation-lost"]
"""What may befall a source's topic while it has messages in flight."""

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
"""How many messages the entries have that a source comes to."""
MISFORTUNES: st.SearchStrategy[Misfortune] = st.sampled_from(
    ["none", "unload", "write-fails", "write-fails-late", "write-slow", "confirmation-lost"]
)
INDEXES = st.integers(0, 63)


@dataclass(slots=True)
class PlannedSource:
    """What a machine knows of a source, from its own choices alone."""

    name: str
    topic: str
    goes_on: GoesOn
    client: Client
    highest: int = 0

    def comes_to(self, sizes: list[int]) -> tuple[Entry, ...]:
        """Entries of these sizes, behind all that it came to before; pulsar-client does not say where batches end."""
        return tuple(self._entry(size if self.client == "wire" else 1) for size in sizes)

    def _entry(self, size: int) -> Entry:
        first = self.highest + 1
        self.highest += size
        return Entry(tuple(Message(i, f"{self.name}-{i}") for i in range(first, self.highest + 1)))


class Applications(RuleBasedStateMachine):
    """What all machines of this side of the document do."""

    def __init__(self, example: RunningExample) -> None:
        super().__init__()
        self.example = example
        self.sources: list[PlannedSource] = []

    def do(self, operation: AnyOperation) -> None:
        """Perform one operation."""
        self.example.do(operation)

    def teardown(self) -> None:
        """End the example."""
        self.example.end()

    def source(self, index: int) -> PlannedSource:
        """One of the sources."""
        return self.sources[index % len(self.sources)]

    def start(self, source: PlannedSource, sizes: list[int], *, back: int) -> None:
        """Begin a life of a source."""
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
        """End its life: in good order, or by a death."""
        if dies_after is None:
            self.do(FinishSource(source.name))
        else:
            self.do(CrashSource(source.name, confirmed=dies_after))


class ApplicationsMachine(Applications):
    """Topics that are unloaded, writes that fail, applications that die of it or by themselves."""

    @initialize(first=HABITS, second=st.none() | HABITS)
    def begin(self, first: Habit, second: Habit | None) -> None:
        """One topic, with one source or two."""
        self.do(CreateTopic(topic="t0"))
        habits = [first] if second is None else [first, second]
        self.sources = [PlannedSource(f"a{i}", "t0", *habit) for i, habit in enumerate(habits)]

    @rule(
        index=INDEXES,
        sizes=SIZES,
        back=st.integers(0, 3),
        misfortune=MISFORTUNES,
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
        misfortune: Misfortune,
        is_late: bool,
        count: int,
        dies_after: int | None,
        clears: bool,
    ) -> None:
        """A source lives, and something befalls its topic, before it sends or when it has sent."""
        source = self.source(index)
        if not is_late:
            self.befall(source.topic, misfortune, count)
        self.start(source, sizes, back=back)
        if is_late:
            self.befall(source.topic, misfortune, count)
        self.end(source, dies_after)
        if clears and misfortune not in ("none", "unload"):
            self.do(ClearFailpoints())

    def befall(self, topic: str, misfortune: Misfortune, count: int) -> None:
        """Let something happen to a topic."""
        match misfortune:
            case "none":
                pass
            case "unload":
                self.do(Unload(topic))
            case "write-fails-late" | "write-slow":
                self.do(SetFailpoint(topic=topic, kind=misfortune, count=count, delay_ms=20))
            case "write-fails" | "confirmation-lost":
                self.do(SetFailpoint(topic=topic, kind=misfortune, count=count))
