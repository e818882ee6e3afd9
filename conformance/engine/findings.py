"""The violations of a run: it saves their histories, shortens and replays them, and emits events."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from conformance import events
from conformance.brokers.settings import Base
from conformance.coverage.coverage import Drawn
from conformance.engine.budget import ON_TOP_AT_MOST_S, on_top_s, reserve_s, shortening_s
from conformance.engine.found import FoundViolation
from conformance.engine.machines import Machine
from conformance.engine.plan import Plan
from conformance.engine.rounds import ExampleEnded, Rounds
from conformance.engine.shortener.attempt import Attempt, Replayer, is_same
from conformance.engine.shortener.broker_search import FINAL_REPLAYS, minimise
from conformance.engine.shortener.model_search import Recording, shorten_recording
from conformance.engine.shortener.replays import CONFIRMATIONS, Shortest, only_recorded, replay_on
from conformance.faults.seeded_defect import SeededDefect
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History, Replays, Violation, replay_file
from model.deviations import DEVIATIONS
from model.operations import AnyOperation
from model.upgrades import also_broken_by

SHORTENING_WITHOUT_BUDGET_S = 60.0
"""The longest time for shortening one violation's history in a run without a budget."""
RECORDING_AT_MOST_S = 10.0
"""The longest time for shortening one recording with the model; at most a quarter of the time for shortening."""
SLOW_S = 8.0
"""An example that took longer is not replayed before it is shortened."""
COMPARISON_S = 20.0
"""After so many seconds no further replay without the defect starts, once every history had one."""


