"""Stored histories of deviations, performed side by side in the lanes that ``check`` has.

The first test that asks for a history has all of them performed: those of one broker in six lanes, those of several
clusters in two, whose clusters start once. A history that others would notice is performed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from conformance.brokers.size import SMALLEST, Size
from conformance.engine.lanes.host import WorldHost
from conformance.engine.lanes.lanes import Lanes
from conformance.engine.lanes.replay import can_share_broker, has_further_clusters, replay_in_lanes
from conformance.engine.lanes.starters import LaneStarters
from conformance.engine.rounds import REPEATED
from conformance.engine.shortener.attempt import Attempt
from conformance.harness_error import HarnessError
from conformance.history import document
from conformance.history.document import History, Violation
from conformance.known import KnownDeviation
from model.deviations import DEVIATIONS
from model.judgement import Broken
from model.operations import AnyOperation
from tests.replays import stored
from tests.replays.seeded_world import SeededWorld
from tests.verdicts import judged

LANES: Final = 6
LANES_WITH_CLUSTERS: Final = 2
BOUNCE_S: Final = 60.0

Perform = Callable[[Sequence[list[AnyOperation]]], Sequence[Attempt | HarnessError]]


@dataclass(slots=True)
class Replayed:
    """What came of the replays of one history: violations though all is known, and what breaks if it is not."""

    tries: int = 0
    violations: list[Violation] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    failure: HarnessError | None = None
    """What ended its replays."""

    @property
    def certain(self) -> list[Violation]:
        """The violations without those that were only overdue, once: ``check`` calls these suspected, too."""
        overdue = [one for one in self.violations if one.is_overdue]
        return self.violations if len(overdue) > 1 else [one for one in self.violations if not one.is_overdue]


class Replays:
    """The replays of the histories of some deviations."""

    def __init__(
        self,
        shown: Collection[KnownDeviation],
        seeded_of: Callable[[Size], SeededWorld],
        others: Callable[[str], Collection[str]],
        report: Path,
    ) -> None:
        """``others``: the deviations that do not explain what one does. ``report``: where lanes write journals."""
        self._seeded_of = seeded_of
        self._others = others
        self._report = report
        self._histories: Final = {one.name: document.read(Path(str(one.history))) for one in shown}
        self._replayed: dict[str, Replayed] = {}

    @property
    def names(self) -> Collection[str]:
        """The deviations whose histories these are."""
        return self._histories.keys()

    def of(self, name: str) -> Replayed:
        """The replays of one deviation's history."""
        if not self._replayed:
            self._perform_all()
        return self._replayed[name]

    def _perform_all(self) -> None:
        alone, in_clusters, beside = list[str](), list[str](), list[str]()
        for name, history in self._histories.items():
            operations = operations_of(history)
            is_shared = can_share_broker(operations) and history.size == SMALLEST
            (beside if is_shared else alone).append(name)
            if is_shared and has_further_clusters(operations):
                in_clusters.append(beside.pop())
        for names, count in ((beside, LANES), (in_clusters, LANES_WITH_CLUSTERS)):
            if names:
                with ExitStack() as stack:
                    self._repeat(names, self._open_lanes(count, stack))
        for name in alone:
            seeded = self._seeded_of(self._histories[name].size)
            self._repeat([name], partial(_alone, seeded))

    def _repeat(self, names: Collection[str], perform: Perform) -> None:
        """Perform these histories until each came back; one of a race as often as it may be, for its rate."""
        self._replayed |= {name: Replayed() for name in names}
        for _ in range(stored.TRIES):
            left = [name for name in names if self._is_undecided(name)]
            if not left:
                break
            for name, attempt in zip(
                left, perform([operations_of(self._histories[name]) for name in left]), strict=True
            ):
                self._take(name, attempt)

    def _is_undecided(self, name: str) -> bool:
        replayed = self._replayed[name]
        if replayed.failure is not None or replayed.certain:
            return False
        is_suspected = bool(replayed.violations)
        return is_suspected or not replayed.broken or stored.is_race(self._histories[name])

    def _take(self, name: str, attempt: Attempt | HarnessError) -> None:
        replayed = self._replayed[name]
        if isinstance(attempt, HarnessError):
            replayed.failure = attempt
            return
        replayed.tries += 1
        if attempt.violation is not None:
            replayed.violations.append(attempt.violation)
            return
        broken = judged(*attempt.steps, known=self._others(name))
        if isinstance(broken, Broken):  # otherwise it did not come back, or others explain what came instead
            replayed.broken.append(broken)

    def _open_lanes(self, count: int, stack: ExitStack) -> Perform:
        seeded = self._seeded_of(SMALLEST)
        starters = LaneStarters(())
        stack.callback(starters.close)
        host = WorldHost(seeded.world)
        begin = host.begin(
            footprint=seeded.footprint,
            report=self._report,
            seed=0,
            known=frozenset(DEVIATIONS),
            deadline=None,
            bounce_s=BOUNCE_S,
        )
        lanes = stack.enter_context(Lanes(count, begin, host, starters=starters, numbers=seeded.lane_numbers))

        def perform(histories: Sequence[list[AnyOperation]]) -> Sequence[Attempt | HarnessError]:
            try:
                return [one.attempt for one in replay_in_lanes(lanes, histories, REPEATED) if one is not None]
            except HarnessError as harness_error:
                if len(histories) == 1:
                    return [harness_error]
                return [one for history in histories for one in perform([history])]

        return perform


def operations_of(history: History) -> list[AnyOperation]:
    """What is performed in a replay."""
    return [step.operation for step in history.steps]


def _alone(seeded: SeededWorld, histories: Sequence[list[AnyOperation]]) -> Sequence[Attempt | HarnessError]:
    try:
        return [seeded.perform(operations, frozenset(DEVIATIONS)) for operations in histories]
    except HarnessError as harness_error:
        return [harness_error] * len(histories)
