"""What breaks a rule of chunking: the evidence that deviations look at (:mod:`model.deviations`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.chunking.state import AssembledMessage, Chunking, ChunkTopic, SentMessage, TrackedConsumer
from model.log import Position
from model.traffic import Delivery, LoggedPart
from model.vocabulary import SubscriptionId


@dataclass(frozen=True, slots=True)
class NotRefused:
    """A client did not refuse a message for its size. ``earlier``: the messages that were sent with it before."""

    message: SentMessage
    earlier: Sequence[SentMessage]


@dataclass(frozen=True, slots=True)
class LogDiffers:
    """The ``entries`` of a producer in the log do not follow from its sends."""

    topic: ChunkTopic
    producer: str
    entries: Sequence[LoggedPart]


@dataclass(frozen=True, slots=True)
class NotWhole(LogDiffers):
    """The log does not have all chunks of a message that its client confirmed."""

    sequence_id: int


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
class PayloadDiffers:
    """The client of a consumer delivered a message with another payload than the one that was sent."""

    consumer: str
    delivery: Delivery
    message: AssembledMessage


@dataclass(frozen=True, slots=True)
class DeliveredLate:
    """A message that is delivered for the first time, after a later one of its producer. ``state``: before that."""

    state: Chunking
    subscription: SubscriptionId
    message: AssembledMessage


@dataclass(frozen=True, slots=True)
class DiscardedNotRequested:
    """The client of a consumer requests no redelivery of entries that it discarded. ``requests_others``: but of
    others, it did."""

    consumer: str
    requests_others: bool


@dataclass(frozen=True, slots=True)
class OutOfOrder:
    """An ordered consumer is sent an entry that is not the next one. ``state``: before that. ``number``: how many
    commands passed before it in this step. ``left_out``: the unacknowledged entries before it that were not sent."""

    state: Chunking
    consumer: str
    position: Position
    number: int
    left_out: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class BeyondPermits:
    """A consumer is sent an entry without a permit. ``state`` and ``number``: as of :class:`OutOfOrder`."""

    state: Chunking
    consumer: str
    number: int


@dataclass(frozen=True, slots=True)
class Scattered:
    """The entries of a message are pending at several consumers. ``state``: after all that a look received."""

    state: Chunking
    entries: frozenset[Position]
    having: tuple[str, ...]

    @property
    def consumers(self) -> list[TrackedConsumer]:
        return [self.state.consumers[name] for name in self.having]


@dataclass(frozen=True, slots=True)
class ChunksUndispatched:
    """Due entries that were not dispatched, and that nothing explains yet: ``owed``. ``state``: after all that a look
    received. ``is_slowed``: a failpoint made calls race."""

    state: Chunking
    subscription: SubscriptionId
    owed: tuple[Position, ...]
    is_slowed: bool = False

    @property
    def topic(self) -> ChunkTopic:
        return self.state.topics[self.subscription.topic]

    @property
    def consumers(self) -> dict[str, TrackedConsumer]:
        return dict(self.state.consumers_of(self.subscription))

    def without(self, part: frozenset[Position] | None) -> ChunksUndispatched:
        """The same if a part of the entries is explained; None: all of them."""
        return replace(self, owed=tuple(one for one in self.owed if part is not None and one not in part))
