"""A catching-up says which replicator stands still: one that is connected, and whose cursor has not moved for long."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from conformance.clients.admin.types import ReplicationStats
from conformance.harness_error import HarnessError
from conformance.lockstep.clusters import Link, ReplicationWorld
from conformance.lockstep.replication import catch_up as replication_catch_up
from conformance.lockstep.replication.reading import Reading
from conformance.lockstep.replication.sessions import Sessions, TopicInClusters
from model.cluster_events import ReplicatorStalled
from model.log import Position

AB: Link = ("A", "B")
Left = Callable[[], dict[Link, Position]]


class Told:
    """What clusters say of a topic: what is left to be passed on, look by look."""

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
    """Nobody waits for long."""
    monkeypatch.setattr(replication_catch_up, "STALLED_S", 0.1)
    monkeypatch.setattr(replication_catch_up, "CONNECT_TIMEOUT_S", 0.4)


def replicated(left: Left, *, connected: bool = True) -> ReplicatorStalled | None:
    """What comes of waiting until all is passed on."""
    stats = {AB: ReplicationStats(connected=connected, backlog=1)}
    world = cast(ReplicationWorld, SimpleNamespace(replicators=lambda *_: stats))
    catch_ups = replication_catch_up.CatchUps(world, cast(Sessions, None))
    return catch_ups.await_replicated(TopicInClusters("t", ("A", "B"), cast(Reading, Told(left)), is_replicated=True))


def test_one_that_does_not_move_stands_still() -> None:
    found = replicated(lambda: {AB: Position(1, 3)})
    assert found is not None
    assert (found.source, found.target, found.messages) == ("A", "B", ("a1",))
    assert found.stalled_s >= 0.1


def test_one_that_goes_on_does_not_however_long_it_takes() -> None:
    entry = itertools.count()
    with pytest.raises(HarnessError, match="not replicated within"):
        replicated(lambda: {AB: Position(1, next(entry))})


def test_one_that_is_not_connected_does_not() -> None:
    with pytest.raises(HarnessError, match="not replicated within"):
        replicated(lambda: {AB: Position(1, 3)}, connected=False)


def test_nothing_is_left_once_all_was_passed_on() -> None:
    looks = iter([{AB: Position(1, 3)}, {AB: Position(1, 7)}, {}])
    assert replicated(lambda: next(looks)) is None
