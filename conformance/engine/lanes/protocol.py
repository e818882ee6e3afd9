"""What the engine and a lane send each other, over a line.

The first order says what the lane works on; then it gets one round after the other. While a round goes on, the lane
reports each example, and asks for what concerns the broker that all lanes share; the engine answers, or stops it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from conformance.brokers.interface import Addresses, AgentAddress, Capability
from conformance.clients.security.service import Service
from conformance.engine.catalogue import Description
from conformance.engine.rounds import ExampleEnded
from conformance.tenancy.footprint import Footprint
from conformance.workers.protocol import Crashed, GaveUp
from model.operations import Kill, Restart

Bounce = Kill | Restart
"""What ends the process of the broker, for all lanes at once."""


class Message(msgspec.Struct, frozen=True, tag=True):
    """A line."""


# ---------------------------------------------------------------------------------------------------------- orders


class Begin(Message, frozen=True, kw_only=True):
    """Work on this broker, in namespaces of your own, and write a journal into the folder of the report.

    ``service``: where the clients of examples find the broker; ``deadline``: when nothing may go on any more, on the
    monotonic clock, which all processes of a machine share.
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


class RunRound(Message, frozen=True, kw_only=True):
    """Run a round of a machine, whose class is ``factory``, written ``module:name``."""

    machine: Description
    factory: str
    number: int
    until: float | None
    is_bouncing: bool
    """Whether machines of this round kill or restart the broker."""


class Stop(Message, frozen=True):
    """End the round soon: the example that is running is the last one, and is not finished."""


class Go(Message, frozen=True):
    """The example may begin."""


class Do(Message, frozen=True):
    """All lanes do this to the broker now."""

    bounce: Bounce


class Answer(Message, frozen=True, kw_only=True):
    """The answer to :class:`Ask`; ``failure``: why there is none."""

    is_alive: bool = True
    agents: tuple[AgentAddress, ...] = ()
    failure: str | None = None


Order = Begin | RunRound | Stop | Go | Do | Answer


# --------------------------------------------------------------------------------------------------------- reports


class Ready(Message, frozen=True):
    """The lane has its namespaces."""


class Begins(Message, frozen=True):
    """An example is to begin; it waits for :class:`Go`."""


class Wants(Message, frozen=True):
    """The example does this to the broker next; it waits for :class:`Do`."""

    bounce: Bounce


class Ask(Message, frozen=True):
    """Something is to be done to the broker's process, or asked of it; the lane waits for :class:`Answer`.

    ``bounce``: what was last agreed on is done now; the answer comes once the broker is back.
    """

    what: Literal["agents", "is_alive", "bounce"]


class RoundEnded(Message, frozen=True, kw_only=True):
    """The round ended; how the suite failed, if it did, and whether an example was cut short for lack of time."""

    failure: str | None = None
    is_short: bool = False


Report = Ready | Begins | Wants | Ask | ExampleEnded | RoundEnded | Crashed | GaveUp

read_order: Final[Callable[[bytes], Order]] = msgspec.json.Decoder(Order).decode
read_report: Final[Callable[[bytes], Report]] = msgspec.json.Decoder(Report).decode
