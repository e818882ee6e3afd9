"""One run: machines on one started broker, until their share of the budget is used up.

It tells what happens as events and leaves the verdicts to whoever reads them. It writes, into the report folder, the
journal of everything that was done and a history for each violation.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance import events
from conformance.brokers.settings import Base, Choice
from conformance.brokers.size import SMALLEST, Size
from conformance.clients.security.service import NO_SECURITY, Security
from conformance.engine.budget import ON_TOP_AT_MOST_S, on_top_s, reserve_s
from conformance.engine.example import RunningExample, crashed
from conformance.engine.found import Found
from conformance.engine.machines import Machine
from conformance.engine.minimise import CONFIRMATIONS, FINAL_REPLAYS, Attempt, Shortest, is_same, minimise, replay_on
from conformance.engine.performing import weight
from conformance.engine.rounds import Rounds
from conformance.engine.undecidable import undecidable
from conformance.faults.seeding import SeededDefect
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History, Replays, Violation
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint

MINIMISE_SHARE = 0.25
"""At most this part of what is left of the budget goes into making one violation's history short."""
MINIMISE_WITHOUT_BUDGET_S = 60.0
"""The same, in seconds, where there is no budget."""
SLOW_S = 8.0
"""An example that took longer is not run again before its history is made short."""
LEAST_ON_SHIPPED_S = 12.0
"""With less time than this left, no broker is started once more."""
STARTS_ON_SHIPPED = 3
"""Nor with less than so many times as long as the first start took: on a loaded machine a start takes most of a minute,
and the one on shipped settings is preceded by a stop and must leave time for examples."""
COMPARISON_S = 20.0
"""After so many seconds no further replay without the defect is begun, once every history had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is asked to do. ``budget_s`` counts from the run's beginning; None runs each machine for one round.

    ``shortening_s`` is what making one history short may take on top of that; by default it is a part of it.
    """

    broker: str
    seed: int
    rules: frozenset[str]
    report: Path
    budget_s: float | None = None
    shortening_s: float | None = None
    known: frozenset[str] = frozenset()
    defect: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    security: Security = NO_SECURITY
    footprint: Footprint | None = None
    choice: Choice = "quick"
    size: Size = SMALLEST


