"""The messages between the engine and a lane.

The first order names the broker; the next ones are rounds, or histories to replay. During a round, the lane reports
each example, and sends requests that concern the shared broker. The engine answers them, or stops the round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.clients.driver.connect import DriverCommand
from conformance.clients.security.service import Service
from conformance.clusters import FurtherClusters
from conformance.engine.catalogue import Description
from conformance.engine.rounds import ExampleEnded
from conformance.engine.shortener.attempt import Attempt
from conformance.tenancy.footprint import Footprint
from conformance.workers.protocol import GaveUp, WorkerCrashed
from model.operations import AnyOperation, Kill, Restart

Bounce = Kill | Restart
"""The operations that end the process of the broker for all lanes."""


class LaneMessage(msgspec.Struct, frozen=True, tag=True):
    """One message, sent as one line."""


# ---------------------------------------------------------------------------------------------------------- orders


class Begin(LaneMessage, frozen=True, kw_only=True):
    """Work on this broker, in namespaces of your own, and write a journal into the folder of the report.

    ``service``: the address for the clients of examples; ``deadline``: the end of the run on the monotonic clock, which
    all processes of a machine share. ``bounce_s``: what a kill or restart of the broker is expected to take.
    ``coverage``: the file with the choices of earlier runs. ``drivers``: those of the run's clients. ``further``:
    the clusters that machines start for themselves, each of which has the ``defect``.
    """

    lane: int
    name: str
    version: str
    addresses: Addresses
    configuration: dict[str, str]
    capabilities: frozenset[Capability]
    service: Service
    footprint: Footprint
    report: str
    seed: int
    known: frozenset[str]
    deadline: float | None
    bounce_s: float
    coverage: str | None = None
    drivers: tuple[DriverCommand | None, ...] = (None,)
    further: FurtherClusters | None = None
    defect: str | None = None


class RunRound(LaneMessage, frozen=True, kw_only=True):
    """Run a round of a machine; ``factory``: its class as ``module:name``.

    ``on_shipped``: the broker has the shipped settings, on which it makes other choices.
    """

    machine: Description
    factory: str
    on_shipped: bool
    number: int
    until: float | None
    is_bouncing: bool
    """Whether machines of this round kill or restart the broker."""


class ReplayHistory(LaneMessage, frozen=True):
    """Perform these operations of a machine as one example; the answer is :class:`Replayed`, or how it failed."""

    number: int
    machine: str
    operations: tuple[AnyOperation, ...]


class Stop(LaneMessage, frozen=True):
    """End the round soon: the running example is the last one, and is not finished."""


class Go(LaneMessage, frozen=True):
    """The example may begin."""


class Do(LaneMessage, frozen=True):
    """All lanes do this to the broker now."""

    bounce: Bounce


class HostAnswer(LaneMessage, frozen=True, kw_only=True):
    """The answer to :class:`Ask`; ``failure``: why there is none. ``is_not_ready``: the broker does not run again.

    ``ended_with``: the exit status of a broker that ended by itself.
    """

    is_alive: bool = True
    ended_with: int | None = None
    agents: tuple[AgentAddress, ...] = ()
    failure: str | None = None
    is_not_ready: bool = False


Order = Begin | RunRound | ReplayHistory | Stop | Go | Do | HostAnswer


# --------------------------------------------------------------------------------------------------------- reports


class LaneReady(LaneMessage, frozen=True):
    """The lane has its namespaces."""


class Begins(LaneMessage, frozen=True):
    """An example is to begin; it waits for :class:`Go`."""


class Wants(LaneMessage, frozen=True):
    """The example does this to the broker next; it waits for :class:`Do`."""

    bounce: Bounce


class Ask(LaneMessage, frozen=True):
    """A request that concerns the broker's process; the lane waits for :class:`HostAnswer`.

    ``bounce``: perform the agreed kill or restart; the answer follows once the broker serves.
    """

    what: Literal["agents", "is_alive", "bounce"]


class RoundEnded(LaneMessage, frozen=True, kw_only=True):
    """The round ended: its harness error, if any, and whether an example was cut short for lack of time."""

    failure: str | None = None
    is_short: bool = False


def journal_name(lane: int) -> str:
    """The file of a lane's journal, in the folder of the report."""
    return f"journal-lane-{lane}.jsonl"


class Replayed(LaneMessage, frozen=True):
    """What came of a replay, and its report."""

    attempt: Attempt
    ended: ExampleEnded


Report = LaneReady | Begins | Wants | Ask | ExampleEnded | RoundEnded | Replayed | WorkerCrashed | GaveUp

read_order: Final[Callable[[bytes], Order]] = msgspec.json.Decoder(Order).decode
read_report: Final[Callable[[bytes], Report]] = msgspec.json.Decoder(Report).decode
