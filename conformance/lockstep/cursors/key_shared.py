"""Carries out the operations of document 004 on a real broker: permits, and gathering due messages.

Gathering waits until all due messages have arrived and the broker's stats agree with them. It never waits for silence.
The model judges what is missing or wrong at the deadline. For a release that does not show the ranges of hashes, and
for the classic implementation, it waits until the counts stop changing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from msgspec.structs import replace

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.types import ConsumerStats
from conformance.lockstep.cursors.consumers import Member, WireMember
from conformance.lockstep.cursors.members import Members
from conformance.lockstep.cursors.poller import PAUSE_S, Poller, SubscriptionView, stats_of
from conformance.lockstep.positions import Positions
from conformance.lockstep.world import World
from conformance.wait import Patience
from model.events import AnyOutcome, ConsumerRead, Done, DrainingHash, DueReceived, Skipped, Starved
from model.key_shared.hashes import AUTO_SPLIT_HASHES, CLASSIC_HASHES, STICKY_HASHES
from model.key_shared.liveness import Open, Receiver, due
from model.key_shared.stats import mismatches, wrong_sums
from model.log import Position
from model.subscription_operations import KeyOperation, Permit, ReceiveDue
from model.vocabulary import HashRange

GATHER_TIMEOUT_S: Final = 2.5
"""How long due messages may take: 250 times the unblocking interval. The maximum of eighty thousand measurements on a
busy machine was 1.8 s."""
LOOKS: Final = 100
"""How often the broker must have answered meanwhile, so that a slow broker gets more time."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What gathering waits for: the due entries, and the hashes that the stats do not show as they are."""

    entries: frozenset[Position] = frozenset()
    hashes: frozenset[int] = frozenset()


@dataclass(slots=True)
class GivenUp:
    """What the broker did not do before a deadline, so that nothing waits for it again.

    An entry of a miscounted hash is still waited for.
    """

    entries: set[Position] = field(default_factory=set)
    """The due entries that it did not dispatch."""
    hashes: set[int] = field(default_factory=set)
    """The hashes that it miscounted."""

    def add(self, missing: Missing) -> None:
        """Give up what is missing."""
        self.entries |= missing.entries
        self.hashes |= missing.hashes

    def without(self, missing: Missing, *, is_quiet: bool) -> Missing | None:
        """What of it to wait for; None if there is nothing, and the broker may not yet dispatch a given-up entry."""
        self.entries &= missing.entries
        entries, hashes = missing.entries - self.entries, missing.hashes - self.hashes
        is_over = is_quiet or not self.entries
        return None if is_over and not entries and not hashes else Missing(entries, hashes)


