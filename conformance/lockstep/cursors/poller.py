"""Polls the stats of a subscription, and concludes whether the broker can dispatch more to a consumer.

It does not wait for silence. The broker has nothing to dispatch once all unacknowledged entries of the cursor are
pending at connected consumers. That is unknown for Key_Shared, which blocks hashes, and for pulsar-client, whose queue
is hidden. Then the broker has nothing to dispatch once its counts stay the same for a while and all messages that it
counts as sent have arrived. It may dispatch delayed messages later, when their time has come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from conformance.clients.admin.backlog import not_delivered, unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import ConsumerStats, CursorStats, InternalStats, SubscriptionStats
from conformance.lockstep.cursors.consumers import Member, WireMember
from conformance.wait import Deadline, wait_until
from model.events import Range
from model.log import Position
from model.vocabulary import IN_ORDER, Withheld

QUIET_S: Final = 0.05
"""How long the counts of a broker that has finished stay the same; it reads and sends within milliseconds."""
CHUNKS_TIMEOUT_S: Final = 2.0
"""How long the rest of a chunked message may take: a Shared dispatcher may not find the consumer for it."""
CHUNKS_AGAIN_TIMEOUT_S: Final = 0.5
"""The same for chunks that were not dispatched before."""
MISCOUNTED_S: Final = 2.0
"""How long unchanged counts may include messages that have not arrived. After that the broker miscounts, and the model
judges it."""
COUNTED_S: Final = 0.2
"""How long a broker may count messages that an administrator skipped. It may lower its counts after its answer."""
PAUSE_S: Final = 0.003
"""The pause between two polls; a poll takes as long."""


@dataclass(frozen=True, slots=True)
class SubscriptionView:
    """The internal stats and the stats of one subscription, requested in this order."""

    internal: InternalStats
    cursor: CursorStats
    subscription: SubscriptionStats
    unchanged_s: float = 0.0
    """How long the counts have been the same."""

    @property
    def mark_delete(self) -> Position:
        return Position.parse(self.cursor.mark_delete_position)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(Range(one.after, one.last) for one in self.cursor.acknowledged_ranges)

    @property
    def is_waiting(self) -> bool:
        """Whether the subscription has read all entries and waits for a new one."""
        last = Position.parse(self.internal.last_confirmed_entry)
        return self.cursor.waiting_read_op and Position.parse(self.cursor.read_position) > last

    @property
    def names(self) -> frozenset[str]:
        return frozenset(consumer.consumer_name for consumer in self.subscription.consumers)

    @property
    def active(self) -> str | None:
        """The active consumer of an Exclusive or Failover subscription, if it is connected."""
        name = self.subscription.active_consumer_name
        return name if name in self.names else None

    @property
    def counts(self) -> object:
        """The stats that change with every dispatch and ack."""
        consumers = sorted(
            (one.consumer_name, one.available_permits, one.unacked_messages, one.message_out_counter)
            for one in self.subscription.consumers
        )
        cursor, subscription = self.cursor, self.subscription
        return (
            self.internal.last_confirmed_entry,
            (cursor.mark_delete_position, cursor.individually_deleted_messages, cursor.read_position),
            (subscription.backlog, subscription.unacked_messages, subscription.in_replay),
            subscription.active_consumer_name,
            consumers,
        )

    def is_blocked(self, member: Member) -> bool:
        """Whether the broker blocks a consumer because of its unacknowledged messages."""
        found = stats_of(member, self.subscription.consumers)
        return found is not None and found.blocked_on_unacked_messages

    def counts_skipped(self, member: WireMember) -> bool:
        """Whether a consumer's count has more than what it did not acknowledge of the unacknowledged entries."""
        found = stats_of(member, self.subscription.consumers)
        left = unacknowledged(self.internal, member.subscription)
        return found is not None and found.unacked_messages > member.unacknowledged_of(left)

    @property
    def withheld(self) -> Withheld | None:
        """Whether the broker stops reading because the subscription has too many unacknowledged messages."""
        if not self.subscription.blocked_on_unacked_messages:
            return None
        return Withheld(self.subscription.unacked_messages, read_pending=self.cursor.waiting_read_op)

    def has_all_arrived(self, members: Iterable[Member]) -> bool:
        """Whether the wire client's consumers have all messages that the broker counts as sent."""
        found = ((member, stats_of(member, self.subscription.consumers)) for member in members)
        return all(
            self._has_arrived(member, stats)
            for member, stats in found
            if isinstance(member, WireMember) and stats is not None
        )

    def _has_arrived(self, member: WireMember, stats: ConsumerStats) -> bool:
        """Whether a consumer has all messages sent to it; the broker ignores permits while it blocks the consumer."""
        if not stats.blocked_on_unacked_messages:
            return member.arrived_all(stats.available_permits)
        is_counted = stats.unacked_messages <= member.unacknowledged_count  # counted before it is sent
        return (is_counted or self.unchanged_s >= MISCOUNTED_S) and member.sent_count >= stats.message_out_counter

    def unacknowledged_at(self, member: Member) -> int:
        found = stats_of(member, self.subscription.consumers)
        return 0 if found is None else found.unacked_messages


