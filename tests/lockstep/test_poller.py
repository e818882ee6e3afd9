"""When a poller takes a broker for quiet, what gathering due messages then waits for, and what counts as persisted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import CursorStats, InternalStats, LedgerStats, SubscriptionStats, TopicStats
from conformance.lockstep.cursors import poller
from conformance.lockstep.cursors.consumers import Member
from conformance.lockstep.cursors.key_shared import GivenUp, Missing
from conformance.lockstep.cursors.persistence import PersistedStates
from conformance.lockstep.cursors.poller import QUIET_S, Poller, SubscriptionView
from model.events import NotPersisted, Persisted
from model.log import Position


class _Unchanged:
    """The stats of a topic on which nothing happens."""

    def internal_stats(self, _: str) -> InternalStats:
        cursor = CursorStats(mark_delete_position="1:-1", read_position="1:0")
        return InternalStats(last_confirmed_entry="1:0", cursors={"s0": cursor})

    def stats(self, _: str) -> TopicStats:
        return TopicStats(subscriptions={"s0": SubscriptionStats()})


def test_a_broker_becomes_quiet_at_a_poll_and_not_between_two_questions_about_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(poller, "time", SimpleNamespace(monotonic=lambda: now_s))
    one = Poller(cast("Admin", _Unchanged()), "t0", "s0", ())
    one.poll()
    now_s += QUIET_S
    assert not one.is_quiet
    one.poll()
    assert one.is_quiet


def test_a_broker_is_quiet_only_once_what_a_failpoint_delays_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(poller, "time", SimpleNamespace(monotonic=lambda: now_s))
    one = Poller(cast("Admin", _Unchanged()), "t0", "s0", (), slow_s=0.12)
    one.poll()
    for at_s, is_quiet in ((QUIET_S, False), (0.12, False), (0.12 + QUIET_S, True)):
        now_s = at_s
        one.poll()
        assert one.is_quiet == is_quiet


def test_what_was_read_is_due_and_pending_nowhere_is_in_the_replay_queue() -> None:
    cursor = CursorStats(mark_delete_position="1:-1", read_position="1:4", individually_deleted_messages="[(1:0..1:1]]")
    stats = InternalStats(last_confirmed_entry="1:5", ledgers=(LedgerStats(1),), cursors={"s0": cursor})
    holder = cast("Member", SimpleNamespace(pending={Position(1, 0): None}))
    left = Poller(
        cast("Admin", _Unchanged()),
        "t0",
        "s0",
        (holder,),
        not_due=lambda at: frozenset({Position(1, 3)}.intersection(at)),
    )
    view = SubscriptionView(stats, cursor, SubscriptionStats())
    assert left.read_and_left(view) == 1, "1:2 only: 1:0 is pending, 1:1 acknowledged, 1:3 not due, 1:4 not read"


_ENTRY, _LATER = Position(1, 0), Position(1, 1)


def test_a_due_entry_is_waited_for_though_its_hash_was_miscounted() -> None:
    given_up = GivenUp()
    given_up.add(Missing(hashes=frozenset({7})))
    missing = Missing(frozenset({_ENTRY}), frozenset({7}))
    assert given_up.without(missing, is_quiet=True) == Missing(frozenset({_ENTRY}))


def test_an_entry_that_was_not_dispatched_is_waited_for_only_until_the_broker_is_quiet() -> None:
    given_up, missing = GivenUp(), Missing(frozenset({_ENTRY}))
    given_up.add(missing)
    assert given_up.without(missing, is_quiet=False) == Missing()
    assert given_up.without(missing, is_quiet=True) is None


def test_another_entry_is_waited_for() -> None:
    given_up = GivenUp()
    given_up.add(Missing(frozenset({_ENTRY})))
    both = Missing(frozenset({_ENTRY, _LATER}))
    assert given_up.without(both, is_quiet=True) == Missing(frozenset({_LATER}))


def test_an_entry_that_was_dispatched_late_is_waited_for_again() -> None:
    given_up, missing = GivenUp(), Missing(frozenset({_ENTRY}))
    given_up.add(missing)
    assert given_up.without(Missing(), is_quiet=True) is None
    assert given_up.without(missing, is_quiet=True) == missing


@pytest.mark.parametrize(("is_deleted", "expected"), [(True, Persisted), (False, NotPersisted)])
def test_a_subscription_that_is_created_again_has_no_change_to_persist(*, is_deleted: bool, expected: type) -> None:
    """A history of 4.0.8: cleared, unsubscribed and created at the latest message; the new cursor has fewer writes."""
    before, again = (
        CursorStats(f"1:{entry}", "1:3", cursor_ledger_last_entry=written) for entry, written in ((0, 4), (2, 1))
    )
    cursors = {"s": before}
    admin = cast(Admin, SimpleNamespace(internal_stats=lambda _: SimpleNamespace(cursors=cursors)))
    states = PersistedStates(admin, flush_interval_s=-3.0)  # without the tolerance for a busy machine
    states.set_limit("t", 100.0)
    states.changing("t", "s")
    if is_deleted:
        states.deleted(["t"], "s")
    cursors["s"] = again
    assert isinstance(states.wait("t", "s"), expected)
