"""A run keeps to its budget by what operations took so far: it begins, and finishes, only what it has the time for.

Rules that were not exercised in the time of their machines get time of machines whose rules were.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from hypothesis.stateful import initialize, rule

from conformance import events
from conformance.brokers.interface import Capability
from conformance.coverage.guide import Guide
from conformance.engine import budget, findings, rounds, run
from conformance.engine.durations import Durations
from conformance.engine.found import FoundViolation
from conformance.engine.machines import Machine, on_shipped_settings
from conformance.engine.plan import Plan
from conformance.engine.shortener.attempt import Attempt, one_by_one
from conformance.engine.shortener.replays import Shortest, only_recorded
from conformance.harness_error import HarnessError
from conformance.history.document import Step, Violation
from conformance.lockstep.answers import OutOfTime
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.performer import Performed
from conformance.lockstep.world import World
from conformance.wait import wait_until
from model.deviations import DEVIATIONS
from model.operations import AnyOperation, CreateTopic, OpenProducer, ReadLog, ReadSnapshot, Restart, Send
from model.vocabulary import Entry, Message
from stateful.lockstep_machine import LockstepMachine
from tests.engine.lanes.simulated_lanes import NothingMissing
from tests.lockstep.simulated.world import SimulatedPerformer

Performances = list[list[AnyOperation]]


class Restarting(LockstepMachine):
    """Creates a topic and restarts the broker, again and again."""

    @rule()
    def create_and_restart(self) -> None:
        self.do(CreateTopic("t0"))
        self.do(Restart())


def performances(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, durations: type[Durations]) -> Performances:
    """What was performed in the examples of a run with a little budget, in which operations take as long as is told."""
    performed: Performances = []

    class Recording(SimulatedPerformer):
        def __init__(self, _: object) -> None:
            super().__init__(random.Random(1))
            performed.append([])

        def perform(self, operation: AnyOperation) -> Performed:
            performed[-1].append(operation)
            return super().perform(operation)

    monkeypatch.setattr(rounds, "RealPerformer", Recording)
    monkeypatch.setattr(rounds, "Durations", durations)
    run_of([Machine(name="restarting", decides=(), factory=Restarting, steps=3, examples=1)], tmp_path)
    return [operations for operations in performed if operations]


def run_of(machines: Sequence[Machine], report: Path, *, spent_s: float = 0.0) -> list[events.AnyEvent]:
    """Run machines with a little budget, of which so much is spent; returns the events of the run."""
    began = time.monotonic() - spent_s
    report.mkdir(exist_ok=True)
    plan = Plan(broker="", seed=1, rules=frozenset(), report=report, budget_s=2)
    broker = SimpleNamespace(capabilities=frozenset(Capability))
    world = cast(World, SimpleNamespace(broker=broker, capabilities=NothingMissing()))
    emit = events.Emitter(report / "events.jsonl", began=began)
    one = run.Run(plan, world, emit, began=began)
    one.expect(machines)
    for machine in machines:
        one.explore(machine)
    return [events.decode(line) for line in (report / "events.jsonl").read_bytes().splitlines()]


def phases(happened: Sequence[events.AnyEvent]) -> list[str]:
    return [event.what for event in happened if isinstance(event, events.Phase)]


class Endless(Durations):
    """Restarts that nobody saw the end of."""

    def of(self, operation: AnyOperation) -> float:
        return math.inf if isinstance(operation, Restart) else 0.0


class LongFinish(Durations):
    """Finishing an example takes longer than there is, and so does every restart."""

    def of(self, operation: AnyOperation) -> float:
        return Endless().of(operation)

    def of_finishing(self, machine: str) -> float:
        assert machine == "restarting"
        return math.inf


class Learnt(Durations):
    """Restarts take no time until one was seen, and for ever then."""

    seen: Step | None = None

    def of(self, operation: AnyOperation) -> float:
        return math.inf if isinstance(operation, Restart) and self.seen is not None else 0.0

    def learn(self, machine: str, steps: Sequence[Step], chosen: int, *, ending_s: float = 0.0) -> None:
        assert (machine, chosen <= len(steps), ending_s >= 0) == ("restarting", True, True)
        self.seen = next((step for step in steps if isinstance(step.operation, Restart)), None)


def test_an_operation_that_would_exceed_the_budget_is_not_begun_and_the_example_is_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [operations] = performances(monkeypatch, tmp_path, Endless)
    assert operations[0] == CreateTopic("t0")
    assert Restart() not in operations
    assert ReadLog("t0") in operations


def test_an_example_is_not_finished_if_that_would_exceed_the_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert performances(monkeypatch, tmp_path, LongFinish) == [[CreateTopic("t0")]]


def test_an_operation_that_waits_for_minutes_is_abandoned_when_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waited: list[float] = []

    class Waiting(SimulatedPerformer):
        def __init__(self, world: World) -> None:
            super().__init__(random.Random(1))
            self._world = world

        def perform(self, operation: AnyOperation) -> Performed:
            if not isinstance(operation, Restart):
                return super().perform(operation)
            assert self._world.ends_at is not None
            waited.append(self._world.ends_at)
            wait_until(lambda: time.monotonic() >= waited[-1], 60)
            raise OutOfTime

    monkeypatch.setattr(rounds, "RealPerformer", Waiting)
    happened = run_of([Machine(name="restarting", decides=(), factory=Restarting, steps=3, examples=1)], tmp_path)
    assert len(waited) == 1
    assert not [event for event in happened if isinstance(event, events.HarnessErrorHappened)]


def test_a_machine_without_time_for_an_example_does_not_begin_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rounds, "RealPerformer", lambda _: SimulatedPerformer(random.Random(1)))
    restarting = Machine(name="restarting", decides=(), factory=Restarting, steps=3, examples=1)
    happened = run_of([restarting], tmp_path, spent_s=1.85)
    assert phases(happened) == ["nothing is run by restarting: no time is left"]
    assert not [event for event in happened if isinstance(event, events.ExampleFinished)]


def test_durations_are_learnt_from_an_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = performances(monkeypatch, tmp_path, Learnt)
    assert Restart() in first
    assert Restart() not in second


class Sending(LockstepMachine):
    """Sends messages, which are stored (DEDUP-02)."""

    sent = 0

    @initialize()
    def begin(self) -> None:
        self.do(CreateTopic("t0", "namespace-on"))
        self.do(OpenProducer("s1", "t0", "p0"))

    @rule()
    def send(self) -> None:
        self.sent += 1
        self.do(Send("s1", (Entry((Message(self.sent, f"b{self.sent}"),)),)))


class Awaiting(Sending):
    """Awaits snapshots as well (DEDUP-11a)."""

    @rule()
    def send(self) -> None:
        super().send()
        self.do(ReadSnapshot("t0", due=True))


NO_TIME = 1e-9
"""The share of a machine that has no time."""


def machine(name: str, *decides: str, share: float = 1.0) -> Machine:
    factory = Awaiting if "DEDUP-11a" in decides else Sending
    return Machine(name=name, decides=decides, factory=factory, share=share, steps=2, examples=2)


SENDING, OTHER = machine("sending", "DEDUP-02"), machine("other", "DEDUP-02")
AWAITING = machine("awaiting", "DEDUP-02", "DEDUP-11a", share=NO_TIME)
AGAIN = "awaiting again, which has not exercised DEDUP-11a"


OPERATION_S = 0.02
LOOK_S = 0.0001


class Timed(SimulatedPerformer):
    """Each operation takes the same time on a clock of its own, however slow the machine is."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(random.Random(1))
        self._clock = clock

    def perform(self, operation: AnyOperation) -> Performed:
        self._clock.now_s += OPERATION_S
        return super().perform(operation)


