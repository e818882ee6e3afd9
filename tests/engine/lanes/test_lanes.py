"""Lanes: examples side by side on one simulated broker, with the choices that each would have alone."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from hypothesis.stateful import RuleBasedStateMachine

from conformance import events
from conformance.brokers.interface import Addresses, Broker, Capability
from conformance.clusters import FurtherClusters
from conformance.engine import rounds
from conformance.engine.example import RunningExample
from conformance.engine.lanes import exploration, lane, starters
from conformance.engine.lanes.host import WorldHost
from conformance.engine.lanes.lane import Lane
from conformance.engine.lanes.lanes import Lanes
from conformance.engine.lanes.protocol import Do, Replayed, Wants, read_order, read_report
from conformance.engine.lanes.replay import replay_in_lanes
from conformance.engine.lanes.starters import LaneStarters
from conformance.engine.machines import Machine, on_shipped_settings
from conformance.engine.plan import Plan
from conformance.engine.rounds import REPEATED
from conformance.engine.run import Run
from conformance.engine.shortener.attempt import Operations
from conformance.engine.shortener.broker_search import FINAL_REPLAYS
from conformance.harness_error import HarnessError, NotReady
from conformance.history.document import Violation
from conformance.history.journal import ExampleBegins, read_journal
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.run_name import RunName
from conformance.workers.line import Line
from model.operations import AnyOperation, CreateTopic, Kill, ReadLog, Restart, Send
from model.vocabulary import Entry, Message
from stateful import test_cursors, test_deduplication, test_key_shared
from tests.engine.lanes.simulated_lanes import (
    ENDLESS,
    UNABLE,
    Bouncing,
    Dying,
    Endless,
    Failing,
    Losing,
    LosingAndKilling,
    LosingAndStalling,
    NothingMissing,
    Sending,
    SharingPerformer,
    Stalling,
    bounce,
    bounces,
)
from tests.report import samples
from tests.waits import eventually

SHARED = [
    replace(machine, examples=2)
    for machine in (*test_deduplication.MACHINES, *test_cursors.MACHINES, *test_key_shared.MACHINES)
    if machine.name in {"deduplication", "acknowledgment", "keys"}
]


def machine(
    name: str, kind: Callable[[RunningExample], RuleBasedStateMachine], *decides: str, **said: object
) -> Machine:
    described = Machine(name=name, decides=decides, factory=kind, steps=1, examples=3)
    return replace(described, **said)  # type: ignore[arg-type]


SENDING = machine("sending", Sending, "DEDUP-02")
LOSING = machine("losing", Losing, "DEDUP-03")
LOSING_AND_KILLING = machine("losing-and-killing", LosingAndKilling, "DEDUP-03", affects="broker")
BOUNCING = [machine(f"bouncing-{number}", Bouncing, affects="broker", examples=25) for number in range(3)]


@dataclass
class Ran:
    """A run in lanes: what it told, found, and performed."""

    report: Path
    found: dict[str, list[Violation]]

    @property
    def told(self) -> list[events.AnyEvent]:
        return [events.decode(line) for line in (self.report / "events.jsonl").read_bytes().splitlines()]

    @property
    def harness_errors(self) -> list[str]:
        return [one.sentence for one in self.told if isinstance(one, events.HarnessErrorHappened)]

    @property
    def journals(self) -> list[Path]:
        return sorted(self.report.glob("journal-lane-*.jsonl"))

    def operations(self, machine: str) -> list[list[AnyOperation]]:
        """What was performed in each example of a machine."""
        performed: defaultdict[tuple[Path, int], list[AnyOperation]] = defaultdict(list)
        for journal in self.journals:
            number, is_wanted = 0, False
            for line in read_journal(journal):
                if isinstance(line, ExampleBegins):
                    number, is_wanted = line.number, line.machine == machine
                elif is_wanted:
                    performed[journal, number].append(line.step.operation)
        return list(performed.values())


def simulated_world(report: Path, *, returns: bool = True) -> World:
    """A world whose broker is bounced by a counter in the folder of the report. ``returns``: it runs again then."""

    def kill() -> None:
        bounce(report)
        if not returns:
            raise NotReady("it ended")

    broker = SimpleNamespace(
        name="simulated",
        version="4.0.8",
        addresses=Addresses(service_url="pulsar://localhost:1", admin_url="http://localhost:2"),
        configuration={},
        capabilities=frozenset(Capability),
        kill=kill,
        restart=kill,
        start=lambda: None,
        is_alive=lambda: True,
        ended_with=lambda: None,
        log_tail=lambda: "",
    )
    world = SimpleNamespace(
        further=None,
        broker=broker,
        service=broker.addresses.service,
        report=report,
        clients={},
        settings={},
        capabilities=NothingMissing(),
        kill=lambda **_: broker.kill(),
        can_fail_power=False,
        broker_came_back=lambda: None,
        is_serving=lambda: True,
    )
    return cast(World, world)


@pytest.fixture
def lane_starters(monkeypatch: pytest.MonkeyPatch) -> Iterator[LaneStarters]:
    """Starts lanes whose examples have a simulated broker each."""
    monkeypatch.setattr(starters, "MODULE", "tests.engine.lanes.simulated_lanes")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))  # of the tests, which no process finds by itself
    lane_starters = LaneStarters(())
    yield lane_starters
    lane_starters.close()


def run_in_lanes(
    report: Path, lane_starters: LaneStarters, count: int, *, returns: bool = True, budget_s: float | None = None
) -> Run:
    """A run on a simulated broker in so many lanes."""
    began = time.monotonic()
    world = simulated_world(report, returns=returns)
    plan = Plan(
        broker="",
        seed=1,
        rules=frozenset(),
        report=report,
        footprint=Footprint(name=RunName.new(at_most_s=60)),
        lanes=count,
        budget_s=budget_s,
    )
    return Run(
        plan,
        world,
        events.Emitter(report / "events.jsonl", began=began),
        began=began,
        on_shipped=lambda: world,
        lane_starters=lane_starters,
    )


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lane_starters: LaneStarters) -> Callable[..., Ran]:
    """Runs machines on a simulated broker in so many lanes; the engine's own replays have one, too."""
    monkeypatch.setattr(rounds, "RealPerformer", SharingPerformer)

    def run(
        machines: Sequence[Machine],
        count: int,
        *,
        interrupted_in: Collection[str] = (),
        after: type[object] = object,
        returns: bool = True,
    ) -> Ran:
        """``interrupted_in``: the run is interrupted once all of these machines performed something, or this."""
        report = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        report.mkdir()
        one = run_in_lanes(report, lane_starters, count, returns=returns)
        one.expect(machines)
        ran = Ran(report, {})
        if interrupted_in:
            threading.Thread(target=interrupt, args=(one, ran, interrupted_in, after), daemon=True).start()
        for machine in machines:
            ran.found[machine.name] = one.explore(machine)
        return ran

    return run


