"""The reference of dispatch: the pending messages of each consumer, and redeliveries (ACK-12).

Entries are sent one by one, each to any eligible consumer. Key_Shared subscriptions have their own reference,
:mod:`model.key_shared.dispatcher`. Acks are in :mod:`model.cursors.reference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from model.cursors.acked import Acked
from model.cursors.log import TopicLog
from model.cursors.variants import DOCUMENT, CursorVariant
from model.log import EARLIEST, Position
from model.rules.catalogue import carries
from model.vocabulary import IN_ORDER, SubscriptionType


class PendingAcks(Struct, frozen=True, gc=False):
    """A consumer and its pending entries: sent and unacknowledged."""

    name: str
    pending: frozenset[Position] = frozenset()


class Dispatch(Struct, frozen=True, kw_only=True, cache_hash=True, gc=False):
    """The consumers of a subscription, in the order in which they joined.

    ``active``: the active consumer of a Failover subscription. ``redelivered``: how often the redelivery of an entry
    was requested. ``forgotten``: entries that a variant sends to no consumer any more. ``not_due``: delayed messages
    whose time has not come; they are sent at once on Exclusive and Failover subscriptions.
    """

    variant: CursorVariant = DOCUMENT
    kind: SubscriptionType = "Shared"
    consumers: tuple[PendingAcks, ...] = ()
    active: str = ""
    redelivered: tuple[tuple[Position, int], ...] = ()
    forgotten: frozenset[Position] = frozenset()
    not_due: frozenset[Position] = frozenset()

    def consumer(self, name: str) -> PendingAcks:
        return next(consumer for consumer in self.consumers if consumer.name == name)

    @property
    def pending(self) -> frozenset[Position]:
        """The entries that are pending at any consumer."""
        return frozenset[Position]().union(*(consumer.pending for consumer in self.consumers))

    @property
    def receivers(self) -> tuple[PendingAcks, ...]:
        """The eligible consumers."""
        if self.kind == "Failover":
            return tuple(consumer for consumer in self.consumers if consumer.name == self.active)
        return self.consumers

    def redeliveries(self, position: Position) -> int:
        """The redelivery count of an entry's messages."""
        return 0 if self.variant.nack_uncounted else dict(self.redelivered).get(position, 0)


def join(dispatch: Dispatch, name: str) -> Dispatch:
    return replace(dispatch, consumers=(*dispatch.consumers, PendingAcks(name)))


@carries("ACK-12")
def leave(dispatch: Dispatch, name: str) -> Dispatch:
    """A consumer leaves. Its pending messages go to the others. The counts end with the last consumer."""
    leaver = dispatch.consumer(name)
    others = tuple(consumer for consumer in dispatch.consumers if consumer.name != name)
    return replace(
        dispatch,
        consumers=others,
        active="" if dispatch.active == name else dispatch.active,
        redelivered=dispatch.redelivered if others else (),
        forgotten=dispatch.forgotten | leaver.pending if dispatch.variant.left_forgotten else dispatch.forgotten,
    )


def elect(dispatch: Dispatch, name: str) -> Dispatch:
    """Another consumer of a Failover subscription becomes active, and all pending messages are sent again."""
    if name == dispatch.active:
        return dispatch
    return replace(dispatch, active=name, consumers=tuple(PendingAcks(one.name) for one in dispatch.consumers))


@carries("ACK-12")
def next_entry(dispatch: Dispatch, state: Acked, log: TopicLog, name: str) -> Position | None:
    """The first entry that is neither acknowledged nor pending."""
    pending = dispatch.consumer(name).pending if dispatch.variant.delivered_to_two else dispatch.pending
    if dispatch.variant.acknowledged_delivered:
        last = state.mark_delete
        if (
            last != EARLIEST
            and log.at_or_before(Position(last.ledger, last.entry - 1)) != EARLIEST
            and last not in pending
        ):
            return last
    return next(_free(dispatch, state, log, pending), None)


def _free(dispatch: Dispatch, state: Acked, log: TopicLog, pending: frozenset[Position]) -> Iterator[Position]:
    withheld = dispatch.forgotten if dispatch.kind in IN_ORDER else dispatch.forgotten | dispatch.not_due
    return (one for one in state.unacknowledged(log) if one not in pending and one not in withheld)


def send(dispatch: Dispatch, name: str, position: Position) -> Dispatch:
    return _with_pending(dispatch, name, dispatch.consumer(name).pending | {position})


def released(dispatch: Dispatch, state: Acked) -> Dispatch:
    """An acknowledged entry is pending at no consumer."""
    consumers = tuple(
        PendingAcks(one.name, frozenset(position for position in one.pending if not state.has(position)))
        for one in dispatch.consumers
    )
    return replace(dispatch, consumers=consumers)


@carries("ACK-13")
def redeliver(dispatch: Dispatch, name: str, positions: Iterable[Position] | None) -> Dispatch:
    """A consumer requests redelivery of entries (None: of all its pending ones), which are then no longer pending.

    Exclusive and Failover subscriptions are sent in order, so all pending entries are sent again.
    """
    consumer = dispatch.consumer(name)
    if dispatch.variant.nack_ignored or consumer not in dispatch.receivers:
        return dispatch
    is_about_all = positions is None or dispatch.variant.nack_redelivers_all or dispatch.kind in IN_ORDER
    again = consumer.pending if is_about_all else consumer.pending.intersection(positions or ())
    counts = dict(dispatch.redelivered)
    counts.update({position: counts.get(position, 0) + 1 for position in again})
    return _with_pending(replace(dispatch, redelivered=tuple(sorted(counts.items()))), name, consumer.pending - again)


def _with_pending(dispatch: Dispatch, name: str, pending: frozenset[Position]) -> Dispatch:
    consumers = (PendingAcks(name, pending) if one.name == name else one for one in dispatch.consumers)
    return replace(dispatch, consumers=tuple(consumers))
