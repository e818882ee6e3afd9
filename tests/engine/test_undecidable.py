"""Tests of what a deployment cannot show: by what cannot be done to it, and by its settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from conformance.engine.undecidable import undecidable
from conformance.lockstep.world import World
from conformance.tenancy.cluster_settings import CLASSIC
from tests.engine.test_budget import ALL_DECIDABLE


def world(*capabilities: Capability, **settings: Any) -> World:
    broker = SimpleNamespace(capabilities=frozenset(capabilities))
    return cast(World, SimpleNamespace(broker=broker, **(ALL_DECIDABLE | settings)))


def machine(name: str, *decides: str, needs: frozenset[Capability] = frozenset()) -> Machine:
    return Machine(name=name, decides=decides, needs=needs, factory=cast(Any, None))


KILLING = machine("killing", "ACK-09", "ACK-10", needs=frozenset({Capability.KILL, Capability.RESTART}))
PLAIN = machine("plain", "ACK-10", "ACK-14")


def test_a_rule_that_only_machines_decide_that_need_more_cannot_be_decided() -> None:
    assert undecidable([KILLING, PLAIN], world()) == {
        "ACK-09": "it needs a broker that the suite starts, to restart it and kill it"
    }
    assert undecidable([KILLING, PLAIN], world(Capability.RESTART)) == {
        "ACK-09": "it needs a broker that the suite starts, to kill it"
    }


def test_where_everything_can_be_done_and_settings_are_the_suites_every_rule_can_be_decided() -> None:
    assert undecidable([KILLING, PLAIN], world(*Capability)) == {}


@pytest.mark.parametrize(
    ("settings", "rule", "told"),
    [
        ({"ledger_room": 50_000}, "ACK-14", "managedLedgerMaxEntriesPerLedger=50000"),
        ({"flush_interval_s": 60.0}, "ACK-08", "managedLedgerCursorPositionFlushSeconds=60"),
        ({"stats_period_s": 60.0}, "CHUNK-10", "statsUpdateFrequencyInSecs=60"),
        ({"snapshot_interval_entries": 1000, "snapshot_interval_s": 120.0}, "DEDUP-10", "IntervalSeconds=120"),
        ({"snapshot_interval_entries": 1000, "snapshot_interval_s": 120.0}, "DEDUP-11", "IntervalSeconds=120"),
        ({"can_be_classic": False}, "KEY-14", f"{CLASSIC}=false"),
        ({"can_drain": False}, "KEY-03", f"{CLASSIC}=true"),
        ({"can_drain": False, "is_switchable": False}, "KEY-03", "this release has no draining hashes"),
    ],
)
def test_a_setting_that_puts_a_rule_out_of_reach_is_named(settings: dict[str, Any], rule: str, told: str) -> None:
    assert told in undecidable([PLAIN], world(*Capability, **settings))[rule]


def test_snapshots_are_within_reach_by_entries_or_by_time() -> None:
    for settings in ({"snapshot_interval_entries": 1000}, {"snapshot_interval_s": 120.0}):
        assert undecidable([PLAIN], world(*Capability, **settings)) == {}