def stats_of(member: Member, consumers: Iterable[ConsumerStats]) -> ConsumerStats | None:
    """The stats of a consumer, found by its name, and by its port if others have that name; None if disconnected."""
    for one in consumers:
        if one.consumer_name == member.name and (member.port is None or port_of(one) in (None, member.port)):
            return one
    return None


def port_of(consumer: ConsumerStats) -> int | None:
    """The client port of a consumer according to the broker's stats; None if not shown."""
    port = (consumer.address or "").rpartition(":")[2]
    return int(port) if port else None


def none_of(_: Iterable[Position]) -> frozenset[Position]:
    return frozenset()


@dataclass(slots=True)
class Poller:
    """Polls a subscription while a caller waits for messages."""

    admin: Admin
    topic: str
    subscription: str
    members: Sequence[Member]
    begun: Callable[[Iterable[Position]], frozenset[Position]] = none_of
    """Filters entries for chunks of partially delivered messages."""
    not_due: Callable[[Iterable[Position]], frozenset[Position]] = none_of
    """Filters entries for delayed messages whose time may not have come; by default all are waited for."""
    undelivered: set[Position] = field(default_factory=set)
    """The chunks that were not dispatched in time; shared by all pollers of the subscription."""
    slow_s: float = 0.0
    """How long a failpoint delays what the broker does, so that its counts stay the same meanwhile."""
    polls: int = 0
    _counts: object = None
    _polled_s: float = 0.0
    _changed_s: float = field(default_factory=time.monotonic)
    _since_s: float = field(default_factory=time.monotonic)
    _missing_chunks: frozenset[Position] = frozenset()
    _missing_since_s: float = field(default_factory=time.monotonic)

    def poll(self) -> SubscriptionView | None:
        """Poll once, then read what has arrived; None if there is no such subscription."""
        self.polls += 1
        internal = self.admin.internal_stats(self.topic)
        subscription = self.admin.stats(self.topic).subscriptions.get(self.subscription)
        cursor = internal.cursors.get(self.subscription)
        for member in self.members:
            if isinstance(member, WireMember):
                member.pump()
        if cursor is None or subscription is None:
            return None
        now_s = self._polled_s = time.monotonic()
        view = SubscriptionView(internal, cursor, subscription)
        if view.counts != self._counts:
            self._counts, self._changed_s, self._since_s = view.counts, now_s, now_s
        view = replace(view, unchanged_s=now_s - self._changed_s)
        if not view.has_all_arrived(self.members):
            self._since_s = now_s
        if (missing_chunks := self._chunks_left(view)) != self._missing_chunks:
            self._missing_chunks, self._missing_since_s = missing_chunks, now_s
        return view

    @property
    def is_quiet(self) -> bool:
        """Whether at the last poll the counts had been the same for a while, and all messages had arrived."""
        return self._polled_s - self._since_s >= QUIET_S + self.slow_s

    @property
    def misses_chunks(self) -> bool:
        """Whether the rest of a chunked message is overdue."""
        waits_s = CHUNKS_AGAIN_TIMEOUT_S if self._missing_chunks & self.undelivered else CHUNKS_TIMEOUT_S
        misses_chunks = bool(self._missing_chunks) and time.monotonic() - self._missing_since_s >= waits_s
        if misses_chunks:
            self.undelivered |= self._missing_chunks
        return misses_chunks

    def _chunks_left(self, view: SubscriptionView) -> frozenset[Position]:
        """On a Shared subscription, the chunks that no consumer has, of partially dispatched messages."""
        is_shared = any(member.kind == "Shared" for member in self.members)
        return self.begun(self._left(view)) if is_shared else frozenset()

    def has_nothing_for(self, member: Member) -> bool:
        """Poll once: whether the broker can dispatch nothing more to this consumer."""
        view = self.poll()
        if view is None:
            return True
        left = self._left(view)
        if not left:
            return True
        if member.kind in IN_ORDER and view.active not in (None, member.name):
            return view.has_all_arrived([member])
        if isinstance(member, WireMember):
            member.is_blocked = view.is_blocked(member) and self.is_quiet
            member.withheld = view.withheld if self.is_quiet else None
            if member.is_blocked:
                return True
        if view.withheld is not None:
            return self.is_quiet
        return not self._is_exact and self.is_quiet

    def missing(self) -> str:
        """The missing messages, for a report."""
        view = self.poll()
        left = self._left(view) if view is not None else frozenset[Position]()
        return not_delivered(left)

    @property
    def _is_exact(self) -> bool:
        """Whether it is known where each entry is pending, and which consumer must get the others."""
        if len(self.members) == 1:
            (only,) = self.members  # a consumer with claimed hash ranges gets no other keys, even alone
            return not (isinstance(only, WireMember) and only.claims_hashes)
        return all(member.client == "wire" and member.kind != "Key_Shared" for member in self.members)

    def _left(self, view: SubscriptionView) -> frozenset[Position]:
        """The unacknowledged entries that are pending at no consumer, and due if consumers share the subscription."""
        pending = set[Position]().union(*(member.pending for member in self.members))
        left = unacknowledged(view.internal, self.subscription) - pending
        return left - self.not_due(left) if any(member.kind not in IN_ORDER for member in self.members) else left

    def read_and_left(self, view: SubscriptionView) -> int:
        """The number of unacknowledged entries that the broker has read, that are due and pending at no consumer.

        A dispatcher keeps these in its replay queue, whose size is not in the stats of all releases.
        """
        read_to = Position.parse(view.cursor.read_position)
        held = {position for member in self.members for position in member.pending}
        left = {at for at in unacknowledged(view.internal, self.subscription) - held if at < read_to}
        return len(left - self.not_due(left))

    def await_uncounted(self) -> None:
        """Wait until the counts of the wire client's consumers have no skipped messages. Releases that deviate keep
        them until the consumer acknowledges them, too."""
        shared = [one for one in self.members if isinstance(one, WireMember) and one.kind not in IN_ORDER]

        def is_uncounted() -> bool:
            view = self.poll()
            return view is None or not any(view.counts_skipped(member) for member in shared)

        if any(member.pending for member in shared):
            wait_until(is_uncounted, COUNTED_S)

    def await_quiet(self) -> None:
        """Wait until the members' clients have sent grouped acks and nacks."""
        quiet_at_s = max((member.quiet_at_s for member in self.members), default=0.0)
        time.sleep(max(0.0, quiet_at_s - time.monotonic()))

    def settle(self, deadline: Deadline) -> SubscriptionView | None:
        """Poll until the broker can dispatch nothing more and two polls agree; None after the deadline.

        Raises KeyError if there is no such subscription.
        """
        before: object = None
        self.await_quiet()

        def settled() -> SubscriptionView | None:
            nonlocal before
            view = self.poll()
            if view is None:
                raise KeyError(self.subscription)
            if not self._is_settled(view):
                before = None
                return None
            is_same, before = view.counts == before, view.counts
            return view if is_same else None

        view = wait_until(lambda: settled() or self.misses_chunks, deadline)
        return view if isinstance(view, SubscriptionView) else None

    def _is_settled(self, view: SubscriptionView) -> bool:
        if not view.has_all_arrived(self.members):
            return False
        open_ended = [one for one in self.members if isinstance(one, WireMember) and one.permits_left > 0]
        receiving = [
            one
            for one in open_ended
            if (one.kind not in IN_ORDER or view.active in (None, one.name)) and not view.is_blocked(one)
        ]
        if not receiving or not self._left(view):
            return True
        return (not self._is_exact or view.withheld is not None) and self.is_quiet