@pytest.fixture
def open_lanes(lane_starters: LaneStarters, tmp_path: Path) -> Callable[[], Lanes]:
    """Opens three lanes on a simulated broker."""
    host = WorldHost(simulated_world(tmp_path))
    footprint = Footprint(name=RunName.new(at_most_s=60))
    begin = host.begin(footprint=footprint, report=tmp_path, seed=1, known=frozenset(), deadline=None, bounce_s=1.0)
    return lambda: Lanes(3, begin, host, starters=lane_starters, numbers=itertools.count(1))


def examples(journal: Path) -> set[str]:
    """The machines whose examples a journal has."""
    return {line.machine for line in read_journal(journal) if isinstance(line, ExampleBegins)}


def interrupt(run: Run, ran: Ran, machines: Collection[str], after: type[object]) -> None:
    def has_performed(machine: str) -> bool:
        return any(isinstance(one, after) for operations in ran.operations(machine) for one in operations)

    try:
        eventually(lambda: all(map(has_performed, machines)))
    finally:
        run.interrupt()


def test_a_seed_repeats_the_choices_of_a_machine_whatever_other_lanes_do(ran: Callable[..., Ran]) -> None:
    together = ran(SHARED, 3)
    assert together.harness_errors == []
    assert len(together.journals) == 3
    for one in (SHARED[0], SHARED[-1]):
        alone = ran([one], 2).operations(one.name)
        assert len(alone) >= 2
        assert together.operations(one.name) == alone


