"""Producers that contend for a topic with their access modes: they open, wait, fence one another and leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from hypothesis import strategies as st

from model.operations import AnyOperation, CloseProducer, CrashProducer, OpenProducer, Send, Unload
from model.producer_operations import AwaitProducers
from model.vocabulary import AccessMode, Entry

NUMBERS: Final = st.sampled_from([0, 0, 1, 1, 2, 3])
"""Which producer: 0 is the one that the machine itself sends with."""
ACCESS: Final[st.SearchStrategy[AccessMode]] = st.sampled_from(
    [
        "Shared",
        "Shared",
        "Exclusive",
        "Exclusive",
        "ExclusiveWithFencing",
        "WaitForExclusive",
        "WaitForExclusive",
        "WaitForExclusive",
    ]
)

EPOCH_COUNTS: Final = ("Exclusive", "ExclusiveWithFencing")
"""A producer that waits reconnects as a new one."""


@dataclass(frozen=True, slots=True)
class Opens:
    """A producer is created, perhaps again. ``has_epoch``: with the topic's epoch that it knows, where one counts."""

    number: int
    access: AccessMode
    has_epoch: bool


@dataclass(frozen=True, slots=True)
class Leaves:
    """A producer closes, or its connection is cut."""

    number: int
    crashes: bool


@dataclass(frozen=True, slots=True)
class Sends:
    """A producer sends."""

    number: int


@dataclass(frozen=True, slots=True)
class Reloads:
    """The topic is unloaded."""


Contending = Opens | Leaves | Sends | Reloads
STEPS: Final[st.SearchStrategy[list[Contending]]] = st.lists(
    st.one_of(
        st.builds(Opens, NUMBERS, ACCESS, st.booleans()),
        st.builds(Opens, NUMBERS, ACCESS, st.booleans()),
        st.builds(Leaves, NUMBERS, st.booleans()),
        st.builds(Leaves, NUMBERS, st.booleans()),
        st.builds(Sends, NUMBERS),
        st.sampled_from([Reloads(), Sends(0)]),
    ),
    min_size=2,
    max_size=7,
)
"""What producers of a topic do in turn."""


@dataclass(frozen=True, slots=True)
class Contenders:
    """The producers of one topic. ``own``: the session that its machine sends with; ``name``: its producer."""

    do: Callable[[AnyOperation], None]
    topic: str
    own: str
    name: str

    def begin(self, steps: Iterable[Contending], entries: Callable[[], tuple[Entry, ...]]) -> bool:
        """Perform these steps, each followed by a look at who has access; returns whether the topic was reloaded."""
        has_moved = False
        for step in steps:
            match step:
                case Opens(number, access, has_epoch):
                    session, name = self._names(number)
                    again = has_epoch and access in EPOCH_COUNTS
                    self.do(OpenProducer(session, self.topic, name, access=access, has_epoch=again))
                case Leaves(number, crashes):
                    session, _ = self._names(number)
                    self.do(CrashProducer(session) if crashes else CloseProducer(session))
                case Sends(number):
                    self.do(Send(self._names(number)[0], entries()))
                case Reloads():
                    has_moved = True
                    self.do(Unload(self.topic))
                case _:
                    assert_never(step)
            if not isinstance(step, Sends):
                self.do(AwaitProducers(self.topic))
        return has_moved

    def end(self) -> None:
        """All of them leave, and the machine's own producer opens as any other."""
        for number in range(4):
            self.do(CloseProducer(self._names(number)[0]))
        self.do(AwaitProducers(self.topic))
        self.do(OpenProducer(self.own, self.topic, self.name))

    def _names(self, number: int) -> tuple[str, str]:
        """The session and the producer with this number."""
        return (self.own, self.name) if not number else (f"{self.name}{number}", f"{self.name}{number}")