class Findings:
    """The violations that the examples of a run found."""

    def __init__(
        self,
        plan: Plan,
        rounds: Rounds,
        emit: events.Emitter,
        *,
        began: float,
        deadline: float | None,
        base: Base,
        seeded: SeededDefect | None,
        is_interrupted: Callable[[], bool],
        on_failure: Callable[[HarnessError], bool],
        replayer_of: Callable[[Iterable[AnyOperation], float], AbstractContextManager[Replayer]],
    ) -> None:
        """``rounds`` perform single replays, and ``replayer_of`` operations those of histories with them, until a time
        on the monotonic clock. ``on_failure`` is called after a replay with a harness error: whether the broker serves
        again.
        """
        self.plan = plan
        self.base = base
        self.operations = 0
        self.drawn = Drawn()
        """The choices of all examples, if they are counted."""
        self._rounds = rounds
        self._emit = emit
        self._began = began
        self._deadline = deadline
        self._seeded = seeded
        self._is_interrupted = is_interrupted
        self._on_failure = on_failure
        self._replayer_of = replayer_of
        self._found: list[FoundViolation] = []
        self._doubted: list[tuple[FoundViolation, Shortest]] = []
        self._shortened = 0
        self._checked_in: Counter[str] = Counter()
        self._deviated: set[str] = set()
        self._longest_s: dict[str, float] = {}

    @property
    def are_doubted(self) -> bool:
        """Whether there is a violation that did not come back, and is to be replayed on."""
        return bool(self._doubted)

    def emit_phase(self, what: str, *, within_s: float | None = None) -> None:
        """Emit what the run does. ``within_s``: how long that may take beyond the budget."""
        now_s = self._emit.now_s
        until_s = None if within_s is None else round(now_s + within_s, 3)
        self._emit(events.Phase(at_s=now_s, what=what, until_s=until_s))

    def emit_harness_error(self, sentence: str) -> None:
        """Emit a harness error with the end of the broker's log."""
        tail = self._rounds.world.broker.log_tail()
        self._emit(events.HarnessErrorHappened(at_s=self._emit.now_s, sentence=sentence, log_tail=tail))

    def must_stop(self, found: list[FoundViolation]) -> bool:
        """Whether to stop: with a defect on, one violation that comes back suffices."""
        return self._seeded is not None and any(one.is_steady is not False for one in found)

    def replay_new(self, found: list[FoundViolation]) -> None:
        """With a defect on, replay the violations found; the search goes on if none comes back.

        A slow one counts as coming back: there would be no time to find a better one.
        """
        for one in found:
            if self._seeded is not None and one.is_steady is None:
                again = (self._rounds.attempt(one.attempt.operations).violation for _ in range(CONFIRMATIONS))
                took_s = one.attempt.steps[-1].completed_ms / 1000
                one.is_steady = took_s > SLOW_S or all(is_same(violation, one.violation) for violation in again)

    def worth_shortening(self, found: list[FoundViolation]) -> list[FoundViolation]:
        """All, or with a defect on the one that came back; if none did, the first."""
        if self._seeded is None:
            return found
        return [one for one in found if one.is_steady] or found[:1]

    def ended(self, machine: Machine, ended: ExampleEnded, found: list[FoundViolation]) -> None:
        if not ended.operations:
            return
        self.operations += ended.operations
        if self.plan.coverage is not None:
            self.drawn += ended.drawn
        self._checked_in.update(rule for rule, times in ended.exercised.items() if times)
        self._deviated.update(DEVIATIONS[name].rule for name in ended.deviations if name in DEVIATIONS)
        self._longest_s[machine.title] = max(ended.seconds, self.longest_s(machine))
        self._emit(self._finished(machine.name, ended))
        if ended.violation is not None:
            self._keep(machine.name, ended.attempt, found)

    def _finished(self, machine: str, ended: ExampleEnded) -> events.ExampleFinished:
        return events.ExampleFinished(
            at_s=self._emit.now_s,
            machine=machine,
            operations=ended.operations,
            exercised=ended.exercised,
            deviations=ended.deviations,
            excused=ended.excused,
            seconds=ended.seconds,
        )

    def _keep(self, machine: str, attempt: Attempt, found: list[FoundViolation]) -> None:
        """Save a violation's history; of those alike, only the first, unless it did not come back."""
        violation = attempt.violation
        assert violation is not None
        for one in self._found:
            if is_same(violation, one.violation) and one.is_steady is not False:
                one.count_alike(attempt)
                return
        path = self.plan.report / f"{violation.rule}-{len(self._found) + 1}.json"
        document.write(self._history(machine, attempt), path)
        one = FoundViolation(machine, attempt, violation, path)
        found.append(one)
        self._found.append(one)
        self._emit(self._violation_found(machine, attempt, violation, path))

    def _violation_found(
        self, machine: str, attempt: Attempt, violation: Violation, path: Path
    ) -> events.ViolationFound:
        step = attempt.steps[violation.step - 1]
        return events.ViolationFound(
            at_s=self._emit.now_s,
            machine=machine,
            violation=violation,
            history=str(path),
            operations=self.operations,
            took_s=round((step.completed_ms - step.invoked_ms) / 1000, 3),
            also=also_broken_by(attempt.steps),
        )

    def _history(self, machine: str, attempt: Attempt, replays: Replays | None = None, *, left_out: int = 0) -> History:
        broker = self._rounds.world.broker
        return History(
            machine=machine,
            release=broker.version,
            broker=self.plan.broker,
            clients=self._rounds.world.clients,
            seed=self.plan.seed,
            settings=dict(self._rounds.world.settings),
            base=self.base,
            size=self.plan.size,
            steps=attempt.steps,
            violation=attempt.violation,
            defect=self.plan.defect,
            replays=replays,
            minimal=replays is not None,
            left_out=left_out,
        )

    def shorten(self, one: FoundViolation) -> None:
        """Shorten a violation's history: first its recording, without a broker, then by replays."""
        self.emit_phase(f"making the history of {one.violation.rule} short")
        recording = self._recording(one.attempt)
        try:
            shortest = self._shortest_once_more(one, recording)
            self._shortened += 1
        except HarnessError as harness_error:
            self.emit_harness_error(f"The history of {one.violation.rule} was not replayed: {harness_error}")
            self._on_failure(harness_error)
            self._emit_shortened(one, only_recorded(one.attempt, recording))
            return
        self._emit_shortened(one, shortest)
        if self._seeded is None and shortest.is_in_doubt:
            one.is_steady = False
            self._doubted.append((one, shortest))
        if self._seeded is not None and shortest.tries:
            self._replay_soundly(one, shortest.attempt, self._seeded)

    def _shortest_once_more(self, one: FoundViolation, recording: Recording | None) -> Shortest:
        """The shortest history; if a replay fails, it is tried once more, on a broker that serves again."""
        try:
            return self._shortest(one, recording)
        except HarnessError as harness_error:
            if not self._on_failure(harness_error):
                raise
            return self._shortest(one, recording)

    def _recording(self, attempt: Attempt) -> Recording | None:
        limit_s = min(RECORDING_AT_MOST_S, self.shortening_s() / 4)
        return shorten_recording(attempt, self.plan.known, limit_s=limit_s)

    def _shortest(self, one: FoundViolation, recording: Recording | None) -> Shortest:
        """The shortest history, from the example that broke the rule first, or from one that comes back."""
        first = only_recorded(one.attempt, recording)
        tries = 0
        for number, attempt in enumerate(one.attempts):
            limit_s = self._replay_limit_s()
            with self._replayer_of(attempt.operations, time.monotonic() + limit_s) as replayer:
                shortest = minimise(
                    attempt,
                    replayer,
                    limit_s=self.shortening_s() - (0.0 if recording is None else recording.stage.seconds),
                    replay_limit_s=limit_s,
                    recording=recording if number == 0 else self._recording(attempt),
                )
            if shortest.came_back:
                return shortest
            tries += shortest.tries
            first = shortest if number == 0 else first
        return replace(first, tries=tries)

    def _emit_shortened(self, one: FoundViolation, shortest: Shortest) -> None:
        """Save a violation's shortened history with its replays, and emit it."""
        if not shortest.tries and not shortest.left_out:
            return
        path = one.path.with_name(f"{one.path.stem}-minimal.json")
        replays = Replays(tries=shortest.tries, came_back=shortest.came_back)
        history = self._history(one.machine, shortest.shown, replays, left_out=shortest.left_out)
        document.write(history, path)
        self._emit(
            events.ViolationMinimised(
                at_s=self._emit.now_s,
                original=str(one.path),
                history=str(path),
                steps=len(history.steps),
                tries=shortest.tries,
                came_back=shortest.came_back,
                broke_in=one.broke_in,
                checked_in=max(one.broke_in, self._checked_in[one.violation.rule]),
                stages=shortest.stages,
                also=also_broken_by(history.steps),
            )
        )

    def _replay_soundly(self, one: FoundViolation, shortest: Attempt, seeded: SeededDefect) -> None:
        """Replay a violation without the defect, as it was found and shortened."""
        self.emit_phase("replaying it without the defect")
        enough = time.monotonic() + COMPARISON_S
        broke: list[bool] = []
        with seeded.taken_out():
            for attempt in (one.attempt, *[shortest] * FINAL_REPLAYS):
                if len(broke) > 1 and time.monotonic() > enough:
                    break
                again = self._rounds.attempt(attempt.operations)
                broke.append(again.violation is not None)
        self._emit(
            events.ReplayedSoundly(
                at_s=self._emit.now_s, original=str(one.path), tries=len(broke), came_back=sum(broke)
            )
        )

    def shortening_s(self) -> float:
        """How long the next history may be shortened."""
        if self.plan.shortening_s is not None:
            return self.plan.shortening_s
        if self._deadline is None:
            return SHORTENING_WITHOUT_BUDGET_S
        return shortening_s(self._deadline - time.monotonic(), self._shortened)

    def _replay_limit_s(self) -> float:
        """The time for shortening one history and its replays: that of the plan, or the remaining budget."""
        if self.plan.shortening_s is not None or self._deadline is None:
            return math.inf
        return self._deadline - time.monotonic()

    def settle_doubts(self) -> None:
        """Replay violations that did not come back, until they do or are suspected.

        It uses the remaining budget and the time beyond it.
        """
        for number, (one, shortest) in enumerate(self._doubted):
            until = time.monotonic() + (self._doubts_until() - time.monotonic()) / (len(self._doubted) - number)
            self._emit_doubt(one, until)

            def has_time_for(seconds: float, until: float = until) -> bool:
                return not self._is_interrupted() and time.monotonic() + seconds <= until

            try:
                operations = itertools.chain(*(attempt.operations for attempt in one.attempts))
                with self._replayer_of(operations, until) as replayer:
                    settled = replay_on(shortest, one.attempts, replayer, has_time_for)
            except HarnessError as harness_error:
                self.emit_harness_error(f"The violation of {one.violation.rule} is not replayed on: {harness_error}")
                return
            if settled.tries > shortest.tries:
                self._emit_shortened(one, settled)

    def _doubts_until(self) -> float:
        """When the last replay must end, on the monotonic clock."""
        if self.plan.budget_s is None:
            return time.monotonic() + ON_TOP_AT_MOST_S
        budget_s = self.plan.budget_s
        return self._began + budget_s + on_top_s(budget_s) - reserve_s(budget_s)

    def _emit_doubt(self, one: FoundViolation, until: float) -> None:
        """Emit that a violation is replayed, and when the run ends at the latest."""
        within_s = until - time.monotonic() + reserve_s(self.plan.budget_s or 0.0)
        what = f"replaying the violation of {one.violation.rule}, which did not come back yet"
        self.emit_phase(what, within_s=within_s)

    def replayed(self, history: History, number: int, ended: ExampleEnded, attempt: Attempt) -> FoundViolation | None:
        """Emit one replay: its violation with the history, or that there was none."""
        self.operations += ended.operations
        path = self.plan.report / replay_file(number)
        document.write(self._history(history.machine, attempt), path)
        if attempt.violation is None:
            self._emit(self._finished(history.machine, ended))
            return None
        self._emit(self._violation_found(history.machine, attempt, attempt.violation, path))
        return FoundViolation(history.machine, attempt, attempt.violation, path)

    def unexercised(self, rules: Iterable[str]) -> list[str]:
        """Those of these rules that no example has exercised, and that no known deviation contradicts."""
        return [rule for rule in rules if not self._checked_in[rule] and rule not in self._deviated]

    def longest_s(self, machine: Machine) -> float:
        """The duration of the machine's longest example so far."""
        return self._longest_s.get(machine.title, 0.0)

    def undecided(self, machine: Machine) -> str:
        """The end of a sentence: the rules that a machine leaves undecided if it ends early."""
        left = self.unexercised(machine.decides)
        return f". It leaves undecided: {', '.join(left)}." if left else ""
