"""What breaks a rule of chunking: the evidence that deviations look at (:mod:`model.deviations`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.chunking.state import AssembledMessage, Chunking, SentMessage
from model.log import Position
from model.vocabulary import SubscriptionId


@dataclass(frozen=True, slots=True)
class NotRefused:
    """A client did not refuse a message for its size. ``earlier``: the messages that were sent with it before."""

    message: SentMessage
    earlier: Sequence[SentMessage]


@dataclass(frozen=True, slots=True)
class NotRequested:
    """The entries of nacked messages, none of which the client requested."""

    positions: frozenset[Position]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An ack or a redelivery request leaves out entries of a message: ``chunks``, and ``repeated`` ones.

    ``copies``: the entries that an ack names, and that no message was assembled from.
    """

    message: AssembledMessage
    chunks: tuple[Position, ...]
    repeated: tuple[Position, ...] = ()
    copies: frozenset[Position] = frozenset()
    is_cumulative: bool = False

    @property
    def is_all_but_last(self) -> bool:
        """Whether all entries of the message are left out, except for its last chunk."""
        return self.chunks == self.message.positions[:-1] and self.repeated == self.message.repeated

    @property
    def is_from_before(self) -> bool:
        """Whether only chunks above the last one are left out: they came before everything was received again."""
        return bool(self.chunks) and min(self.chunks) > self.message.positions[-1]


@dataclass(frozen=True, slots=True)
class ByClient:
    """What the client of a consumer delivered does not follow from what it was sent, or it ``acknowledged`` these
    without its application."""

    consumer: str
    acknowledged: frozenset[Position] = frozenset()


@dataclass(frozen=True, slots=True)
class DeliveredLate:
    """A message that is delivered for the first time, after a later one of its producer. ``state``: before that."""

    state: Chunking
    subscription: SubscriptionId
    message: AssembledMessage


@dataclass(frozen=True, slots=True)
class DiscardedNotRequested:
    """A client requests no redelivery of entries that it discarded. ``requests_others``: but of others, it did."""

    requests_others: bool
