"""Machines in lanes get rounds by their shares, each with numbers of its own."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import psutil
import pytest

from conformance.brokers.interface import OF_ONE_BROKER, Capability
from conformance.engine.lanes.lane import machine_of
from conformance.engine.lanes.protocol import RoundEnded, RunRound, read_order
from conformance.engine.lanes.turns import FAILURES, FURTHER_CLUSTERS_BYTES, Turns, groups, with_further_clusters
from conformance.engine.machines import Machine, on_shipped_settings
from stateful import (
    test_chunking,
    test_cursors,
    test_deduplication,
    test_effectively_once,
    test_key_shared,
    test_mixed,
    test_replication,
    test_service,
)
from tests.engine.lanes.simulated_lanes import Sending

ALL = (
    *test_chunking.MACHINES,
    *test_cursors.MACHINES,
    *test_deduplication.MACHINES,
    *test_effectively_once.MACHINES,
    *test_key_shared.MACHINES,
    *test_mixed.MACHINES,
    *test_replication.MACHINES,
    *test_service.MACHINES,
)


class Time:
    """A clock that is set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def machine(name: str, share: float = 1.0) -> Machine:
    return Machine(name=name, decides=(), factory=Sending, share=share)


def test_rounds_are_handed_out_by_share_of_the_time_that_they_take() -> None:
    time = Time()
    turns = Turns([machine("large", share=3.0), machine("small")], until=1000.0, clock=time)
    spent_s: Counter[str] = Counter()
    for _ in range(200):
        one = turns.next_round()
        assert one is not None
        took_s = 10.0 if one.machine.name == "large" else 1.0
        time.now_s += took_s
        spent_s[one.machine.name] += round(took_s)
        turns.ended(one, RoundEnded())
    assert spent_s["large"] / spent_s["small"] == pytest.approx(3.0, rel=0.15)


def test_a_machine_with_a_missing_rule_has_twice_the_time() -> None:
    time = Time()
    machines = [machine("exercised"), machine("missing")]
    turns = Turns(machines, until=1000.0, clock=time, is_missing=lambda one: one.name == "missing")
    rounds: Counter[str] = Counter()
    for _ in range(90):
        one = turns.next_round()
        assert one is not None
        time.now_s += 1.0
        rounds[one.machine.name] += 1
        turns.ended(one, RoundEnded())
    assert rounds["missing"] / rounds["exercised"] == pytest.approx(2.0, rel=0.15)


def test_a_machine_with_a_missing_rule_has_the_first_round() -> None:
    machines = [machine("exercised"), machine("missing")]
    turns = Turns(machines, until=1000.0, clock=Time(), is_missing=lambda one: one.name == "missing")
    begun = [turns.next_round() for _ in range(2)]
    assert [one.machine.name for one in begun if one] == ["missing", "exercised"]


def test_a_running_round_counts_for_as_long_as_it_runs() -> None:
    time = Time()
    turns = Turns([machine("long"), machine("short", share=1.1)], until=1000.0, clock=time)
    turns.next_round()
    for _ in range(20):
        one = turns.next_round()
        assert one is not None
        assert one.machine.name == "short"
        time.now_s += 2.0
        turns.ended(one, RoundEnded())


def test_a_round_that_did_not_stop_counts_until_its_lanes_end() -> None:
    time = Time()
    turns = Turns([machine("stalled"), machine("other")], until=1000.0, clock=time)
    turns.next_round()
    time.now_s += 10.0
    turns.begin()
    begun: list[str] = []
    for _ in range(20):
        one = turns.next_round()
        assert one is not None
        begun.append(one.machine.name)
        time.now_s += 1.0
        turns.ended(one, RoundEnded())
    assert begun[:10] == ["other"] * 10
    assert "stalled" in begun