def test_a_history_is_replayed_in_lanes_unless_it_kills_the_broker(ran: Callable[..., Ran]) -> None:
    for losing, in_lanes in ((LOSING, True), (LOSING_AND_KILLING, False)):
        together = ran([SENDING, losing], 3)
        (minimal,) = [one for one in together.told if isinstance(one, events.ViolationMinimised)]
        assert minimal.tries == minimal.came_back == FINAL_REPLAYS
        used = {journal.name for journal in together.journals if REPEATED in examples(journal)}
        assert len(used) == (3 if in_lanes else 0)
        assert (REPEATED in examples(together.report / "journal.jsonl")) is not in_lanes


def performed_in(replayed: Iterable[Replayed | None]) -> list[Operations]:
    """The operations of each replay that ended."""
    return [one.attempt.operations for one in replayed if one is not None]


def test_replays_in_lanes_are_in_the_order_of_the_histories(open_lanes: Callable[[], Lanes]) -> None:
    histories = [[CreateTopic(f"t{number}")] * (number % 3 + 1) for number in range(8)]
    with open_lanes() as three:
        for _ in range(2):
            replayed = replay_in_lanes(three, histories, "by hand")
            assert performed_in(replayed) == histories


def test_a_replay_in_a_lane_that_fails_is_a_harness_error_and_the_lanes_go_on(open_lanes: Callable[[], Lanes]) -> None:
    able = [CreateTopic("t0")]
    with open_lanes() as three:
        with pytest.raises(HarnessError, match="the disk is full"):
            replay_in_lanes(three, [able, [CreateTopic(UNABLE)], able], "by hand")
        assert performed_in(replay_in_lanes(three, [able], "by hand")) == [able]


def test_a_replay_in_a_lane_that_does_not_end_in_time_is_not_waited_for(open_lanes: Callable[[], Lanes]) -> None:
    with open_lanes() as three:
        assert performed_in(replay_in_lanes(three, [[CreateTopic("t0")]], "by hand"))
        assert replay_in_lanes(three, [[CreateTopic(ENDLESS)]], "by hand", time.monotonic() + 0.5) == [None]


def test_replays_of_a_history_end_with_the_budget(tmp_path: Path, lane_starters: LaneStarters) -> None:
    one = run_in_lanes(tmp_path, lane_starters, 3, budget_s=6.0)
    assert one.replay(samples.history(samples.step(CreateTopic(ENDLESS)), violation=None), times=2) == []


def test_a_kill_is_a_step_of_every_history_that_it_hits(ran: Callable[..., Ran]) -> None:
    """The performer fails where the broker was bounced, and its history does not say so."""
    together = ran(BOUNCING, 3)
    assert together.harness_errors == []
    histories = [operations for one in BOUNCING for operations in together.operations(one.name)]
    steps = sum(isinstance(one, Kill | Restart) for operations in histories for one in operations)
    assert 0 < bounces(together.report) < steps, "one bounce is a step of several histories"


def test_kills_of_other_lanes_change_no_other_choice(ran: Callable[..., Ran]) -> None:
    together = ran(BOUNCING, 3)
    for one in BOUNCING:
        alone, shared = ran([one], 2).operations(one.name), together.operations(one.name)
        assert [without_bounces(operations) for operations in shared] == [
            without_bounces(operations) for operations in alone
        ]
        for own, with_others in zip(alone, shared, strict=True):
            rest = iter(with_others)
            assert all(operation in rest for operation in own), "its own kills and restarts are all there, in order"


