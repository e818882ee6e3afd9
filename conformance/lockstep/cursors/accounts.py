"""What a broker says of a subscription, and what follows from it: whether it can have more for a consumer.

Nobody waits for silence here. The broker has nothing more when all entries that its cursor holds to be unacknowledged
are with consumers that are there. Where that cannot be known from outside (Key_Shared goes by hashes and holds back,
pulsar-client does not say what is in its queue), it has nothing more when its own counts stand still for a while and
all that it says to have sent has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from conformance.clients.admin.backlog import not_delivered, unacknowledged
from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import ConsumerStats, CursorStats, InternalStats, SubscriptionStats
from conformance.lockstep.cursors.consumers import IN_ORDER, Member, WireMember
from conformance.wait import Deadline, wait_until
from model.events import Range
from model.log import Position
from model.vocabulary import Withheld

STANDSTILL_S: Final = 0.05
"""The broker has finished when its counts have not changed for this long; it reads and sends within milliseconds."""
HELD_UP_S: Final = 2.0
"""How long the rest of a chunked message may take, of which a dispatcher may not know whom to send it to."""
HELD_UP_STILL_S: Final = 0.5
"""The same, where it did not come before."""
MISCOUNTED_S: Final = 2.0
"""How long to wait, if no count changes, for messages that the broker counts as unacknowledged at a consumer. If they
do not arrive by then, it miscounts, which is for the model to judge."""
PAUSE_S: Final = 0.003
"""How long to leave a broker alone between two looks at it; a look takes as long."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a broker says of one subscription, in two answers, the cursor's first."""

    internal: InternalStats
    cursor: CursorStats
    subscription: SubscriptionStats
    stood_s: float = 0.0
    """How long it has said the same already."""

    @property
    def mark_delete(self) -> Position:
        """The cursor's."""
        return Position.parse(self.cursor.mark_delete_position)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The cursor's, in the model's words."""
        return tuple(Range(one.after, one.last) for one in self.cursor.acknowledged_ranges)

    @property
    def is_waiting(self) -> bool:
        """Whether the broker has read all entries for the subscription, and waits for a new one."""
        last = Position.parse(self.internal.last_confirmed_entry)
        return self.cursor.waiting_read_op and Position.parse(self.cursor.read_position) > last

    @property
    def names(self) -> frozenset[str]:
        """The consumers that are connected."""
        return frozenset(consumer.consumer_name for consumer in self.subscription.consumers)

    @property
    def active(self) -> str | None:
        """The one consumer that gets messages, where there is such a thing and it is connected."""
        name = self.subscription.active_consumer_name
        return name if name in self.names else None

    @property
    def standing(self) -> object:
        """What does not change while nothing happens."""
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
        """Whether the broker sends a consumer nothing because too much is unacknowledged there."""
        found = account_of(member, self.subscription.consumers)
        return found is not None and found.blocked_on_unacked_messages

    @property
    def withheld(self) -> Withheld | None:
        """That the broker reads nothing new for the subscription because it has too many unacknowledged messages."""
        if not self.subscription.blocked_on_unacked_messages:
            return None
        return Withheld(self.subscription.unacked_messages, read_pending=self.cursor.waiting_read_op)

    def has_all_arrived(self, members: Iterable[Member]) -> bool:
        """Whether all has arrived that the broker says to have sent to the wire client's consumers."""
        found = ((member, account_of(member, self.subscription.consumers)) for member in members)
        return all(
            self._has_arrived(member, account)
            for member, account in found
            if isinstance(member, WireMember) and account is not None
        )

    def _has_arrived(self, member: WireMember, account: ConsumerStats) -> bool:
        """Whether a consumer has all that it was sent; permits that it gave while it is blocked are not counted yet."""
        if not account.blocked_on_unacked_messages:
            return member.arrived_all(account.available_permits)
        is_counted = account.unacked_messages <= member.unacknowledged_count  # counted before it is sent
        return (is_counted or self.stood_s >= MISCOUNTED_S) and member.sent_count >= account.message_out_counter


def account_of(member: Member, consumers: Iterable[ConsumerStats]) -> ConsumerStats | None:
    """What the broker says of a consumer, which it knows by its name, and, if others have that, by the port it calls
    from.

    None where it is not connected.
    """
    for one in consumers:
        if one.consumer_name == member.name and (member.port is None or port_of(one) in (None, member.port)):
            return one
    return None


def port_of(consumer: ConsumerStats) -> int | None:
    """The port that a consumer calls from, as the broker sees it; None where it does not say."""
    port = (consumer.address or "").rpartition(":")[2]
    return int(port) if port else None


