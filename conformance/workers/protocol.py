"""What the suite and a worker process send each other.

The first order says what the worker is: a producer, one of the two programs of document 000, or a client of a soak.
When the line ends, the other side is gone: a worker then ends as after :class:`Close`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from conformance.clients.security.service import Service
from conformance.workers.client_plan import ClientPlan, FaultOfLinks
from model.log import Position
from model.operations import Death


class WorkerMessage(msgspec.Struct, frozen=True, tag=True):
    """A line."""


# ---------------------------------------------------------------------------------------------- orders: what to be


class ProduceOrder(WorkerMessage, frozen=True):
    """Be a producer of pulsar-client: open, answer :class:`ProducerOpened`, then send entries."""

    service: Service
    topic: str
    name: str
    timeout_s: float


class ReadOrder(WorkerMessage, frozen=True):
    """Be the reader of scenario 1, until the end of the topic or the chosen death."""

    service: Service
    topic: str
    database: str
    death: Death | None
    timeout_s: float


class SubscribeOrder(WorkerMessage, frozen=True):
    """Be the subscriber of scenario 2, until nothing is left or the chosen death."""

    service: Service
    admin: Service
    topic: str
    subscription: str
    database: str
    death: Death | None
    timeout_s: float


class LoadOrder(WorkerMessage, frozen=True):
    """Be a client of a soak; ``log`` is the file for standard error."""

    plan: ClientPlan
    log: str


# ------------------------------------------------------------------------------------------------- orders: what to do


class SendOrder(WorkerMessage, frozen=True):
    """A producer sends this message."""

    sequence_id: int
    payload: bytes


class NetworkFaultOrder(WorkerMessage, frozen=True, kw_only=True):
    """All links of a soak's client fail: they are ``cut``, ``hold`` everything, or are cut and ``refuse``d."""

    how: FaultOfLinks
    lasts_s: float = 0.0


class QuiesceOrder(WorkerMessage, frozen=True):
    """The quiesce phase of a soak: send nothing new, keep consumers connected, acknowledge everything."""


class Reconnect(WorkerMessage, frozen=True, kw_only=True):
    """The consumers of a subscription close and subscribe again, at this cluster if one is named.

    Those of a subscription that is created later subscribe for the first time.
    """

    topic: str
    subscription: str
    cluster: str | None = None


class Close(WorkerMessage, frozen=True):
    """Close gracefully, write what there is to write, and end."""


class Die(WorkerMessage, frozen=True):
    """Kill yourself."""


Order = (
    ProduceOrder
    | ReadOrder
    | SubscribeOrder
    | LoadOrder
    | SendOrder
    | NetworkFaultOrder
    | QuiesceOrder
    | Reconnect
    | Close
    | Die
)


# ----------------------------------------------------------------------------------------------------------- reports


class ProducerOpened(WorkerMessage, frozen=True):
    """The producer is open; the last sequence id in the broker's answer."""

    last_sequence_id: int


class Answered(WorkerMessage, frozen=True):
    """A message was confirmed: stored at a position, or a duplicate (None)."""

    sequence_id: int
    position: Position | None


class Failed(WorkerMessage, frozen=True):
    """A message, None: the opening, failed; ``is_refused``: the broker refused it."""

    sequence_id: int | None
    code: str
    message: str
    is_refused: bool


class Ended(WorkerMessage, frozen=True):
    """The program ended, after so many messages in this run."""

    received: int


class Dying(WorkerMessage, frozen=True):
    """The program kills itself now, as ordered, after so many messages in this run."""

    received: int


class GaveUp(WorkerMessage, frozen=True):
    """The worker cannot go on; why, in a sentence."""

    why: str


class WorkerCrashed(WorkerMessage, frozen=True):
    """The worker has a bug; the traceback."""

    traceback: str


class Ready(WorkerMessage, frozen=True):
    """Every producer and consumer of a soak's client is open."""


class Quiet(WorkerMessage, frozen=True):
    """Whatever the producers of a soak's client sent was answered, or given up."""


class Counts(WorkerMessage, frozen=True, kw_only=True):
    """What a soak's client did so far.

    ``unanswered``: sends whose outcome stays unknown; ``damaged``: messages whose payload is not what was sent;
    ``backwards``: confirmed positions that do not rise. ``waiting``: sends in flight.
    """

    sent: int = 0
    confirmed: int = 0
    duplicates: int = 0
    unanswered: int = 0
    received: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    nacked: int = 0
    reopened: int = 0
    damaged: int = 0
    backwards: int = 0
    waiting: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


Report = ProducerOpened | Answered | Failed | Ended | Dying | GaveUp | WorkerCrashed | Ready | Quiet | Counts

read_order: Final[Callable[[bytes], Order]] = msgspec.json.Decoder(Order).decode
read_report: Final[Callable[[bytes], Report]] = msgspec.json.Decoder(Report).decode
