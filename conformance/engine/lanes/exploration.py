"""Runs the machines of a group in lanes, for as long as they have time and the broker serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from conformance.engine.findings import Findings
from conformance.engine.found import FoundViolation
from conformance.engine.lanes.lanes import STOP_TIMEOUT_S, LaneProcess, Lanes, Taken, Task
from conformance.engine.lanes.protocol import Replayed, RoundEnded, RunRound, journal_name
from conformance.engine.lanes.turns import Turns
from conformance.engine.machines import Machine
from conformance.engine.rounds import ExampleEnded, unreported
from conformance.harness_error import HarnessError

LATE_SHARE: Final = 0.25
"""The largest part of the remaining budget in which other machines wait for lanes that do not stop."""
STOP_AFTER_DEADLINE_S: Final = 2.0
"""How long they may take beyond that, which at the end of the budget comes from its reserve."""


def patience_s(left_s: float) -> float:
    """How long lanes may take to end their current operations, with so much of the budget left."""
    return min(STOP_TIMEOUT_S, LATE_SHARE * max(0.0, left_s) + STOP_AFTER_DEADLINE_S)


class SideBySide:
    """One group of machines of a run, and their violations."""

    def __init__(
        self,
        group: Sequence[Machine],
        findings: Findings,
        open_lanes: Callable[[], Lanes],
        *,
        until: float | None,
        deadline: float | None,
        has_to_end: Callable[[], bool],
        is_serving: Callable[[], bool],
        is_served_after: Callable[[HarnessError], bool],
        give_up: Callable[[Machine, HarnessError], None],
        is_missing: Callable[[Machine], bool],
    ) -> None:
        """``until``: the end of their time, ``deadline``: the end of the run; None: one round of each.

        ``is_serving``: whether the broker serves; ``is_served_after`` starts it again if necessary. ``give_up`` is
        called for a machine with too many harness errors. ``is_missing``: whether one of the rules that a machine is
        relied on for was not exercised yet.
        """
        self.found: dict[str, list[FoundViolation]] = {machine.title: [] for machine in group}
        self._machines = {machine.name: machine for machine in group}
        self._turns = Turns(group, until, is_missing=is_missing)
        self._findings = findings
        self._open_lanes = open_lanes
        self._deadline = deadline
        self._has_to_end = has_to_end
        self._is_serving = is_serving
        self._is_served_after = is_served_after
        self._give_up = give_up

    def explore(self) -> None:
        """Run rounds until the time is up, or, with a defect on, until a violation comes back."""
        while self._turns.machines and not self._is_over():
            lost = self._run()
            if lost is not None and not self._is_served_after(lost):
                return
            for found in self.found.values():
                self._findings.replay_new(found)

    def _run(self) -> HarnessError | None:
        """Run rounds in lanes until it is over, or the broker does not serve.

        In that case all lanes fail, which counts as one failure, of the first machine.
        """
        lost: list[HarnessError] = []
        self._turns.begin()
        try:
            with self._open_lanes() as lanes:
                late = lanes.run(
                    self._turns.next_round,
                    lambda in_s: bool(lost) or self._is_over(in_s),
                    partial(self._take, lost),
                    self._patience_s,
                )
            if late:
                self._findings.emit_phase(f"lanes that do not stop in time are ended: {_names(late)}")
                self._take_unreported(late)
        except HarnessError as harness_error:
            for machine in self._turns.machines:
                self._give_up(machine, harness_error)
            self._turns.end()
            return harness_error
        return lost[0] if lost else None

    def _take_unreported(self, late: Sequence[LaneProcess]) -> None:
        """Handle what lanes had performed that could not report it any more, a broken rule included."""
        plan = self._findings.plan
        for lane in late:
            if isinstance(lane.task, RunRound):
                journal = plan.report / journal_name(lane.number)
                example = unreported(journal, after=lane.reported, known=plan.known)
                if example is not None:
                    self._take_example(self._machines[lane.task.machine.name], example)

    def _patience_s(self) -> float:
        """How long lanes may take to end their current operations."""
        return STOP_TIMEOUT_S if self._deadline is None else patience_s(self._deadline - time.monotonic())

    def _is_over(self, in_s: float = 0.0) -> bool:
        until = self._turns.until
        is_late = until is not None and time.monotonic() + in_s >= until
        return is_late or self._has_to_end() or any(map(self._findings.must_stop, self.found.values()))

    def _take(self, lost: list[HarnessError], one: Task, taken: Taken) -> None:
        assert isinstance(one, RunRound)
        assert not isinstance(taken, Replayed)
        machine = self._machines[one.machine.name]
        if isinstance(taken, ExampleEnded):
            self._take_example(machine, taken)
            return
        is_given_up = self._turns.ended(one, RoundEnded(is_short=taken.is_short) if lost else taken)
        if taken.failure is None or lost:
            return
        failure = HarnessError(taken.failure)
        if not self._is_serving():
            lost.append(failure)
        if is_given_up:
            self._give_up(machine, failure)

    def _take_example(self, machine: Machine, ended: ExampleEnded) -> None:
        """Handle an example; after a violation, time is reserved for shortening its history."""
        found = self.found[machine.title]
        found_before = len(found)
        self._findings.ended(machine, ended, found)
        if len(found) > found_before and self._deadline is not None and self._turns.until is not None:
            kept_s = self._findings.shortening_s()
            self._turns.until = min(self._turns.until, self._deadline - kept_s)


def _names(lanes: Sequence[LaneProcess]) -> str:
    return ", ".join(sorted({one.task.machine.name for one in lanes if isinstance(one.task, RunRound)}))
