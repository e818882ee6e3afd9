"""What a soak is asked to be, how far it is, and what came of it: values for those who start one and look on."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conformance.clients.security.service import NO_SECURITY, Security
from conformance.soak.words import Counts, FaultName
from conformance.tenancy.footprint import Footprint
from model.log import Position

Subscription = tuple[str, str]
"""Topic and subscription."""


class Stage(enum.Enum):
    """Where a soak is."""

    STARTING = "starting"
    LOAD = "load and faults"
    HEALING = "healing: nothing disturbs, everything must be delivered"
    READING_BACK = "reading back logs and cursors"
    COMPACTING = "compacting the history"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a soak is to be.

    ``rate``: messages sent by all clients together, a second; ``fault_every_s``: between two faults, in the mean;
    ``faults``: which, None for all that the broker can be given; ``defects``: names of seeded defects.
    """

    broker: str
    seed: int
    length_s: float
    clients: int
    topics: int
    rate: float
    fault_every_s: float
    history: Path
    faults: frozenset[FaultName] | None = None
    defects: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    security: Security = NO_SECURITY
    clusters: int = 1
    """How many clusters replicate to one another; each has its own producers."""
    footprint: Footprint | None = None
    """What it may leave on a running cluster while it goes on; None for brokers of the suite's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How far a soak is. ``length_s``: of the load; ``fault``: the one that goes on; ``left``: entries to deliver."""

    stage: Stage
    elapsed_s: float
    length_s: float
    counts: Counts
    faults: Mapping[str, int]
    fault: str | None
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Healed:
    """What the healing came to.

    ``helped``: how each subscription that came no further was helped; ``stuck``: what is left where nothing helped.
    """

    helped: tuple[tuple[Subscription, str], ...]
    stuck: tuple[tuple[Subscription, frozenset[Position]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it; ``logged``: messages read back from the logs, ``seconds`` of the load."""

    release: str
    seconds: float
    counts: Counts
    events: int
    faults: Mapping[str, int]
    healed: Healed
    logged: int


class Watcher(Protocol):
    """Whoever looks on, and may end the load early."""

    def show(self, state: State) -> None:
        """This is how far it is."""

    @property
    def wants_end(self) -> bool:
        """Whether the load is to end now."""
