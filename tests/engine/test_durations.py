"""How long an operation is expected to take, according to the examples of a run."""

from __future__ import annotations

from conformance.engine.durations import BOUNCE_S, PERIODS_S, Durations, expected_bounce_s
from conformance.history.document import Step
from model.cluster_operations import AwaitAnswered, AwaitIdle, AwaitTimedOut, ReadClusters
from model.events import Done, Skipped
from model.operations import (
    AnyOperation,
    CreateTopic,
    DisturbMetadataStore,
    FreezeOwner,
    Kill,
    LoseBookie,
    ReadLog,
    Restart,
    TakeOver,
    ThawOwners,
)


def steps(*took: tuple[AnyOperation, float]) -> list[Step]:
    """Operations that took so many seconds, one behind the other."""
    made: list[Step] = []
    for operation, took_s in took:
        began_ms = made[-1].completed_ms if made else 0.0
        made.append(
            Step(operation=operation, outcome=Done(), invoked_ms=began_ms, completed_ms=began_ms + 1000 * took_s)
        )
    return made


def test_a_long_operation_is_expected_to_take_its_longest_duration() -> None:
    durations = Durations()
    for took_s in (20.0, 45.0, 3.0):
        durations.learn("clusters", steps((ReadClusters("t0"), took_s)), 1)
    assert durations.of(ReadClusters("t1")) == 45.0


def test_taking_a_broker_away_has_a_default_duration() -> None:
    durations = Durations()
    assert durations.of(Kill(cluster="A")) == BOUNCE_S
    durations.learn("kills", steps((Kill(), 2 * BOUNCE_S)), 1)
    assert (durations.of(Kill(cluster="A")), durations.of(Restart())) == (2 * BOUNCE_S, BOUNCE_S)


def test_a_kill_is_not_expected_to_take_longer_than_the_start_did() -> None:
    durations = Durations(bounce_s=expected_bounce_s(3.0))
    assert (durations.of(Kill()), durations.of(Restart()), durations.of(TakeOver("t0", "kill"))) == (3.0, 3.0, BOUNCE_S)
    assert expected_bounce_s(60.0) == BOUNCE_S, "the start may have prepared what is made once"


def test_a_wait_for_a_snapshot_or_an_idle_topic_is_not_begun_without_time_for_it() -> None:
    durations = Durations()
    for wait in (AwaitAnswered("A", "t0", ("B",)), AwaitTimedOut("A"), AwaitIdle("B", "t0")):
        assert durations.of(wait) == PERIODS_S
        durations.learn("clusters", steps((wait, 3 * PERIODS_S)), 1)
        assert durations.of(wait) == 3 * PERIODS_S


def test_a_freeze_needs_time_for_its_thaw_until_it_is_thawed() -> None:
    durations = Durations()
    thawed = steps((FreezeOwner("t0"), 11.0), (ThawOwners(), 13.0))
    durations.learn("zombies", thawed, 2)
    frozen = thawed[:1]
    assert durations.of(FreezeOwner("t0")) == 11.0
    assert durations.of_undoing([], FreezeOwner("t0")) == 13.0
    assert durations.of_undoing(frozen, ReadLog("t0")) == 13.0
    assert durations.of_undoing(frozen, ThawOwners()) == 0.0
    assert durations.of_undoing(thawed, ReadLog("t0")) == 0.0


def test_a_skipped_operation_leaves_nothing_to_undo() -> None:
    skipped = Step(operation=LoseBookie(0, "kill"), outcome=Skipped("one"), invoked_ms=0.0, completed_ms=1.0)
    assert Durations().of_undoing([skipped]) == 0.0


def test_what_several_operations_leave_is_undone_one_after_the_other() -> None:
    left = steps((LoseBookie(0, "kill"), 1.0), (DisturbMetadataStore("freeze"), 1.0))
    assert Durations().of_undoing(left) == 2 * BOUNCE_S


def test_undoing_is_expected_to_take_the_longest_end_of_an_example() -> None:
    durations = Durations()
    left = steps((DisturbMetadataStore("expire"), 3.0))
    for ending_s in (4.0, 21.0, 9.0):
        durations.learn("metadata-store", left, 1, ending_s=ending_s)
    assert durations.of_undoing(left) == 21.0
    assert durations.of_undoing(steps((LoseBookie(0, "kill"), 1.0))) == BOUNCE_S


def test_a_short_operation_is_expected_to_take_no_time() -> None:
    durations = Durations()
    durations.learn("acks", steps((CreateTopic("t0"), 60.0)), 1)
    assert durations.of(CreateTopic("t1")) == 0.0


def test_finishing_is_expected_to_take_the_machines_longest_duration() -> None:
    durations = Durations()
    for took_s in (9.0, 4.0):
        durations.learn("clusters", steps((CreateTopic("t0"), 30.0), (ReadLog("t0"), 1.0), (ReadLog("t0"), took_s)), 1)
    durations.learn("clusters", steps((CreateTopic("t0"), 30.0)), 1)
    assert durations.of_finishing("clusters") == 10.0


def test_a_machines_first_example_is_expected_to_finish_as_slowly_as_those_of_others() -> None:
    durations = Durations()
    assert durations.of_finishing("clusters-kills") == 0.0
    for machine, took_s in (("clusters", 10.0), ("acks", 1.0)):
        durations.learn(machine, steps((CreateTopic("t0"), 30.0), (ReadLog("t0"), took_s)), 1)
    assert (durations.of_finishing("clusters-kills"), durations.of_finishing("acks")) == (10.0, 1.0)
