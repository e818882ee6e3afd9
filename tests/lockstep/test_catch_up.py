"""Catching up names the stalled replicator: a connected one whose cursor has not advanced for long."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from conformance.clients.admin.types import ReplicationStats
from conformance.harness_error import HarnessError
from conformance.lockstep.answers import OutOfTime
from conformance.lockstep.clusters import Link, ReplicationWorld
from conformance.lockstep.replication import catch_up as replication_catch_up
from conformance.lockstep.replication.cluster_reader import Reading
from model.cluster_events import ReplicatorStalled
from model.log import Position

AB: Link = ("A", "B")
Left = Callable[[], dict[Link, Position]]


class TopicStats:
    """The stats of a topic's clusters: the replication backlog, read after read."""

    topic = "t"

    def __init__(self, left: Left) -> None:
        self._left = left

    def ends(self) -> dict[str, Position]:
        return {"A": Position(1, 100)}

    def left(self, ends: Mapping[str, Position]) -> dict[Link, Position]:
        assert ends == self.ends()
        return self._left()

    def not_replicated(self, link: Link) -> tuple[str, ...]:
        assert link == AB
        return ("a1",)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all timeouts."""
    monkeypatch.setattr(replication_catch_up, "STALLED_S", 0.1)
    monkeypatch.setattr(replication_catch_up, "CONNECT_TIMEOUT_S", 0.4)


def replicated(
    left: Left, *, connected: bool = True, require_time: Callable[[], None] = lambda: None
) -> ReplicatorStalled | None:
    """The result of waiting until everything is replicated."""
    stats = {AB: ReplicationStats(connected=connected, backlog=1)}
    world = cast(ReplicationWorld, SimpleNamespace(replicators=lambda *_: stats, require_time=require_time))
    return replication_catch_up.await_replicated(world, cast(Reading, TopicStats(left)), ("A", "B"))


def test_a_replicator_whose_cursor_does_not_advance_is_stalled() -> None:
    found = replicated(lambda: {AB: Position(1, 3)})
    assert found is not None
    assert (found.source, found.target, found.messages) == ("A", "B", ("a1",))
    assert found.stalled_s >= 0.1


def test_a_replicator_that_advances_is_not_stalled_however_long_it_takes() -> None:
    entry = itertools.count()
    with pytest.raises(HarnessError, match="not replicated within"):
        replicated(lambda: {AB: Position(1, next(entry))})


def test_a_disconnected_replicator_is_not_stalled() -> None:
    with pytest.raises(HarnessError, match="not replicated within"):
        replicated(lambda: {AB: Position(1, 3)}, connected=False)


def test_a_drained_link_has_no_backlog() -> None:
    looks = iter([{AB: Position(1, 3)}, {AB: Position(1, 7)}, {}])
    assert replicated(lambda: next(looks)) is None


def test_the_end_of_the_run_ends_a_wait() -> None:
    def require_time() -> None:
        raise OutOfTime

    with pytest.raises(OutOfTime):
        replicated(lambda: {AB: Position(1, 3)}, require_time=require_time)
