"""What a frozen owner persists of a subscription after another broker has taken over, in short histories (SERVE-06)."""

from __future__ import annotations

import pytest

from model.events import Acknowledged, Delivery, Range, TakenOver, Thawed
from model.judgement import Allowed, Broken
from model.operations import AcknowledgeAtFrozen, FreezeOwner, TakeOver, ThawOwners
from tests.model.test_subscriptions import (
    BEGINNING,
    acknowledged,
    at,
    deviation_met,
    exercised,
    judged,
    part,
    read,
    rule_broken,
    single,
    subscribed,
    taken,
    topic,
)
from tests.verdicts import Happened

FROZEN: Happened = (FreezeOwner("t0"), TakenOver(("t0",)))
THAWED: Happened = (ThawOwners(), Thawed(()))
KILLED: Happened = (TakeOver("t0", "kill"), TakenOver(("t0",)))
CLOSED: Happened = (TakeOver("t0", "shutdown"), TakenOver(("t0",)))
BEGUN = (*topic(1, 1, 1, 1), taken(*map(single, range(4))))


def acked_at_frozen(*messages: Delivery) -> Happened:
    return AcknowledgeAtFrozen("c1", (0,)), Acknowledged(messages)


def has(*numbers: int) -> Happened:
    """Entries after the first one are acknowledged, each alone."""
    ranges = tuple(Range(at(number - 1), at(number)) for number in numbers)
    return read(BEGINNING, backlog=4 - len(numbers), ranges=ranges)


ACKED_AT_FROZEN = (*BEGUN, FROZEN, acked_at_frozen(single(1)), has(), THAWED, has())


@pytest.mark.parametrize("lost", [KILLED, CLOSED])
def test_the_next_owner_recovers_what_a_former_owner_received_after_the_takeover(lost: Happened) -> None:
    assert deviation_met(*ACKED_AT_FROZEN, lost, has(1), known="former-owner-persists-cursor")
    assert rule_broken(*ACKED_AT_FROZEN, lost, has(1)) == "SERVE-06"
    assert "SERVE-06" in exercised(*ACKED_AT_FROZEN, lost, has())


def test_a_former_owner_persists_no_ack_that_nobody_sent() -> None:
    known = "former-owner-persists-cursor"
    assert rule_broken(*ACKED_AT_FROZEN, KILLED, has(2), known=known) != "SERVE-06"
    assert rule_broken(*ACKED_AT_FROZEN, has(1), known=known)
    not_thawed = (*BEGUN, FROZEN, acked_at_frozen(single(1)), KILLED)
    assert rule_broken(*not_thawed, has(1), known=known) != "SERVE-06"


def test_a_former_owner_persists_nothing_once_the_present_one_has_a_ledger() -> None:
    begun = (*BEGUN, FROZEN, acked_at_frozen(single(1)), subscribed("c2"), taken(*map(single, range(4)), by="c2"))
    history = (*begun, acknowledged(single(3), by="c2"), has(3), THAWED, KILLED)
    assert isinstance(judged(*history, has(3)), Allowed)
    assert rule_broken(*history, has(1), known="former-owner-persists-cursor") == "ACK-09"


def test_the_first_ack_at_the_present_owner_is_lost_if_the_former_one_has_persisted_the_cursor() -> None:
    known = "former-owner-persists-cursor"
    begun = (*BEGUN, FROZEN, acked_at_frozen(single(1)), subscribed("c2"), taken(*map(single, range(4)), by="c2"))
    history = (*begun, THAWED, acknowledged(single(3), by="c2"), has(3))
    assert deviation_met(*history, KILLED, has(1), known=known)
    assert isinstance(judged(*history, CLOSED, has(3)), Allowed)
    assert rule_broken(*history, CLOSED, has(1), known=known) == "ACK-10"


def test_acks_that_were_lost_when_the_owner_froze_stay_lost() -> None:
    """What was recovered is what was persisted, and nobody but the former owner knows more."""
    lost = (*BEGUN, acknowledged(single(1)), FROZEN, has())
    assert rule_broken(*lost, KILLED, has(1), known="former-owner-persists-cursor") == "ACK-09"
    assert deviation_met(*lost, THAWED, KILLED, has(1), known="former-owner-persists-cursor")


def test_a_former_owner_persists_the_cursor_once() -> None:
    history = (*ACKED_AT_FROZEN, KILLED, has(), KILLED)
    assert rule_broken(*history, has(1), known="former-owner-persists-cursor") == "ACK-09"


def test_a_former_owner_may_persist_acks_of_whole_entries_without_those_of_parts() -> None:
    """The frozen owner has the first entry acknowledged, and one of two messages of the second entry."""
    second = tuple(Delivery(at(1), index, 2, f"b{index + 3}", 0) for index in range(2))
    begun = (*topic(2, 2), taken(part(0, 2), part(1, 2), *second), acknowledged(part(0, 2), second[0]))
    thawed = (*begun, FROZEN, acked_at_frozen(part(1, 2)), THAWED, KILLED, subscribed("c2"), taken(*second, by="c2"))
    shown = read(at(0), backlog=1, unacknowledged=2)
    known = ("former-owner-persists-cursor", "batch-index-acks-not-recovered", "partial-acks-not-persisted")
    assert isinstance(judged(*thawed, shown, known=known), Allowed)
    neither = read(at(1), backlog=0)
    assert isinstance(judged(*thawed, neither, known=known), Broken)
