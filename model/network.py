"""What the network between clients and a broker can be asked to do, as values of a history.

The faults are those of a network that carries streams: what gets through is in order, and what does not get through
ends with its connection. Each acts on commands by what they are, so that it does the same again when a history is
replayed. They make outcomes unknown, and excuse nothing: whatever a client was told before it was cut off holds.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from model.vocabulary import Operation, Outcome

Carried = Literal["PRODUCER", "PRODUCER_SUCCESS", "SEND", "SEND_RECEIPT", "FLOW", "MESSAGE", "ACK", "ACK_RESPONSE"]
"""The commands that faults act on, by their names in the protocol."""

Where = Literal["before", "within", "after"]
"""Where a connection ends: with nothing of a command passed on, with some of its bytes, or with all of it."""


class CutAt(Struct, frozen=True, tag="cut-at"):
    """The connection ends at the ``nth`` command of this kind."""

    kind: Carried
    nth: int = 1
    where: Where = "before"


class CutAfter(Struct, frozen=True, tag="cut-after"):
    """The first connection that has carried so many more bytes to the broker, or to the client, ends there."""

    size_bytes: int
    to_broker: bool = True


class LoseThenCut(Struct, frozen=True, tag="lose-then-cut"):
    """The ``count`` commands of this kind from the ``nth`` on never arrive, and the connection ends with them."""

    kind: Carried
    nth: int = 1
    count: int = 1


class Delay(Struct, frozen=True, tag="delay"):
    """The ``nth`` command of this kind, and all that comes behind it on its way, arrives later."""

    kind: Carried
    nth: int = 1
    delay_ms: int = 20


class Hold(Struct, frozen=True, tag="hold"):
    """The ``nth`` command of this kind, and all behind it on its way, comes when an answer is next waited for."""

    kind: Carried
    nth: int = 1


class RefuseConnections(Struct, frozen=True, tag="turn-away"):
    """Whoever connects for so long is turned away."""

    for_ms: int


NetworkFault = CutAt | CutAfter | LoseThenCut | Delay | Hold | RefuseConnections
"""Every fault of the network."""


class UseProxy(Operation, frozen=True):
    """From now on this example's producers come to the broker through a proxy, where faults can be set. Done."""


class InjectNetworkFault(Operation, frozen=True):
    """The network will do this, once, to producers of this topic; where it counts no commands, to any. Done."""

    topic: str
    fault: NetworkFault


class ClearNetworkFaults(Operation, frozen=True):
    """The network is in order again; what it holds arrives. Mended."""


class NetworkFaultsCleared(Outcome, frozen=True):
    """No fault is set any more; how often those that were set did something."""

    fired: int


NetworkOperation = UseProxy | InjectNetworkFault | ClearNetworkFaults
"""Every operation on the network."""
