"""Carries out the operations of document 004 on a real broker: permits, and gathering what a subscription sends.

Gathering waits for exactly what must come, and for the broker's account to say what follows from what came; for nothing
else, and never for silence. What does not come, or is not shown, within the deadline is for the model to judge. Where a
release does not say who has which hashes, or has the classic implementation, it waits until its counts do not change.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.types import ConsumerStats
from conformance.clients.outcomes import ServerRefused
from conformance.lockstep.cursors.accounts import PAUSE_S, Account, Watch, account_of
from conformance.lockstep.cursors.consumers import Member, WireMember
from conformance.lockstep.cursors.members import Members
from conformance.lockstep.positions import Whereabouts
from conformance.lockstep.world import World
from conformance.wait import Deadline
from model.events import AnyOutcome, ConsumerRead, Done, DrainingHash, DueReceived, Refused, Skipped, Starved
from model.key_shared.hashing import AUTO_SPLIT_HASHES, CLASSIC_HASHES, STICKY_HASHES
from model.key_shared.liveness import Open, Receiver, due
from model.key_shared.stats import mismatches, wrong_sums
from model.subscription_operations import KeyOperation, Permit, ReceiveDue
from model.vocabulary import HashRange

GATHER_TIMEOUT_S: Final = 2.5
"""How long what must come may take: 250 times the unblocking interval. It never took more than 1.8 s on a busy
machine, in eighty thousand times."""
LOOKS: Final = 100
"""How often the broker must have answered meanwhile: one that is slow in everything is given more time."""


class KeyShares:
    """The part of document 004 in one example."""

    def __init__(self, world: World, topics: Mapping[str, str], members: Members, whereabouts: Whereabouts) -> None:
        self._world = world
        self._topics = topics
        self._members = members
        self._whereabouts = whereabouts
        self._administered: set[tuple[str, str]] = set()
        self._miscounted: set[int] = set()

    def administered(self, topic: str, subscription: str) -> None:
        """Messages were acknowledged whoever had them: what brokers make of that is not known beforehand."""
        self._administered.add((topic, subscription))

    def perform(self, operation: KeyOperation) -> AnyOutcome:
        """Carry out one operation and say what was seen."""
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
        watch = self._members.watch(topic, subscription)
        for member in members.values():
            if isinstance(member, WireMember) and member.is_open:
                try:
                    member.await_heard()
                except ServerRefused as refused:
                    return Refused(refused.code, refused.message)
        began, deadline = time.monotonic(), Deadline.after(GATHER_TIMEOUT_S)
        looks = 0
        while True:
            account, looks = watch.look(), looks + 1
            if account is None:
                return Skipped("there is no such subscription")
            gathered = self._outcome(members, account, time.monotonic() - began)
            missing = self._missing(gathered, members, watch, account)
            if missing is None:
                break
            if deadline.passed and looks >= LOOKS:
                self._miscounted |= missing
                break
            time.sleep(PAUSE_S)
        if not account.has_all_arrived(members.values()):
            return Starved(f"of what the broker says to have sent, not all arrived: {_not_arrived(members, account)}")
        return self._outcome(members, account, time.monotonic() - began, takes=True)

    def _missing(
        self, gathered: DueReceived, members: Mapping[str, Member], watch: Watch, account: Account
    ) -> set[int] | None:
        """None if nothing more must come, and the broker shows what it must show; else the hashes it shows wrongly.

        What was waited for in vain once, because the broker miscounts a hash, is not waited for again.
        """
        if not account.has_all_arrived(members.values()):
            return set()
        receivers = [
            Receiver(one.consumer, one.permits, one.ranges) for one in gathered.consumers if one.ranges is not None
        ]
        is_known = len(receivers) == len(members)
        if is_known and not self._world.has_draining_hashes:
            return self._missing_of_classic(account, receivers, members, watch)
        if not is_known or (watch.topic, watch.subscription) in self._administered:
            return None if watch.stands_still else set()
        wire = [member for member in members.values() if isinstance(member, WireMember)]
        claims = any(member.claims_hashes for member in wire)
        within = STICKY_HASHES if claims else AUTO_SPLIT_HASHES
        entries = list(self._open(watch, account, members, within))
        keeps_keys = all(member.keeps_keys for member in wire)
        owed = due(entries, receivers, drains=keeps_keys, look_ahead=self._world.traits.look_ahead)
        hashes = {entry.position: entry.hashed for entry in entries}
        if account.withheld is not None:
            if not watch.stands_still:
                return set()
            owed = {}
        is_due = any(hashes[position] not in self._miscounted for position in owed)
        if not keeps_keys or claims:
            return set() if is_due else None
        if not owed and not _is_read(account, entries, receivers) and not watch.stands_still:
            return set()
        # What came back to its consumer may be shown for a while, so that is not waited for.
        held = {entry.hashed: entry.holder for entry in entries if entry.holder is not None}
        wrong = {one.hashed for one in mismatches(gathered, entries, receivers, held)} - self._miscounted
        return wrong if wrong or is_due or wrong_sums(gathered) is not None else None

    def _missing_of_classic(
        self, account: Account, receivers: Sequence[Receiver], members: Mapping[str, Member], watch: Watch
    ) -> set[int] | None:
        """As :meth:`_missing`, of the classic implementation: while consumers are recently joined, little must come."""
        claims = any(isinstance(member, WireMember) and member.claims_hashes for member in members.values())
        entries = list(self._open(watch, account, members, STICKY_HASHES if claims else CLASSIC_HASHES))
        if account.subscription.recently_joined:
            entries = entries[:1]
        keyed = [entry for entry in entries if self._whereabouts.has_key(watch.topic, entry.position)]
        is_due = account.withheld is None and bool(due(keyed, receivers, drains=False))
        return None if watch.stands_still and not is_due else set()

    def _open(self, watch: Watch, account: Account, members: Mapping[str, Member], within: HashRange) -> Iterator[Open]:
        holders = {position: name for name, member in members.items() for position in member.held}
        for position in sorted(unacknowledged(account.internal, watch.subscription)):
            hashed = self._whereabouts.hash_of(watch.topic, position, within)
            if hashed is not None:
                yield Open(position, hashed, holders.get(position))

    def _outcome(
        self, members: Mapping[str, Member], account: Account, waited_s: float, *, takes: bool = False
    ) -> DueReceived:
        consumers = []
        for name, member in members.items():
            found = account_of(member, account.subscription.consumers)
            if isinstance(member, WireMember) and found is not None:
                consumers.append(_consumer(name, member, found, takes=takes))
        subscription = account.subscription
        return DueReceived(
            tuple(consumers),
            draining=subscription.draining_hashes_count,
            unacknowledged=subscription.draining_hashes_unacked_messages,
            cleared=subscription.draining_hashes_cleared_total,
            waited_ms=round(waited_s * 1000, 3),
            is_waiting=account.is_waiting,
            in_replay=subscription.in_replay,
            withheld=account.withheld,
        )


def _is_read(account: Account, entries: Sequence[Open], receivers: Sequence[Receiver]) -> bool:
    """Whether the broker has read what it holds back: that may go on after all has come that is due."""
    can_read = any(receiver.permits > 0 for receiver in receivers)
    return account.is_waiting or not can_read or all(entry.holder is not None for entry in entries)


def _not_arrived(members: Mapping[str, Member], account: Account) -> str:
    """What the broker's permits of each consumer are, and what they are by what arrived."""
    return ", ".join(
        f"{name} has {member.permits_left} permits left, the broker counts {found.available_permits}"
        for name, member in members.items()
        if isinstance(member, WireMember)
        and (found := account_of(member, account.subscription.consumers)) is not None
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