def test_lanes_do_not_bounce_the_broker_where_the_time_that_is_left_is_too_short(
    ran: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploration.SideBySide, "_is_over", lambda _, in_s=0.0: in_s > 0)
    together = ran(BOUNCING, 3)
    assert together.harness_errors == []
    assert any(together.operations(one.name) for one in BOUNCING)
    assert bounces(together.report) == 0


def without_bounces(operations: Sequence[AnyOperation]) -> list[AnyOperation]:
    return [operation for operation in operations if not isinstance(operation, Kill | Restart)]


def test_a_violation_is_blamed_on_the_rule_and_machine_that_show_it(ran: Callable[..., Ran]) -> None:
    run = ran([SENDING, LOSING, *SHARED], 3)
    assert {name for name, found in run.found.items() if found} == {"losing"}
    (violation,) = run.found["losing"]
    (told,) = [one for one in run.told if isinstance(one, events.ViolationFound)]
    assert (told.machine, told.violation) == ("losing", violation)
    (shortened,) = [one for one in run.told if isinstance(one, events.ViolationMinimised)]
    assert shortened.tries == shortened.came_back > 0
    assert shortened.broke_in == 3
    assert run.harness_errors == []


def test_what_lanes_exercise_is_told_of_the_run(ran: Callable[..., Ran]) -> None:
    run = ran([SENDING], 2)
    told = [one for one in run.told if isinstance(one, events.ExampleFinished)]
    assert [one.machine for one in told] == ["sending"] * 3
    assert all(one.operations >= 3 for one in told)


def test_machines_on_the_shipped_settings_run_in_lanes_once_the_broker_has_them(ran: Callable[..., Ran]) -> None:
    run = ran([SENDING, on_shipped_settings(SENDING)], 3)
    phases = [one.what for one in run.told if isinstance(one, events.Phase)]
    assert phases == [
        "sending in 3 lanes",
        "starting the broker on the settings that are shipped",
        "sending on shipped settings in 3 lanes",
    ]
    assert len(run.operations("sending")) == 6


def test_a_machine_that_the_suite_fails_in_twice_is_reported_and_the_others_go_on(ran: Callable[..., Ran]) -> None:
    run = ran([machine("failing", Failing, "DEDUP-04"), SENDING], 2)
    (told,) = run.harness_errors
    assert told == "failing failed twice: the disk is full. It leaves undecided: DEDUP-04."
    assert len(run.operations("sending")) == 3


def test_a_broker_that_does_not_run_again_after_a_kill_is_a_find_of_the_lanes(ran: Callable[..., Ran]) -> None:
    together = ran([replace(BOUNCING[0], decides=("SERVE-02",), examples=3)], 3, returns=False)
    assert {one.rule for one in together.found["bouncing-0"]} == {"SERVE-02"}


def test_a_lane_that_dies_is_replaced(ran: Callable[..., Ran]) -> None:
    run = ran([machine("dying", Dying), SENDING], 2)
    (told,) = run.harness_errors
    assert told.startswith("dying failed twice: lane ")
    assert "ended by itself" in told
    assert len(run.operations("sending")) == 3


def test_an_interrupt_ends_all_lanes(ran: Callable[..., Ran], tmp_path: Path) -> None:
    endless = machine("endless", Endless, steps=1_000_000, examples=2)
    other = replace(endless, name="endless-too")
    with pytest.raises(KeyboardInterrupt):
        ran([endless, other], 2, interrupted_in={"endless", "endless-too"})
    (report,) = tmp_path.iterdir()
    assert Ran(report, {}).harness_errors == []


