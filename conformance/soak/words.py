"""What a soak and its client processes tell one another: a JSON object a line, over the client's standard streams.

When the client's input ends, the soak is gone: the client puts down its history and ends.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

FaultOfBroker = Literal["kill", "restart", "pause", "unload"]
FaultOfLinks = Literal["cut", "hold", "refuse"]
FaultBetween = Literal["cut-link", "hold-link", "failover"]
"""What several clusters can be given: nothing comes over a link, in one direction, or only later; a subscription's
consumers go to another cluster."""
FaultName = Literal[FaultOfBroker, FaultOfLinks, FaultBetween]


class InjectNetworkFault(Struct, frozen=True, kw_only=True, tag="disturb"):
    """The client's links fail, all of them: they are ``cut``, ``hold`` everything, or (cut) are ``refuse``d."""

    how: FaultOfLinks
    lasts_s: float = 0.0


class Heal(Struct, frozen=True, tag="heal"):
    """Send nothing new, leave no more, acknowledge everything."""


class Renew(Struct, frozen=True, kw_only=True, tag="renew"):
    """The consumers of a subscription leave and come again, to this cluster if one is named.

    Those of a subscription that is made later come for the first time.
    """

    topic: str
    subscription: str
    cluster: str | None = None


class End(Struct, frozen=True, tag="end"):
    """Write down what is left, and end."""


Order = InjectNetworkFault | Heal | Renew | End


class Ready(Struct, frozen=True, tag="ready"):
    """Every producer and consumer of the client is open."""


class Counts(Struct, frozen=True, kw_only=True, tag="counts"):
    """What the client did so far.

    ``unanswered``: sends of which nothing is known and will be; ``damaged``: messages that came otherwise than they
    were sent; ``backwards``: confirmed positions that do not rise. ``waiting``: sends that wait for an answer.
    """

    sent: int = 0
    confirmed: int = 0
    duplicates: int = 0
    unanswered: int = 0
    received: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    given_back: int = 0
    reopened: int = 0
    damaged: int = 0
    backwards: int = 0
    waiting: int = 0
    events: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class Quiet(Struct, frozen=True, tag="quiet"):
    """The producers are through: whatever they sent was answered, or given up."""


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The client cannot go on; why, in a sentence."""

    sentence: str


Word = Ready | Counts | Quiet | Failed

_encoder = msgspec.json.Encoder()
_orders = msgspec.json.Decoder(Order)
_words = msgspec.json.Decoder(Word)


def encode(word: Order | Word) -> bytes:
    """One line."""
    return _encoder.encode(word) + b"\n"


def order(line: bytes) -> Order:
    """Read what the soak tells; msgspec's errors for anything else."""
    decoded: Order = _orders.decode(line)
    return decoded


def word(line: bytes) -> Word:
    """Read what a client tells; msgspec's errors for anything else."""
    decoded: Word = _words.decode(line)
    return decoded
