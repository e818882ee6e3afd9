"""What the suite concludes from the stats of a cursor: whether its last change was persisted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from conformance.clients.admin.client import Admin
from conformance.clients.admin.types import CursorStats
from conformance.lockstep.cursors.persistence import PersistedStates
from model.events import NotPersisted, Persisted


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