class Clock:
    """The monotonic clock of a simulated run. It advances whenever it is read, so that every wait ends."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def __call__(self) -> float:
        self.now_s += LOOK_S
        return self.now_s


def simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(rounds, "RealPerformer", lambda _: Timed(clock))


def test_a_machine_with_a_missing_rule_runs_again_in_the_time_of_one_whose_rules_are_exercised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch)
    happened = run_of([SENDING, AWAITING, OTHER, replace(OTHER, name="last")], tmp_path)
    assert phases(happened) == ["sending", "awaiting", AGAIN, "other", "last"]
    examples = [one for one in happened if isinstance(one, events.ExampleFinished) and one.machine == "awaiting"]
    assert examples[-1].exercised.get("DEDUP-11a")
    assert not any(one.exercised.get("DEDUP-11a") for one in examples[:-1]), "once is enough: the others go on"


def test_a_machine_whose_rules_are_exercised_gives_half_of_its_time_to_one_that_ran_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch)
    happened = run_of([AWAITING, SENDING], tmp_path)
    assert phases(happened) == ["awaiting", "sending", AGAIN, "sending, the rest of its time"]
    at_s = {event.what: event.at_s for event in happened if isinstance(event, events.Phase)}
    assert at_s[AGAIN] - at_s["sending"] > 0.4 * (happened[-1].at_s - at_s["sending"])


def test_a_machine_whose_own_rules_are_missing_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    simulate(monkeypatch)
    missing = machine("missing", "DEDUP-06")
    assert phases(run_of([SENDING, AWAITING, missing, OTHER], tmp_path))[2:4] == ["missing", AGAIN]


def test_a_machine_does_not_run_again_for_less_time_than_an_example_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch)
    monkeypatch.setattr(findings.Findings, "longest_s", lambda *_: math.inf)
    assert phases(run_of([SENDING, AWAITING, OTHER], tmp_path)) == ["sending", "awaiting", "other"]


def test_a_machine_does_not_run_again_for_a_rule_that_a_known_deviation_contradicts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch)
    never = machine("never", "DEDUP-02", "DEDUP-13", share=NO_TIME)
    assert (
        phases(run_of([SENDING, never, OTHER], tmp_path / "missing"))[2]
        == "never again, which has not exercised DEDUP-13"
    )
    ended = rounds.ended
    deviations = {next(name for name, one in DEVIATIONS.items() if one.rule == "DEDUP-13"): 1}

    def deviating(
        lockstep: Lockstep, violation: Violation | None, *, number: int, guide: Guide | None = None
    ) -> rounds.ExampleEnded:
        return msgspec.structs.replace(ended(lockstep, violation, number=number, guide=guide), deviations=deviations)

    monkeypatch.setattr(rounds, "ended", deviating)
    assert phases(run_of([SENDING, never, OTHER], tmp_path / "met")) == ["sending", "never", "other"]


def test_time_that_cannot_be_used_on_the_shipped_settings_goes_to_missing_rules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(monkeypatch)
    never = machine("awaiting", "DEDUP-02", "DEDUP-06", share=NO_TIME)
    happened = run_of([SENDING, never, replace(on_shipped_settings(never), share=1.0)], tmp_path)
    again = "awaiting again, which has not exercised DEDUP-06"
    assert phases(happened) == ["sending", "awaiting", again, again], "half of the time, then all of it"


def test_a_rule_is_overdue_once_no_machine_that_is_relied_on_is_left() -> None:
    missing = {"DEDUP-06", "DEDUP-11a"}
    assert budget.overdue([AWAITING], [machine("later", "DEDUP-11a")], missing) == set()
    assert budget.overdue([], [OTHER], missing) == set()
    for unreliable in (on_shipped_settings(AWAITING), machine("mixed", "DEDUP-11a", "ACK-01")):
        assert budget.overdue([AWAITING], [unreliable], missing) == {"DEDUP-11a"}


def test_a_machine_lacks_a_missing_rule_only_if_it_is_relied_on_for_it() -> None:
    assert budget.lacks(AWAITING, {"DEDUP-11a", "DEDUP-06"})
    assert not budget.lacks(AWAITING, {"DEDUP-06"})
    for unreliable in (on_shipped_settings(AWAITING), machine("mixed", "DEDUP-11a", "ACK-01")):
        assert not budget.lacks(unreliable, {"DEDUP-11a"})


def test_rules_that_are_overdue_get_half_of_the_time_of_the_machines_without_missing_rules() -> None:
    later = [OTHER, machine("missing", "DEDUP-06", share=3.0), machine("more", "DEDUP-02", share=4.0)]

    def again_s(later: Sequence[Machine], spent_s: float = 0.0, lanes: int = 1) -> float:
        return budget.again_s(80.0, later, {"DEDUP-06"}, lambda one: 1 if one is OTHER else lanes, spent_s=spent_s)

    assert again_s(later) == 25.0
    assert again_s(later, spent_s=30.0) == 10.0
    assert again_s(later, spent_s=70.0) == 0.0
    assert again_s(later, lanes=2) == pytest.approx(80.0 * (OTHER.share + 2.0) / (OTHER.share + 3.5) / 2)
    assert again_s(later[1:]) == 0.0
    assert again_s([]) == 0.0


def test_machines_in_lanes_need_less_of_the_time_than_those_that_run_alone() -> None:
    alone, together = machine("alone", share=2.0), machine("together", share=6.0)
    both = [alone, together]
    assert budget.time_share([alone], both, lambda _: 1) == 0.25
    assert budget.time_share([alone], both, lambda one: 2 if one is together else 1) == 0.4
    assert budget.time_share([alone], both, lambda one: 32 if one is together else 1) == 0.5
    assert budget.time_share([together], [together], lambda _: 8) == 1.0


def test_each_further_history_may_be_shortened_for_half_as_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits: list[float] = []

    def minimise(attempt: Attempt, *_: object, limit_s: float, **__: object) -> Shortest:
        limits.append(limit_s)
        return only_recorded(attempt, None)

    its, one = shortening(monkeypatch, tmp_path, minimise)
    for _ in range(3):
        its.shorten(one)
    assert limits == pytest.approx([250.0, 125.0, 62.5], abs=1.0)
    assert budget.shortening_s(-1.0, 0) == 0.0


def shortening(
    monkeypatch: pytest.MonkeyPatch, report: Path, minimise: Callable[..., Shortest], *, is_served_after: bool = False
) -> tuple[findings.Findings, FoundViolation]:
    """The findings of a run with a thousand seconds left, and a violation whose history ``minimise`` makes short."""
    monkeypatch.setattr(findings, "shorten_recording", lambda *_, **__: None)
    monkeypatch.setattr(findings, "minimise", minimise)
    violation = Violation(rule="ACK-01", because="it does not hold", step=1)
    one = FoundViolation("by hand", Attempt((), 0, violation), violation, report / "ACK-01-1.json")
    broker = SimpleNamespace(log_tail=lambda: "the end of the log")
    its = findings.Findings(
        Plan(broker="", seed=1, rules=frozenset(), report=report),
        cast(rounds.Rounds, SimpleNamespace(attempt=None, world=SimpleNamespace(broker=broker))),
        events.Emitter(report / "events.jsonl", began=0.0),
        began=time.monotonic(),
        deadline=time.monotonic() + 1000.0,
        base="quick",
        seeded=None,
        is_interrupted=lambda: False,
        on_failure=lambda _: is_served_after,
        replayer_of=lambda *_: nullcontext(one_by_one(lambda _: one.attempt)),
    )
    return its, one


@pytest.mark.parametrize(
    ("failures", "is_served_after", "is_reported"), [(1, True, False), (2, True, True), (1, False, True)]
)
def test_a_history_is_replayed_once_more_if_the_broker_serves_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failures: int, is_served_after: bool, is_reported: bool
) -> None:
    left = [HarnessError("the broker is gone")] * failures

    def minimise(attempt: Attempt, *_: object, **__: object) -> Shortest:
        if left:
            raise left.pop()
        return only_recorded(attempt, None)

    its, one = shortening(monkeypatch, tmp_path, minimise, is_served_after=is_served_after)
    its.shorten(one)
    told = [events.decode(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert any(isinstance(event, events.HarnessErrorHappened) for event in told) == is_reported