def test_several_lanes_begin_with_different_machines_and_rounds() -> None:
    turns = Turns([machine("a"), machine("b")], until=1000.0, clock=Time())
    begun = [turns.next_round() for _ in range(4)]
    assert [(one.machine.name, one.number) for one in begun if one] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_without_a_budget_each_machine_has_one_round() -> None:
    turns = Turns([machine("a"), machine("b")], until=None)
    assert [one.machine.name for one in iter(turns.next_round, None)] == ["a", "b"]


def test_a_machine_is_given_up_once_and_for_all_when_the_suite_failed_twice() -> None:
    turns = Turns([machine("a")], until=None)
    for failures in range(1, FAILURES + 1):
        one = turns.next_round()
        assert one is not None
        assert turns.ended(one, RoundEnded(failure="no port")) == (failures == FAILURES)
    assert turns.next_round() is None


def test_a_machine_without_time_for_its_next_operation_has_no_other_round() -> None:
    turns = Turns([machine("a"), machine("b")], until=10.0, clock=Time())
    one = turns.next_round()
    assert one is not None
    turns.ended(one, RoundEnded(is_short=True))
    assert {next_one.machine.name for _ in range(3) if (next_one := turns.next_round())} == {"b"}


def test_machines_are_grouped_by_what_they_leave_alone() -> None:
    calm, bouncing, of_clusters = groups([machine for machine in ALL if not machine.on_shipped])
    assert not any(machine.needs & {Capability.KILL, Capability.RESTART} for machine in calm)
    assert {machine.name for machine in bouncing} == {
        "acknowledgment-kills",
        "chunks-kills",
        "deduplication-kills",
        "effectively-once-kills",
        "keys-kills",
        "mixed-kills",
        "policies-kills",
    }
    assert {machine.name for machine in of_clusters} == {
        "clusters",
        "clusters-idle",
        "clusters-kills",
        "mixed-clusters",
    }
    alone = [machine for machine in ALL if machine not in (*calm, *bouncing, *of_clusters)]
    of_one_broker = {machine.name for machine in alone if machine.needs <= OF_ONE_BROKER}
    assert of_one_broker == {"deduplication-settings", "keys-switched"}, "others need more brokers or bookies"


def test_each_lane_has_further_clusters_of_its_own_for_which_machine_and_memory_have_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (of_clusters,) = groups(test_replication.MACHINES)
    kills = next(machine for machine in of_clusters if machine.affects == "broker")
    one = Turns([kills], until=None).next_round()
    assert one is not None
    assert not one.is_bouncing, "it kills its own clusters, not the broker that lanes share"

    def lanes(processors: int, free_bytes: int, wanted: int = 8) -> int:
        monkeypatch.setattr(os, "cpu_count", lambda: processors)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=free_bytes))
        return with_further_clusters(wanted)

    assert lanes(4, 10 * FURTHER_CLUSTERS_BYTES) == 4
    assert lanes(4, 2 * FURTHER_CLUSTERS_BYTES) == 2
    assert lanes(4, 10 * FURTHER_CLUSTERS_BYTES, wanted=3) == 3
    assert lanes(4, 0) == 1


def test_machines_on_the_shipped_settings_are_a_group_of_their_own() -> None:
    there = [on_shipped_settings(machine("a")), on_shipped_settings(machine("b"))]
    assert groups([machine("a"), there[0], machine("b"), there[1]]) == [(machine("a"), machine("b")), tuple(there)]


def test_a_machine_makes_other_choices_on_the_shipped_settings() -> None:
    (calm,) = groups([on_shipped_settings(machine("a"))])
    one = Turns(calm, until=None).next_round()
    assert isinstance(one, RunRound)
    assert machine_of(one).title == calm[0].title


def test_a_round_survives_the_way_to_its_lane() -> None:
    (calm,) = groups([replace(test_deduplication.MACHINES[0], affects="topics")])
    one = Turns(calm, until=12.5).next_round()
    assert isinstance(one, RunRound)
    assert read_order(msgspec.json.encode(one)) == one