def test_a_lane_that_does_not_stop_is_ended_and_the_run_goes_on(
    ran: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploration, "STOP_TIMEOUT_S", 0.1)
    with pytest.raises(KeyboardInterrupt):
        ran([machine("stalling", Stalling), SENDING], 2, interrupted_in={"stalling", "sending"})
    (report,) = tmp_path.iterdir()
    told = [one.what for one in Ran(report, {}).told if isinstance(one, events.Phase)]
    assert told[-1] == "lanes that do not stop in time are ended: stalling"
    finished = [one for one in Ran(report, {}).told if isinstance(one, events.ExampleFinished)]
    assert [one.operations for one in finished if one.machine == "stalling"] == [1]


def test_a_rule_that_was_broken_in_a_lane_that_does_not_stop_is_reported(
    ran: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (violation,) = ran([LOSING, SENDING], 2).found["losing"]
    (before,) = tmp_path.iterdir()
    monkeypatch.setattr(exploration, "STOP_TIMEOUT_S", 0.1)
    stalling = machine("stalling", LosingAndStalling, "DEDUP-03")
    with pytest.raises(KeyboardInterrupt):
        ran([stalling, SENDING], 2, interrupted_in={"stalling"}, after=ReadLog)
    (report,) = (folder for folder in tmp_path.iterdir() if folder != before)
    (told,) = [one for one in Ran(report, {}).told if isinstance(one, events.ViolationFound)]
    assert (told.machine, told.violation.rule, told.violation.step) == ("stalling", violation.rule, violation.step)


def test_lanes_that_do_not_stop_leave_most_of_the_budget_to_other_machines() -> None:
    assert exploration.patience_s(120.0) < 40.0
    assert exploration.patience_s(-1.0) > 0.0, "the operation that ends now is in time"


def test_a_machine_of_another_module_is_run_alone(ran: Callable[..., Ran]) -> None:
    """Another process does not find it."""

    class Local(Sending):
        pass

    run = ran([machine("local", Local)], 2)
    assert run.journals == []
    assert [one.machine for one in run.told if isinstance(one, events.ExampleFinished)] == ["local"] * 3


def test_a_message_is_in_flight_when_the_broker_is_killed_after_a_send_that_nobody_awaits() -> None:
    """Were it sent before all lanes have come to the kill, it would be stored by then."""
    mine, its = socket.socketpair()
    lane, engine = Lane(Line(its, read_order)), Line(mine, read_report)
    lane.is_bouncing = True
    sent = Send("s1", (Entry((Message(1, "b1"),)),), wait=False)
    assert list(lane.with_others(sent)) == []
    engine.send(Do(Restart()))
    engine.send(Do(Kill()))
    assert list(lane.with_others(Kill())) == [Restart(), sent, Kill()]
    assert [engine.receive(), engine.receive()] == [Wants(Kill()), Wants(Kill())]
    assert list(lane.with_others(sent)) == []
    assert list(lane.with_others(None)) == [sent], "at the end it is sent as well"
    lane.is_bouncing = False
    assert list(lane.with_others(sent)) == [sent]


def test_a_lane_has_the_clusters_of_the_run_and_seeds_the_defect_only_in_these(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seeded: list[object] = []
    made: dict[str, Any] = {}
    monkeypatch.setattr(lane, "in_further_clusters", lambda name: seeded.append if name == "marker-delivered" else None)
    monkeypatch.setattr(lane, "LanePlace", lambda *_, **__: None)
    monkeypatch.setattr(lane, "World", lambda broker, **options: made.update(options, broker=broker))
    world, further = simulated_world(tmp_path), FurtherClusters(brokers=("4.0.8",), settings={})
    world.further = further  # type: ignore[misc]
    begin = WorldHost(world).begin(
        footprint=Footprint(name=RunName.new(at_most_s=60)),
        report=tmp_path,
        seed=1,
        known=frozenset(),
        deadline=None,
        bounce_s=1.0,
        defect="marker-delivered",
    )
    shared, another = cast(Broker, object()), cast(Broker, object())
    lane.open_world(begin, shared)
    for started in (shared, another):
        made["on_start"](started)
    assert (made["further"], made["broker"], seeded) == (further, shared, [another])
    assert read_order(msgspec.json.encode(begin)) == begin