class Run:
    """Runs machines on a world, one after the other."""

    def __init__(
        self,
        plan: Plan,
        world: World,
        tell: events.Teller,
        *,
        began: float,
        base: Base = "quick",
        seeded: SeededDefect | None = None,
        on_shipped: Callable[[], World] | None = None,
    ) -> None:
        """``base``: what the settings of the world's broker are on top of; ``seeded``: the defect that it was given.

        ``on_shipped``: ends that broker, and gives a world on another with the settings that its release ships.
        """
        self.plan = plan
        self._seeded = seeded
        self._base: Base = base
        self._on_shipped = on_shipped
        self.operations = 0
        self._is_broker_lost = False
        self._found: list[Found] = []
        self._doubted: list[tuple[Found, Shortest]] = []
        self._checked_in: Counter[str] = Counter()
        self._tell = tell
        self._began = began
        self._start_took_s = time.monotonic() - began
        self._interrupted = False
        self._deadline = began + plan.budget_s - reserve_s(plan.budget_s) if plan.budget_s is not None else None
        self._undecidable: dict[str, str] = {}
        self._shares_left = 0.0
        self._rounds = Rounds(
            world, plan.report / "journal.jsonl", seed=plan.seed, known=plan.known, deadline=self._deadline
        )

    @property
    def _world(self) -> World:
        return self._rounds.world

    def interrupt(self) -> None:
        """Come to an end soon: the example that is running is the last one, and is not finished."""
        self._interrupted = True

    def expect(self, machines: Sequence[Machine]) -> None:
        """Say which machines will be run, so that each that this broker can take gets its share of the budget.

        What this broker cannot be asked to do, and which rules are not decided for that, is told at once.
        """
        self._undecidable = undecidable(machines, self._world)
        for rule, why in self._undecidable.items():
            self._tell(events.NotExercisable(at_s=self._tell.now_s, rule=rule, why=why))
        self._shares_left = sum(machine.share for machine in machines if self._is_of_use(machine))

    def explore(self, machine: Machine) -> list[Violation]:
        """Run a machine for its share of the budget; the violations that it found, known deviations left out."""
        if self._is_broker_lost or not self._is_of_use(machine):
            return []
        if machine.on_shipped and not self._move_to_shipped():
            return []
        self._tell(events.Phase(at_s=self._tell.now_s, what=machine.title))
        until = self._until(machine)
        found: list[Found] = []
        rounds = itertools.count()
        failure = self._explore_once(machine, rounds, until, found)
        if failure is not None and self._is_served_after(failure):
            what = f"{machine.title} once more, which failed: {failure}"
            self._tell(events.Phase(at_s=self._tell.now_s, what=what))
            failure = self._explore_once(machine, rounds, until, found)
            if failure is not None:
                self._is_served_after(failure)
        self._shares_left -= machine.share
        if self._interrupted:
            raise KeyboardInterrupt
        if failure is not None:
            self._tell_harness_error(f"{machine.title} failed twice: {failure}{self._undecided(machine)}")
        for one in self._worth_shortening(found):
            self._minimise(one)
        return [one.violation for one in found]

    def _explore_once(
        self, machine: Machine, rounds: Iterator[int], until: float | None, found: list[Found]
    ) -> HarnessError | None:
        """Run rounds of a machine until its time is up, or the suite fails; and how it failed."""
        self._rounds.begin()

        def is_over() -> bool:
            return self._interrupted or self._must_stop(found)

        try:
            while not self._interrupted:
                self._rounds.run(
                    machine,
                    next(rounds),
                    until=until,
                    is_over=is_over,
                    on_end=lambda example: self._ended(machine, example, found),
                )
                self._replay_new(found)
                is_late = until is None or time.monotonic() >= until or self._rounds.is_short
                if is_late or is_over() or self._rounds.failure is not None:
                    break
        except Exception as crash:  # noqa: BLE001 - whatever a machine raises, the others can go on
            return crashed(machine.title, crash)
        return self._rounds.failure

    def _undecided(self, machine: Machine) -> str:
        """The rules that a machine leaves undecided when it ends early, for a sentence that ends."""
        left = [rule for rule in machine.decides if not self._checked_in[rule]]
        return f". It leaves undecided: {', '.join(left)}." if left else ""

    def _is_served_after(self, failure: HarnessError) -> bool:
        """Whether the broker serves, after an example failed; it is started again where it does not."""
        if self._world.is_serving():
            return True
        what = f"starting the broker again, which does not serve: {failure}"
        self._tell(events.Phase(at_s=self._tell.now_s, what=what))
        try:
            self._world.start_again()
        except HarnessError as harness_error:
            self._is_broker_lost = True
            self._tell_harness_error(f"The broker does not come back, and nothing more is run: {harness_error}")
        return not self._is_broker_lost

    def settle_doubts(self) -> None:
        """Replay what did not come back, until it does, or it was replayed so often that it may be said that it won't.

        What is left of the budget is used for that, and what a run may take on top of it.
        """
        if self._is_broker_lost:
            return
        for number, (one, shortest) in enumerate(self._doubted):
            until = time.monotonic() + (self._doubts_until() - time.monotonic()) / (len(self._doubted) - number)
            self._tell_doubt(one, until)

            def has_time_for(seconds: float, until: float = until) -> bool:
                return not self._interrupted and time.monotonic() + seconds <= until

            try:
                settled = replay_on(shortest, one.attempts, self._rounds.attempt, has_time_for)
            except HarnessError as harness_error:
                self._tell_harness_error(f"The violation of {one.violation.rule} is not replayed on: {harness_error}")
                return
            if settled.tries > shortest.tries:
                self._tell_replays(one, settled)

    def _doubts_until(self) -> float:
        """When the last violation is replayed at the latest, on the monotonic clock."""
        if self.plan.budget_s is None:
            return time.monotonic() + ON_TOP_AT_MOST_S
        budget_s = self.plan.budget_s
        return self._began + budget_s + on_top_s(budget_s) - reserve_s(budget_s)

    def _tell_doubt(self, one: Found, until: float) -> None:
        """Tell that a violation is replayed on, and when the run ends then at the latest."""
        now_s = self._tell.now_s
        ends_s = now_s + until - time.monotonic() + reserve_s(self.plan.budget_s or 0.0)
        what = f"replaying the violation of {one.violation.rule}, which did not come back yet"
        self._tell(events.Phase(at_s=now_s, what=what, until_s=round(ends_s, 3)))

    def _is_of_use(self, machine: Machine) -> bool:
        """Whether this broker can be asked to do what a machine needs, and shows one of the rules that it decides."""
        is_able = machine.needs <= self._world.broker.capabilities
        return is_able and (not machine.decides or not self._undecidable.keys() >= set(machine.decides))

    def _move_to_shipped(self) -> bool:
        """Go on with a broker that has the settings that the release ships; whether there is one, and time for it."""
        if self._base == "shipped":
            return True
        if self._on_shipped is None or self._interrupted:
            return False
        least_s = max(LEAST_ON_SHIPPED_S, STARTS_ON_SHIPPED * self._start_took_s)
        is_late = self._deadline is not None and self._deadline - time.monotonic() < least_s
        if is_late or self._doubted:  # a violation that did not come back is replayed on what it was found on
            self._on_shipped = None
            why = "a violation is replayed first" if self._doubted else "no time is left"
            what = f"nothing is run on the settings that are shipped: {why}"
            self._tell(events.Phase(at_s=self._tell.now_s, what=what))
            return False
        self._tell(events.Phase(at_s=self._tell.now_s, what="starting the broker on the settings that are shipped"))
        try:
            self._rounds.world, self._base = self._on_shipped(), "shipped"
        except HarnessError as harness_error:
            self._is_broker_lost = True
            self._tell_harness_error(str(harness_error))
            return False
        return True

    def _tell_harness_error(self, sentence: str) -> None:
        tail = self._world.broker.log_tail()
        self._tell(events.HarnessErrorHappened(at_s=self._tell.now_s, sentence=sentence, log_tail=tail))

    def replay(self, history: History, *, times: int) -> list[Violation]:
        """Perform a saved history so many times, or until the budget is used up; the violation of each that broke."""
        self._tell(events.Phase(at_s=self._tell.now_s, what="replaying the history"))
        broke: list[Violation] = []
        for number in range(1, times + 1):
            if self._deadline is not None and time.monotonic() >= self._deadline:
                break
            try:
                attempt, lockstep = self._rounds.replay([step.operation for step in history.steps], history.machine)
            except HarnessError as harness_error:
                self._tell_harness_error(str(harness_error))
                raise
            self._replayed(history, number, lockstep, attempt)
            if attempt.violation is not None:
                broke.append(attempt.violation)
        return broke

    def _replayed(self, history: History, number: int, lockstep: Lockstep, attempt: Attempt) -> None:
        """Tell of one replay: the violation, with its history, or else that there was none."""
        operations = sum(weight(step.operation) for step in lockstep.steps)
        self.operations += operations
        if attempt.violation is None:
            self._tell(self._finished(history.machine, operations, lockstep))
            return
        path = self.plan.report / f"replay-{number}.json"
        document.write(self._history(history.machine, attempt), path)
        self._tell(self._violation_found(history.machine, attempt.violation, path))

    def _must_stop(self, found: list[Found]) -> bool:
        """With a defect on, one violation that comes back is all that is wanted."""
        return self._seeded is not None and any(one.is_steady is not False for one in found)

    def _replay_new(self, found: list[Found]) -> None:
        """With a defect on, see whether what was found comes back; if not, the search goes on.

        What takes long is taken for steady: there would be no time to find something better.
        """
        for one in found:
            if self._seeded is not None and one.is_steady is None:
                again = (self._rounds.attempt(one.attempt.operations).violation for _ in range(CONFIRMATIONS))
                took_s = one.attempt.steps[-1].completed_ms / 1000
                one.is_steady = took_s > SLOW_S or all(is_same(violation, one.violation) for violation in again)

    def _worth_shortening(self, found: list[Found]) -> list[Found]:
        """All, or with a defect on the one that came back; if none did, the first."""
        if self._seeded is None:
            return found
        return [one for one in found if one.is_steady] or found[:1]

    def _until(self, machine: Machine) -> float | None:
        if self._deadline is None:
            return None
        now = time.monotonic()
        share = machine.share / self._shares_left if self._shares_left > 0 else 1.0
        return now + max(0.0, self._deadline - now) * min(1.0, share)

    def _ended(self, machine: Machine, example: RunningExample, found: list[Found]) -> None:
        lockstep = example.lockstep
        operations = sum(weight(step.operation) for step in lockstep.steps)
        self.operations += operations
        self._checked_in.update(rule for rule, times in lockstep.exercised.items() if times)
        if not lockstep.steps:
            return
        self._tell(self._finished(machine.name, operations, lockstep))
        if example.violation is not None:
            self._keep(machine, Attempt(tuple(lockstep.steps), lockstep.chosen, example.violation), found)

    def _finished(self, machine: str, operations: int, lockstep: Lockstep) -> events.ExampleFinished:
        return events.ExampleFinished(
            at_s=self._tell.now_s,
            machine=machine,
            operations=operations,
            exercised=dict(lockstep.exercised),
            deviations=dict(lockstep.deviations),
            seconds=round(lockstep.steps[-1].completed_ms / 1000, 3) if lockstep.steps else 0.0,
        )

    def _keep(self, machine: Machine, attempt: Attempt, found: list[Found]) -> None:
        """Write a violation's history; of those alike, only the first is kept, unless that did not come back."""
        violation = attempt.violation
        assert violation is not None
        for one in self._found:
            if is_same(violation, one.violation) and one.is_steady is not False:
                one.count_alike(attempt)
                return
        path = self.plan.report / f"{violation.rule}-{len(self._found) + 1}.json"
        document.write(self._history(machine.name, attempt), path)
        one = Found(machine, attempt, violation, path)
        found.append(one)
        self._found.append(one)
        self._tell(self._violation_found(machine.name, violation, path))

    def _violation_found(self, machine: str, violation: Violation, path: Path) -> events.ViolationFound:
        return events.ViolationFound(
            at_s=self._tell.now_s,
            machine=machine,
            violation=violation,
            history=str(path),
            operations=self.operations,
        )

    def _history(self, machine: str, attempt: Attempt, replays: Replays | None = None) -> History:
        broker = self._world.broker
        return History(
            machine=machine,
            release=broker.version,
            broker=self.plan.broker,
            clients=self._world.clients,
            seed=self.plan.seed,
            settings=dict(self._world.settings),
            base=self._base,
            size=self.plan.size,
            steps=attempt.steps,
            violation=attempt.violation,
            defect=self.plan.defect,
            replays=replays,
            minimal=replays is not None,
        )

    def _minimise(self, one: Found) -> None:
        self._tell(events.Phase(at_s=self._tell.now_s, what=f"making the history of {one.violation.rule} short"))
        try:
            shortest = self._shortest(one)
        except HarnessError as harness_error:
            self._tell_harness_error(f"The history of {one.violation.rule} is as it was found: {harness_error}")
            self._is_served_after(harness_error)
            return
        if shortest.tries:
            self._tell_replays(one, shortest)
        if self._seeded is None and shortest.is_in_doubt:
            one.is_steady = False
            self._doubted.append((one, shortest))
        if self._seeded is not None and shortest.tries:
            self._replay_soundly(one, shortest.attempt, self._seeded)

    def _shortest(self, one: Found) -> Shortest:
        """Make a violation's history short: from the example that showed it first, or from one that comes back."""
        tries = 0
        shortest = Shortest(one.attempt, tries, 0)
        for attempt in one.attempts:
            limit_s, replay_limit_s = self._limit_s(), self._replay_limit_s()
            shortest = minimise(attempt, self._rounds.attempt, limit_s=limit_s, replay_limit_s=replay_limit_s)
            if shortest.came_back:
                return shortest
            tries += shortest.tries
        return Shortest(one.attempt, tries, 0)

    def _tell_replays(self, one: Found, shortest: Shortest) -> None:
        """Write a violation's history as short as it became, with its replays, and tell of it."""
        path = one.path.with_name(f"{one.path.stem}-minimal.json")
        replays = Replays(tries=shortest.tries, came_back=shortest.came_back)
        document.write(self._history(one.machine.name, shortest.attempt, replays), path)
        self._tell(
            events.ViolationMinimised(
                at_s=self._tell.now_s,
                original=str(one.path),
                history=str(path),
                steps=len(shortest.attempt.steps),
                tries=shortest.tries,
                came_back=shortest.came_back,
                broke_in=one.broke_in,
                checked_in=max(one.broke_in, self._checked_in[one.violation.rule]),
            )
        )

    def _replay_soundly(self, one: Found, shortest: Attempt, seeded: SeededDefect) -> None:
        """See whether a violation is the defect's doing: replay it, as it was found and made short, without that."""
        self._tell(events.Phase(at_s=self._tell.now_s, what="replaying it without the defect"))
        enough = time.monotonic() + COMPARISON_S
        broke: list[bool] = []
        with seeded.taken_out():
            for attempt in (one.attempt, *[shortest] * FINAL_REPLAYS):
                if len(broke) > 1 and time.monotonic() > enough:
                    break
                again = self._rounds.attempt(attempt.operations)
                broke.append(again.violation is not None)
        self._tell(
            events.ReplayedSoundly(
                at_s=self._tell.now_s, original=str(one.path), tries=len(broke), came_back=sum(broke)
            )
        )

    def _limit_s(self) -> float:
        if self.plan.shortening_s is not None:
            return self.plan.shortening_s
        if self._deadline is None:
            return MINIMISE_WITHOUT_BUDGET_S
        return max(0.0, self._deadline - time.monotonic()) * MINIMISE_SHARE

    def _replay_limit_s(self) -> float:
        """What is left of the budget, for all that making one history short comes to; it may have its own time."""
        if self.plan.shortening_s is not None or self._deadline is None:
            return math.inf
        return self._deadline - time.monotonic()