@dataclass(slots=True)
class Watch:
    """Looks at a subscription again and again while somebody waits for messages."""

    admin: Admin
    topic: str
    subscription: str
    members: Sequence[Member]
    begun: Callable[[Iterable[Position]], frozenset[Position]] = lambda _: frozenset()
    """Which of some entries are chunks of messages that were delivered in part."""
    stuck: set[Position] = field(default_factory=set)
    """The chunks that did not come; of all who look at the subscription."""
    looks: int = 0
    _standing: object = None
    _changed_s: float = field(default_factory=time.monotonic)
    _since_s: float = field(default_factory=time.monotonic)
    _held_up: frozenset[Position] = frozenset()
    _held_up_since_s: float = field(default_factory=time.monotonic)

    def look(self) -> Account | None:
        """Look once, and take in what has arrived meanwhile; None where there is no such subscription."""
        self.looks += 1
        internal = self.admin.internal_stats(self.topic)
        subscription = self.admin.stats(self.topic).subscriptions.get(self.subscription)
        cursor = internal.cursors.get(self.subscription)
        for member in self.members:
            if isinstance(member, WireMember):
                member.pump()
        if cursor is None or subscription is None:
            return None
        now_s = time.monotonic()
        account = Account(internal, cursor, subscription)
        if account.standing != self._standing:
            self._standing, self._changed_s, self._since_s = account.standing, now_s, now_s
        account = replace(account, stood_s=now_s - self._changed_s)
        if not account.has_all_arrived(self.members):
            self._since_s = now_s
        if (held_up := self._chunks_left(account)) != self._held_up:
            self._held_up, self._held_up_since_s = held_up, now_s
        return account

    @property
    def stands_still(self) -> bool:
        """Whether nothing has changed for a while, of all that was looked at, and all has arrived."""
        return time.monotonic() - self._since_s >= STANDSTILL_S

    @property
    def is_held_up(self) -> bool:
        """Whether the rest of a chunked message has not come for so long that nobody waits for it any more."""
        waits_s = HELD_UP_STILL_S if self._held_up & self.stuck else HELD_UP_S
        is_held_up = bool(self._held_up) and time.monotonic() - self._held_up_since_s >= waits_s
        if is_held_up:
            self.stuck |= self._held_up
        return is_held_up

    def _chunks_left(self, account: Account) -> frozenset[Position]:
        """The chunks that nobody has, of messages of which somebody has, or had, others, on a Shared subscription."""
        is_shared = any(member.kind == "Shared" for member in self.members)
        return self.begun(self._left(account)) if is_shared else frozenset()

    def has_nothing_for(self, member: Member) -> bool:
        """Look once: whether the broker can have nothing more for this consumer than what has arrived."""
        account = self.look()
        if account is None:
            return True
        left = self._left(account)
        if not left:
            return True
        if member.kind in IN_ORDER and account.active not in (None, member.name):
            return account.has_all_arrived([member])
        if isinstance(member, WireMember):
            member.is_blocked = account.is_blocked(member) and self.stands_still
            member.withheld = account.withheld if self.stands_still else None
            if member.is_blocked:
                return True
        if account.withheld is not None:
            return self.stands_still
        return not self._is_exact and self.stands_still

    def missing(self) -> str:
        """What has not come, for a report."""
        account = self.look()
        left = self._left(account) if account is not None else frozenset[Position]()
        return not_delivered(left)

    @property
    def _is_exact(self) -> bool:
        """Whether it is known from outside who has what, and who must get what nobody has."""
        if len(self.members) == 1:
            (only,) = self.members  # a consumer with claimed hash ranges gets no other keys, even alone
            return not (isinstance(only, WireMember) and only.claims_hashes)
        return all(member.client == "wire" and member.kind != "Key_Shared" for member in self.members)

    def _left(self, account: Account) -> frozenset[Position]:
        """The entries that are not acknowledged and that nobody has."""
        held = set[Position]().union(*(member.held for member in self.members))
        return unacknowledged(account.internal, self.subscription) - held

    def await_quiet(self) -> None:
        """Wait until the members' clients hold nothing back: acknowledgments, and what failed."""
        quiet_at_s = max((member.quiet_at_s for member in self.members), default=0.0)
        time.sleep(max(0.0, quiet_at_s - time.monotonic()))

    def settle(self, deadline: Deadline) -> Account | None:
        """Look until all has arrived that the broker can send, and two looks are equal; None after the deadline.

        KeyError where there is no such subscription.
        """
        before: object = None
        self.await_quiet()

        def settled() -> Account | None:
            nonlocal before
            account = self.look()
            if account is None:
                raise KeyError(self.subscription)
            if not self._is_settled(account):
                before = None
                return None
            is_same, before = account.standing == before, account.standing
            return account if is_same else None

        account = wait_until(lambda: settled() or self.is_held_up, deadline)
        return account if isinstance(account, Account) else None

    def _is_settled(self, account: Account) -> bool:
        if not account.has_all_arrived(self.members):
            return False
        open_ended = [one for one in self.members if isinstance(one, WireMember) and one.permits_left > 0]
        receiving = [
            one
            for one in open_ended
            if (one.kind not in IN_ORDER or account.active in (None, one.name)) and not account.is_blocked(one)
        ]
        if not receiving or not self._left(account):
            return True
        return (not self._is_exact or account.withheld is not None) and self.stands_still
