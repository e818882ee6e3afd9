"""One run: machines on one started broker, until their share of the budget is used up.

It emits events; verdicts are made from these. Into the report folder it writes the journal of all operations, and a
history for each violation.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from conformance import events
from conformance.brokers.settings import Base
from conformance.coverage.coverage import Coverage, Drawn
from conformance.engine.budget import again_s, lacks, least_s, overdue, reserve_s, time_share
from conformance.engine.durations import expected_bounce_s
from conformance.engine.example import crashed
from conformance.engine.findings import Findings
from conformance.engine.found import FoundViolation
from conformance.engine.lanes.exploration import SideBySide
from conformance.engine.lanes.host import WorldHost
from conformance.engine.lanes.lanes import Lanes
from conformance.engine.lanes.replay import can_share_broker, has_further_clusters, replay_in_lanes
from conformance.engine.lanes.starters import LaneStarters
from conformance.engine.lanes.turns import groups, with_further_clusters
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.engine.rounds import REPEATED, ExampleEnded, Rounds
from conformance.engine.served_broker import ServedBroker
from conformance.engine.shortener.attempt import Attempt, Operations, Replayer, one_by_one
from conformance.engine.undecidable import undecidable
from conformance.faults.seeded_defect import SeededDefect
from conformance.harness_error import HarnessError
from conformance.history.document import History, Violation
from conformance.lockstep.capabilities import family
from conformance.lockstep.world import World
from model.operations import AnyOperation

STARTS_OF_CLUSTERS = 4
"""The least remaining time in multiples of the first start, for three more clusters and examples on them."""
OF_REPLICATION = frozenset(family("REPL"))
"""The rules for which several clusters are started."""


@dataclass(slots=True)
class _Again:
    """Machines that run again. Their rounds have negative numbers, so they make other choices than before."""

    spent_s: float = 0.0
    rounds: defaultdict[str, Iterator[int]] = field(
        default_factory=lambda: defaultdict(lambda: itertools.count(-1, -1))
    )


class Run:
    """Runs machines on a world."""

    def __init__(
        self,
        plan: Plan,
        world: World,
        emit: events.Emitter,
        *,
        began: float,
        base: Base = "quick",
        seeded: SeededDefect | None = None,
        on_shipped: Callable[[], World] | None = None,
        on_new_broker: Callable[[Base], World] | None = None,
        lane_starters: LaneStarters | None = None,
    ) -> None:
        """``base``: the base settings of the world's broker; ``seeded``: its defect. ``lane_starters``: the caller
        closes them.

        ``on_shipped``: stops that broker, and returns a world on another one with the shipped settings.
        ``on_new_broker``: the same with the base settings that it had.
        """
        self.plan = plan
        self._emit = emit
        self._began = began
        start_took_s = time.monotonic() - began
        self._bounce_s = expected_bounce_s(start_took_s)
        self._interrupted = False
        self._deadline = began + plan.budget_s - reserve_s(plan.budget_s) if plan.budget_s is not None else None
        self._undecidable: dict[str, str] = {}
        self._ran: list[Machine] = []
        self._later: list[Machine] = []
        self._again = _Again()
        self._groups: dict[str, tuple[Machine, ...]] = {}
        self._found_in_lanes: dict[str, list[FoundViolation]] = {}
        self._lane_numbers = itertools.count(1)
        self._lanes_with_clusters = with_further_clusters(plan.lanes)
        self._lane_starters = lane_starters or LaneStarters(())
        coverage = None if plan.coverage is None else Coverage.read(plan.coverage)
        self._rounds = Rounds(
            world,
            plan.report / "journal.jsonl",
            seed=plan.seed,
            known=plan.known,
            deadline=self._deadline,
            replaced=lambda: self._broker.replaced(),
            bounce_s=self._bounce_s,
            coverage=coverage,
        )
        self._findings = Findings(
            plan,
            self._rounds,
            emit,
            began=began,
            deadline=self._deadline,
            base=base,
            seeded=seeded,
            is_interrupted=lambda: self._interrupted,
            on_failure=lambda failure: self._broker.is_served_after(failure),
            replayer_of=self._replayer_of,
        )
        self._broker = ServedBroker(
            self._rounds,
            self._findings,
            deadline=self._deadline,
            start_took_s=start_took_s,
            is_interrupted=lambda: self._interrupted,
            on_shipped=on_shipped,
            on_new_broker=on_new_broker,
        )

    @property
    def operations(self) -> int:
        """How many operations were performed, without replays for shortening."""
        return self._findings.operations

    @property
    def drawn(self) -> Drawn:
        """The choices of all examples, if they are counted."""
        return self._findings.drawn

    @property
    def _world(self) -> World:
        return self._rounds.world

    def interrupt(self) -> None:
        """End soon: the running example is the last one, and is not finished."""
        self._interrupted = True

    def expect(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """Announce the machines, so that each that can run on this broker gets its share of the budget; returns these.

        The rules that this broker cannot decide are emitted at once.
        """
        self._undecidable = undecidable(machines, self._world)
        for rule, why in self._undecidable.items():
            self._emit(events.NotExercisable(at_s=self._emit.now_s, rule=rule, why=why))
        of_use = [machine for machine in machines if self._is_of_use(machine)]
        self._later = list(of_use)
        if self.plan.lanes > 1:
            self._groups = {machine.title: group for group in groups(of_use) for machine in group}
        return of_use

    def explore(self, machine: Machine) -> list[Violation]:
        """Run a machine for its share of the budget; returns the violations without known deviations.

        Before it, machines run again whose rules are overdue.
        """
        if not self._is_of_use(machine):
            return []
        found = self._concluded(self._explore_again(self._again_until(machine)))
        if self._broker.is_lost:
            return [one.violation for one in found]
        if self._is_too_late_for(machine):
            what = f"nothing is run by {machine.title}: no time is left"
            self._findings.emit_phase(what)
        elif not machine.on_shipped or self._broker.move_to_shipped():
            explore = self._explore_in_lanes if machine.title in self._groups else self._explore_alone
            found += self._concluded(explore(machine))
        elif not self._findings.are_doubted:
            found += self._concluded(self._explore_again(self._deadline))  # nothing else uses this time
        return [one.violation for one in found]

    def _concluded(self, found: list[FoundViolation]) -> list[FoundViolation]:
        """These violations, once their histories are short."""
        if self._interrupted:
            raise KeyboardInterrupt
        for one in self._findings.worth_shortening(found):
            self._findings.shorten(one)
        return found

    def _explore_alone(self, machine: Machine) -> list[FoundViolation]:
        """Run a machine in the engine's own process.

        Once its rules are exercised, half of its time is for those that are overdue.
        """
        self._findings.emit_phase(machine.title)
        until, rounds = self._until([machine]), itertools.count()
        if until is None:
            found = self._explore_until(machine, rounds, until)
        else:
            half = until - (until - time.monotonic()) / 2
            is_enough = partial(self._gives_way, machine, half, until)
            found = self._explore_until(machine, rounds, until, is_enough)
            if is_enough():
                found += self._explore_again(until)
                self._findings.emit_phase(f"{machine.title}, the rest of its time")
                found += self._explore_until(machine, rounds, until)
        self._have_run([machine])
        return found

    def _gives_way(self, machine: Machine, half: float, until: float) -> bool:
        """Whether overdue rules get the rest of a machine's time: its own are exercised, and half of it is over."""
        if time.monotonic() < half or self._findings.unexercised(set(machine.decides) & self._wanted):
            return False
        due = self._due_again()
        return any((until - half) / len(due) >= self._findings.longest_s(one) for one in due)

    def _due_again(self) -> list[Machine]:
        """The machines that have run and are relied on for an overdue rule."""
        rules = overdue(self._ran, self._later, self._missing())
        return [one for one in self._ran if lacks(one, rules)]

    def _explore_until(
        self,
        machine: Machine,
        rounds: Iterator[int],
        until: float | None,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> list[FoundViolation]:
        """Run rounds of a machine, and once more after a harness error, until a time or until it is enough."""
        found: list[FoundViolation] = []
        failure = self._explore_once(machine, rounds, until, found, is_enough)
        if failure is not None and self._broker.is_served_after(failure):
            what = f"{machine.title} once more, which failed: {failure}"
            self._findings.emit_phase(what)
            failure = self._explore_once(machine, rounds, until, found, is_enough)
            if failure is not None:
                self._broker.is_served_after(failure)
        if failure is not None and not self._interrupted:
            self._emit_failed_twice(machine, failure)
        return found

    def _missing(self) -> frozenset[str]:
        """The rules to be decided that no example has exercised."""
        return frozenset(self._findings.unexercised(self._wanted))

    @property
    def _wanted(self) -> Set[str]:
        """The rules to be decided on this broker."""
        wanted = self.plan.rules or {rule for machine in (*self._ran, *self._later) for rule in machine.decides}
        return wanted - self._undecidable.keys()

    def _again_until(self, machine: Machine) -> float | None:
        """Until when others may run again before a machine; None: not at all."""
        has_moved = machine.on_shipped and self._findings.base == "shipped"
        if self._deadline is None or machine not in self._later or has_moved:
            return None
        missing = self._missing()
        missing -= overdue(self._ran, self._later, missing)
        now = time.monotonic()
        left_s = max(0.0, self._deadline - now)
        return now + again_s(left_s, self._later, missing, self._lanes_of, spent_s=self._again.spent_s)

    def _lanes_of(self, machine: Machine) -> int:
        if machine.title not in self._groups:
            return 1
        return self._lanes_with_clusters if machine.has_further_clusters else self.plan.lanes

    def _explore_again(self, until: float | None) -> list[FoundViolation]:
        """Run machines again until their overdue rules are exercised or the time is up."""
        rules = overdue(self._ran, self._later, self._missing())
        machines = self._due_again()
        found: list[FoundViolation] = []
        began = time.monotonic()
        if until is None:
            return found
        for number, machine in enumerate(machines):
            now = time.monotonic()
            its = frozenset(self._findings.unexercised(rules & set(machine.decides)))
            if not its or now >= until or self._interrupted or self._broker.is_lost or self._is_too_late_for(machine):
                continue
            its_until = now + (until - now) / (len(machines) - number)
            if its_until - now < self._findings.longest_s(machine):
                continue  # an example would be cut short; the time is kept for later
            what = f"{machine.title} again, which has not exercised {', '.join(sorted(its))}"
            self._findings.emit_phase(what)
            are_exercised = partial(self._are_exercised, its)
            found += self._explore_until(machine, self._again.rounds[machine.title], its_until, are_exercised)
        self._again.spent_s += time.monotonic() - began
        return found

    def _are_exercised(self, rules: Set[str]) -> bool:
        return not self._findings.unexercised(rules)

    def _explore_in_lanes(self, machine: Machine) -> list[FoundViolation]:
        """The violations of a machine that runs in parallel with its group. The group's first machine runs all."""
        if machine.title not in self._found_in_lanes:
            group = self._groups[machine.title]
            lanes = self._lanes_of(machine)
            what = f"{', '.join(one.title for one in group)} in {lanes} lane{'' if lanes == 1 else 's'}"
            self._findings.emit_phase(what)
            side_by_side = SideBySide(
                group,
                self._findings,
                lambda: self._open_lanes(lanes),
                until=self._until(group),
                deadline=self._deadline,
                has_to_end=lambda: self._interrupted or self._broker.is_lost,
                is_serving=self._world.is_serving,
                is_served_after=self._broker.is_served_after,
                give_up=self._emit_failed_twice,
                is_missing=lambda one: lacks(one, self._missing()),
            )
            side_by_side.explore()
            self._have_run(group)
            self._found_in_lanes |= side_by_side.found
        return self._found_in_lanes[machine.title]

    def _open_lanes(self, count: int) -> Lanes:
        plan = self.plan
        assert plan.footprint is not None
        host = WorldHost(self._world)
        begin = host.begin(
            footprint=plan.footprint,
            report=plan.report,
            seed=plan.seed,
            known=plan.known,
            deadline=self._deadline,
            bounce_s=self._bounce_s,
            coverage=plan.coverage,
            defect=plan.defect,
        )
        return Lanes(count, begin, host, starters=self._lane_starters, numbers=self._lane_numbers)

    @contextmanager
    def _lanes_for_replays(self, operations: Sequence[AnyOperation]) -> Iterator[Lanes | None]:
        """Lanes that replay histories with these operations; None if the run has none, or a lane would notice them."""
        count = self.plan.lanes
        if has_further_clusters(operations):
            count = self._lanes_with_clusters
        if count == 1 or not can_share_broker(operations):
            yield None
            return
        with self._open_lanes(count) as lanes:
            yield lanes

    @contextmanager
    def _replayer_of(self, operations: Iterable[AnyOperation], until: float) -> Iterator[Replayer]:
        """Performs histories with these operations for shortening and replaying them, in lanes until then."""
        operations = tuple(operations)
        with self._lanes_for_replays(operations) as lanes:
            if lanes is None:
                yield one_by_one(self._rounds.attempt)
            else:
                starts = STARTS_OF_CLUSTERS * lanes.count if has_further_clusters(operations) else 0
                starts_s = self._broker.starts_s(starts) if starts else 0.0
                yield Replayer(partial(self._attempts, lanes, until), at_once=lanes.count, starts_in_s=starts_s)

    def _attempts(self, lanes: Lanes, until: float, histories: Sequence[Operations]) -> list[Attempt | None]:
        replayed = replay_in_lanes(lanes, histories, REPEATED, until)
        return [None if one is None else one.attempt for one in replayed]

    def _emit_failed_twice(self, machine: Machine, failure: HarnessError) -> None:
        how = "could not go on" if self._broker.is_lost else "failed twice"
        self._findings.emit_harness_error(f"{machine.title} {how}: {failure}{self._findings.undecided(machine)}")

    def _explore_once(
        self,
        machine: Machine,
        rounds: Iterator[int],
        until: float | None,
        found: list[FoundViolation],
        is_enough: Callable[[], bool],
    ) -> HarnessError | None:
        """Run rounds of a machine until its time is up, it is enough, or the suite fails.

        It returns the failure, and adds violations to those ``found``.
        """
        self._rounds.begin()

        def is_over() -> bool:
            return self._interrupted or is_enough() or self._findings.must_stop(found)

        try:
            while not self._interrupted:
                self._rounds.run(
                    machine,
                    next(rounds),
                    until=until,
                    is_over=is_over,
                    on_end=lambda ended: self._findings.ended(machine, ended, found),
                )
                self._findings.replay_new(found)
                is_late = until is None or time.monotonic() >= until or self._rounds.is_short
                if is_late or is_over() or self._rounds.failure is not None:
                    break
        except Exception as crash:  # noqa: BLE001 - the other machines can go on
            return crashed(machine.title, crash)
        return self._rounds.failure

    def settle_doubts(self) -> None:
        """Replay the violations that have not come back, if there is a broker.

        Replays may exceed the budget. An interrupt at its end comes from the supervisor, and ends what was running.
        """
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._interrupted = False
        if not (self._broker.is_lost or self._interrupted):
            self._findings.settle_doubts()

    def _is_of_use(self, machine: Machine) -> bool:
        """Whether the broker has what a machine needs, and can decide one of its rules.

        Several clusters are of use only for the rules of replication.
        """
        is_able = machine.needs <= self._world.broker.capabilities
        rules = set(machine.decides)
        if machine.has_further_clusters:
            rules &= OF_REPLICATION
        return is_able and (not rules or not self._undecidable.keys() >= rules)

    def _is_too_late_for(self, machine: Machine) -> bool:
        """Whether too little time is left for an example, or for the clusters that a machine would have to start."""
        budget_s = self.plan.budget_s
        if self._deadline is not None and budget_s and self._deadline - time.monotonic() < least_s(budget_s):
            return True
        starts = machine.has_further_clusters and not self._world.has_clusters
        return starts and self._broker.is_too_late_to_start(STARTS_OF_CLUSTERS)

    def replay(self, history: History, *, times: int) -> list[Violation]:
        """Perform a saved history ``times`` times, or until the budget is used up; returns the violations.

        If the plan has time for it, the first one's history is shortened.
        """
        self._findings.emit_phase("replaying the history")
        broke: list[FoundViolation] = []
        operations = [step.operation for step in history.steps]
        try:
            with self._lanes_for_replays(operations) as lanes:
                for number, (attempt, ended) in enumerate(self._replays(operations, history.machine, times, lanes), 1):
                    if (found := self._findings.replayed(history, number, ended, attempt)) is not None:
                        broke.append(found)
        except HarnessError as harness_error:
            self._findings.emit_harness_error(str(harness_error))
            raise
        if broke and self.plan.shortening_s is not None:
            self._findings.shorten(broke[0])
        return [one.violation for one in broke]

    def _replays(
        self, operations: Operations, machine: str, times: int, lanes: Lanes | None
    ) -> Iterator[tuple[Attempt, ExampleEnded]]:
        """So many replays, or fewer if the budget is used up or the run is interrupted."""
        left = times
        while left and not self._interrupted and (self._deadline is None or time.monotonic() < self._deadline):
            if lanes is None:
                yield self._rounds.replay(operations, machine)
                left -= 1
                continue
            at_once = min(left, lanes.count)
            for one in replay_in_lanes(lanes, [operations] * at_once, machine, self._deadline):
                if one is not None:
                    yield one.attempt, one.ended
            left -= at_once

    def _until(self, machines: Sequence[Machine]) -> float | None:
        """When these machines must end."""
        if self._deadline is None:
            return None
        now = time.monotonic()
        share = time_share(machines, self._later, self._lanes_of)
        return now + max(0.0, self._deadline - now) * share

    def _have_run(self, machines: Sequence[Machine]) -> None:
        self._ran += machines
        self._later = [machine for machine in self._later if machine not in machines]
