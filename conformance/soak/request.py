"""What a soak is requested to be, its progress, and its result: values for those who start and display one."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conformance.clients.security.service import NO_SECURITY, Security
from conformance.soak.plan import FaultName
from conformance.tenancy.footprint import Footprint
from conformance.workers.protocol import Counts
from model.log import Position

Subscription = tuple[str, str]
"""Topic and subscription."""


class SoakStage(enum.Enum):
    """The phase of a soak."""

    STARTING = "starting"
    LOAD = "load and faults"
    QUIESCE = "quiesce phase: no faults, everything must be delivered"
    READING_BACK = "reading back logs and cursors"
    COMPACTING = "compacting the history"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakRequest:
    """What a soak is to be.

    ``rate``: messages sent by all clients together, a second; ``fault_every_s``: the mean time between two faults;
    ``faults``: which, None for all that this kind of broker supports; ``defects``: names of seeded defects.
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
class SoakProgress:
    """The progress of a soak. ``length_s``: of the load; ``fault``: the current one; ``left``: entries to deliver."""

    stage: SoakStage
    elapsed_s: float
    length_s: float
    counts: Counts
    faults: Mapping[str, int]
    fault: str | None
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuiesceResult:
    """The result of the quiesce phase.

    ``helped``: what made each subscription progress that had stopped; ``stuck``: what is left where nothing helped.
    """

    helped: tuple[tuple[Subscription, str], ...]
    stuck: tuple[tuple[Subscription, frozenset[Position]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakResult:
    """``logged``: messages read back from the logs; ``seconds`` of the load."""

    release: str
    seconds: float
    counts: Counts
    events: int
    faults: Mapping[str, int]
    quiesced: QuiesceResult
    logged: int


class SoakWatcher(Protocol):
    """Displays the progress, and may end the load early."""

    def show(self, state: SoakProgress) -> None:
        """Display it."""

    @property
    def wants_end(self) -> bool:
        """Whether the load is to end now."""