class KeyShares:
    """The part of document 004 in one example."""

    def __init__(self, world: World, topics: Mapping[str, str], members: Members, positions: Positions) -> None:
        self._world = world
        self._topics = topics
        self._members = members
        self._positions = positions
        self._administered: set[tuple[str, str]] = set()
        self._given_up: defaultdict[tuple[str, str], GivenUp] = defaultdict(GivenUp)
        """By subscription."""

    def administered(self, topic: str, subscription: str) -> None:
        """Register a skip or expiry: its effect on pending messages depends on the release."""
        self._administered.add((topic, subscription))

    def perform(self, operation: KeyOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        match operation:
            case Permit(consumer, count):
                return self._permit(consumer, count)
            case ReceiveDue(topic, subscription):
                real = self._topics.get(topic)
                return Skipped("there is no such topic") if real is None else self._gather(real, subscription)
            case _:
                assert_never(operation)

    def _permit(self, consumer: str, count: int) -> AnyOutcome:
        member = self._members.get(consumer)
        if not isinstance(member, WireMember):
            return Skipped("there is no such consumer of the wire client")
        if not member.is_open:
            return Skipped("the consumer was closed from the other side")
        member.permit(count)
        return Done()

    def _gather(self, topic: str, subscription: str) -> AnyOutcome:
        members = self._members.on(topic, subscription)
        poller = self._members.poller(topic, subscription)
        for member in members.values():
            if isinstance(member, WireMember) and member.is_open:
                member.await_heard()
        differing = self._world.dispatchers.drains_on(topic)
        drains = self._world.key_shared.has_draining_hashes if differing is None else differing
        began, patience = time.monotonic(), Patience(GATHER_TIMEOUT_S + self._world.failed_reads_s)
        polls = came = 0
        while True:
            view, polls = poller.poll(), polls + 1
            if view is None:
                return Skipped("there is no such subscription")
            gathered = self._outcome(members, poller, view, time.monotonic() - began)
            missing = self._missing(gathered, members, poller, view, drains=drains)
            if missing is None:
                break
            before, came = came, sum(len(one.messages) for one in gathered.consumers)
            if came != before:
                patience.progressed()
            if patience.passed and polls >= LOOKS:
                self._given_up[topic, subscription].add(missing)
                break
            time.sleep(PAUSE_S)
        if not view.has_all_arrived(members.values()):
            return Starved(f"of what the broker says to have sent, not all arrived: {_not_arrived(members, view)}")
        return replace(self._outcome(members, poller, view, time.monotonic() - began, takes=True), drains=differing)

    def _missing(
        self,
        gathered: DueReceived,
        members: Mapping[str, Member],
        poller: Poller,
        view: SubscriptionView,
        *,
        drains: bool,
    ) -> Missing | None:
        """None if all due messages have arrived and the stats are right. Nobody knows the stats after a skip or an
        expiry.
        """
        if not view.has_all_arrived(members.values()):
            return Missing()
        receivers = [
            Receiver(one.consumer, one.permits, one.ranges) for one in gathered.consumers if one.ranges is not None
        ]
        is_known = len(receivers) == len(members)
        if is_known and not drains:
            return self._missing_of_classic(view, receivers, members, poller)
        if not is_known:
            return None if poller.is_quiet else Missing()
        given_up = self._given_up[poller.topic, poller.subscription]
        wire = [member for member in members.values() if isinstance(member, WireMember)]
        claims = any(member.claims_hashes for member in wire)
        within = STICKY_HASHES if claims else AUTO_SPLIT_HASHES
        entries = list(self._open(poller, view, members, within))
        keeps_keys = all(member.keeps_keys for member in wire)
        owed = due(entries, receivers, drains=keeps_keys, look_ahead=self._world.traits.look_ahead)
        if view.withheld is not None:
            if not poller.is_quiet:
                return Missing()
            owed = {}
        late, is_quiet = frozenset(owed), poller.is_quiet
        if (poller.topic, poller.subscription) in self._administered:
            return given_up.without(Missing(late), is_quiet=is_quiet) or (None if is_quiet else Missing())
        if not keeps_keys or claims:
            return given_up.without(Missing(late), is_quiet=is_quiet)
        if not owed and not _is_read(view, entries, receivers) and not poller.is_quiet:
            return Missing()
        # The stats may still show a hash that moved back to its consumer, so ignore it.
        held = {entry.hashed: entry.holder for entry in entries if entry.holder is not None}
        wrong = frozenset(one.hashed for one in mismatches(gathered, entries, receivers, held))
        missing = given_up.without(Missing(late, wrong), is_quiet=is_quiet)
        return Missing() if missing is None and wrong_sums(gathered) is not None else missing

    def _missing_of_classic(
        self,
        view: SubscriptionView,
        receivers: Sequence[Receiver],
        members: Mapping[str, Member],
        poller: Poller,
    ) -> Missing | None:
        """As :meth:`_missing` for the classic implementation: with recently joined consumers, only one entry is due."""
        claims = any(isinstance(member, WireMember) and member.claims_hashes for member in members.values())
        entries = list(self._open(poller, view, members, STICKY_HASHES if claims else CLASSIC_HASHES))
        if view.subscription.recently_joined:
            entries = entries[:1]
        keyed = [entry for entry in entries if self._positions.has_key(poller.topic, entry.position)]
        is_due = view.withheld is None and bool(due(keyed, receivers, drains=False))
        return None if poller.is_quiet and not is_due else Missing()

    def _open(
        self, poller: Poller, view: SubscriptionView, members: Mapping[str, Member], within: HashRange
    ) -> Iterator[Open]:
        holders = {position: name for name, member in members.items() for position in member.pending}
        left = sorted(unacknowledged(view.internal, poller.subscription))
        not_due = poller.not_due(left)
        for position in left:
            hashed = self._positions.hash_of(poller.topic, position, within)
            if hashed is not None:
                yield Open(position, hashed, holders.get(position), position in not_due)

    def _outcome(
        self,
        members: Mapping[str, Member],
        poller: Poller,
        view: SubscriptionView,
        waited_s: float,
        *,
        takes: bool = False,
    ) -> DueReceived:
        consumers = []
        for name, member in members.items():
            found = stats_of(member, view.subscription.consumers)
            if isinstance(member, WireMember) and found is not None:
                consumers.append(_consumer(name, member, found, takes=takes))
        subscription = view.subscription
        return DueReceived(
            tuple(consumers),
            draining=subscription.draining_hashes_count,
            unacknowledged=subscription.draining_hashes_unacked_messages,
            cleared=subscription.draining_hashes_cleared_total,
            waited_ms=round(waited_s * 1000, 3),
            is_waiting=view.is_waiting,
            in_replay=poller.read_and_left(view) if subscription.in_replay is None else subscription.in_replay,
            withheld=view.withheld,
        )


def _is_read(view: SubscriptionView, entries: Sequence[Open], receivers: Sequence[Receiver]) -> bool:
    """Whether the broker has read all blocked entries, which may take longer than dispatching the due ones."""
    can_read = any(receiver.permits > 0 for receiver in receivers)
    return view.is_waiting or not can_read or all(entry.holder is not None for entry in entries)


def _not_arrived(members: Mapping[str, Member], view: SubscriptionView) -> str:
    """The permits of each consumer, according to the broker and to the arrived messages."""
    return ", ".join(
        f"{name} has {member.permits_left} permits left, the broker counts {found.available_permits}"
        for name, member in members.items()
        if isinstance(member, WireMember)
        and (found := stats_of(member, view.subscription.consumers)) is not None
        and not member.arrived_all(found.available_permits)
    )


def _consumer(name: str, member: WireMember, found: ConsumerStats, *, takes: bool) -> ConsumerRead:
    is_shown = found.key_hash_ranges is not None or found.key_hash_ranges_in_words is not None
    return ConsumerRead(
        name,
        member.collect() if takes else (),
        permits=found.available_permits,
        unacknowledged=found.unacked_messages,
        ranges=tuple(sorted(HashRange(first, last) for first, last in found.hash_ranges)) if is_shown else None,
        draining=tuple(
            DrainingHash(one.hash, one.unacked_messages, one.blocked_attempts) for one in found.draining_hashes or ()
        ),
        cleared=found.draining_hashes_cleared_total,
    )
