"""What breaks a rule of Key_Shared: the evidence that deviations look at (:mod:`model.deviations`).

A look judges many deliveries one after the other, so each evidence has the state at its check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from model.events import DueReceived
from model.key_shared.liveness import Open, Receiver
from model.key_shared.state import Keyed
from model.key_shared.stats import Mismatch
from model.log import Position
from model.subscriptions.consumers import Message
from model.subscriptions.counts import Count, Starving
from model.subscriptions.state import Consumption, TrackedTopic
from model.vocabulary import HashRange, SubscriptionId


@dataclass(frozen=True, slots=True)
class Received:
    """A consumer received a message that it should not receive. ``state``: before that."""

    state: Consumption
    subscription: SubscriptionId
    name: str
    message: Message

    @property
    def position(self) -> Position:
        return self.message[1].position

    @property
    def is_classic(self) -> bool:
        """Whether the subscription has the classic implementation."""
        return not self.state.topics[self.subscription.topic].drains


@dataclass(frozen=True, slots=True)
class Divided(Received):
    """``other`` has a message of its key, which is ``pending``."""

    other: str
    pending: Position


@dataclass(frozen=True, slots=True)
class Unclaimed(Received):
    """The consumer does not claim its hash."""


@dataclass(frozen=True, slots=True)
class RangesShown:
    """The stats show other ranges of a consumer than it claims."""

    name: str
    ranges: Sequence[HashRange]


@dataclass(frozen=True, slots=True)
class OwnOverlap:
    """A consumer was let in whose own claims overlap."""


@dataclass(frozen=True, slots=True)
class Overtaking(Received):
    """It is delivered before ``first``, an earlier message of its key or hash, which waits to be delivered."""

    first: Message


@dataclass(frozen=True, slots=True)
class OvertakesLeaver(Overtaking):
    """``first`` is in the replay queue because its consumer left."""


@dataclass(frozen=True, slots=True)
class OvertakesReplay(Overtaking):
    """A new message is delivered before ``first``, which is in the replay queue. ``left``: the first one there whose
    consumer left."""

    left: Message | None


@dataclass(frozen=True, slots=True)
class OvertakesInLog(Overtaking):
    """All ``earlier`` messages of its key are due."""

    earlier: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Undispatched:
    """Due entries that were not dispatched. ``state``: after all that a look received. ``entries``: the unacknowledged
    ones, in order. ``owed``: those that are due, and to which consumer. ``left``: those that nothing explains yet.
    ``outcome``: of the look; None if a wait for the messages was in vain, and consumers are ``starving``.
    """

    state: Consumption
    subscription: SubscriptionId
    entries: Sequence[Open]
    receivers: Sequence[Receiver]
    owed: Mapping[Position, str]
    left: frozenset[Position]
    outcome: DueReceived | None = None
    starving: Starving | None = None

    @property
    def counts(self) -> tuple[Count, ...]:
        """The counts that would block all consumers that starve."""
        return () if self.starving is None else self.starving.counts

    @property
    def keyed(self) -> Keyed:
        return self.state.keyed_of(self.subscription)

    @property
    def topic(self) -> TrackedTopic:
        return self.state.topics[self.subscription.topic]

    @property
    def has_dispatched(self) -> bool:
        """Whether the look received anything."""
        return self.outcome is not None and any(read.messages for read in self.outcome.consumers)

    @property
    def is_waiting(self) -> bool:
        """Whether the broker waits for a new entry."""
        return self.outcome is not None and self.outcome.is_waiting

    @property
    def in_replay(self) -> int:
        """How many messages are in the replay queue."""
        return self.outcome.in_replay if self.outcome is not None else 0

    @property
    def open(self) -> dict[Position, str]:
        """The entries that nothing explains yet, in order, and their consumers."""
        return {at: name for at, name in self.owed.items() if at in self.left}

    def without(self, part: frozenset[Position] | None) -> Undispatched:
        """The same if a part of the entries is explained; None: all of them."""
        return replace(self, left=frozenset() if part is None else self.left - part)


@dataclass(frozen=True, slots=True)
class StarvingAlone:
    """The only consumer of a subscription receives nothing, after all others were disconnected."""

    subscription: SubscriptionId


@dataclass(frozen=True, slots=True)
class WronglyDraining:
    """The stats show a wrong number of pending entries of a draining hash. ``state``: after all that a look
    received."""

    state: Consumption
    subscription: SubscriptionId
    mismatch: Mismatch
    outcome: DueReceived


@dataclass(frozen=True, slots=True)
class Uncleared:
    """The stats count fewer cleared hashes of a consumer than were cleared. ``gone``: those that no longer drain there.
    ``has_returned``: those of them that it has again, with pending messages. ``missing``: how many are not counted.
    """

    subscription: SubscriptionId
    name: str
    because: str
    gone: frozenset[int]
    has_returned: frozenset[int]
    missing: int

    def without(self, hashes: frozenset[int]) -> Uncleared:
        """The same if it is explained why these are not counted."""
        return replace(self, gone=self.gone - hashes, missing=self.missing - len(hashes))
