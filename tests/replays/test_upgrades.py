"""Upgrades and rollbacks between two releases, and defects that only the brokers of one of them have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from conformance.brokers.deployment import Deployment
from conformance.brokers.size import SMALLEST
from conformance.engine.execution import perform
from conformance.faults.catalogue import BrokerDefect, find
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import TakenOver
from model.example import Example
from model.operations import AnyOperation, CreateTopic, OpenProducer, ReadLog, Send, TakeOver
from model.subscription_operations import Acknowledge, CreateSubscription, ReadCursor, Receive, Subscribe
from tests.lockstep.test_takeovers_on_a_real_broker import entries, played, started

OLDER, NEWER = "4.0.8", "4.2.4"

TOPIC: Final = (CreateTopic("t0", persistence="every-ack"),)
DEDUPLICATED: Final = CreateTopic("t0", deduplication="namespace-on")
ON_OLDER: Final = (*TOPIC, TakeOver("t0", "unload", "older"))
ON_NEWER: Final = (*TOPIC, TakeOver("t0", "unload", "newer"))
UPGRADED: Final = TakeOver("t0", "unload", "newer")
ROLLED_BACK: Final = TakeOver("t0", "unload", "older")
SENT: Final = (OpenProducer("s", "t0", "p"), Send("s", entries(1, 2, 3)))
ACKNOWLEDGED: Final = (
    CreateSubscription("t0", "s0", start="earliest"),
    *SENT,
    Subscribe("c1", "t0", "s0", kind="Shared"),
    Receive("c1", 3),
    Acknowledge("c1", (1,)),
)
HISTORIES: dict[str, Sequence[AnyOperation]] = {
    "newer-cursor-unreadable": (*ON_NEWER, *ACKNOWLEDGED, ROLLED_BACK, ReadCursor("t0", "s0")),
    "older-entries-not-replayed": (DEDUPLICATED, ROLLED_BACK, *SENT, UPGRADED, OpenProducer("s", "t0", "p")),
    "older-log-cut-short": (*ON_OLDER, *SENT, UPGRADED, ReadLog("t0")),
    "older-ranges-not-read": (*ON_OLDER, *ACKNOWLEDGED, UPGRADED, ReadCursor("t0", "s0")),
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with started(f"{OLDER},{NEWER}", SMALLEST) as world:
        yield world


@pytest.mark.parametrize("name", HISTORIES)
def test_a_defect_of_one_release_breaks_a_rule_after_an_upgrade_or_rollback(world: World, name: str) -> None:
    defect = find(name)
    assert isinstance(defect, BrokerDefect)
    assert played(world, HISTORIES[name], defect) is not None
    assert played(world, HISTORIES[name]) is None


def test_brokers_are_restarted_with_the_release_that_is_to_take_over(world: World) -> None:
    """The second upgrade leaves no broker of the older release, and the next rollback restarts one with it."""
    operations = (
        *ON_OLDER,
        *SENT,
        TakeOver("t0", "kill", "newer"),
        TakeOver("t0", "shutdown", "newer"),
        TakeOver("t0", "kill", "older"),
        ReadLog("t0"),
    )
    attempt = perform(operations, Lockstep(RealPerformer(world), Example()))
    assert attempt.violation is None
    taken = [step.outcome.releases for step in attempt.steps if isinstance(step.outcome, TakenOver)]
    assert taken[1:] == [(OLDER, NEWER), (NEWER, NEWER), (NEWER, OLDER)]
    deployment = world.broker
    assert isinstance(deployment, Deployment)
    assert [broker.version for broker in deployment.brokers] == [OLDER, NEWER], "as before, for the next example"
