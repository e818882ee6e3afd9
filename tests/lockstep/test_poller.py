"""When a poller of a subscription takes the broker for quiet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import CursorStats, InternalStats, SubscriptionStats, TopicStats
from conformance.lockstep.cursors import poller
from conformance.lockstep.cursors.poller import QUIET_S, Poller


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
