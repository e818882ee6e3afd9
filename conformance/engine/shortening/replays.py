"""How often a history is run before something is said of it: by how often its violation comes back.

A violation that always comes back must break the rule in ``CONFIRMATIONS`` runs of a part in a row, for that part to be
kept. One that comes back seldom is looked for in as many runs of the part as would show it, if it came back there as
often as in what was kept before, with a chance of ``SURE``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from conformance.engine.shortening.attempt import Attempt, RunOperations, is_same
from conformance.engine.shortening.recording import Recording
from conformance.events import Stage
from conformance.history.document import ENOUGH_REPLAYS

CONFIRMATIONS: Final = 2
"""How often a shorter history must break the rule to be kept."""
SURE: Final = 0.9
"""The chance that a part is kept that breaks the rule as often as the whole."""
SELDOM: Final = 0.5
"""A violation that comes back in a smaller part of the runs need come back once only."""


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest history that was found, and in how many of the last tries it broke its rule.

    None was made (``tries`` is 0) where there was no time for one. Where none of them broke it, the runs while it was
    made shorter count as well: it is in doubt only if no run of it, or of a part of it, broke the rule again.

    ``recorded``: the recording with the part of it that contradicts the rule, where nothing shorter than the whole came
    back. ``stages``: what was done to find it.
    """

    attempt: Attempt
    tries: int
    came_back: int
    recorded: Recording | None = None
    stages: tuple[Stage, ...] = ()

    @property
    def is_in_doubt(self) -> bool:
        """Whether it did not come back, and was not replayed often enough to say that it does not."""
        return self.came_back == 0 and self.tries < ENOUGH_REPLAYS

    @property
    def shown(self) -> Attempt:
        """The history to report."""
        return self.attempt if self.recorded is None else self.recorded.shortest

    @property
    def left_out(self) -> int:
        """How many steps of the recording are not in the history to report, if that is a part of the recording."""
        if self.recorded is None:
            return 0
        return len(self.recorded.whole.steps) - len(self.recorded.shortest.steps)


def only_recorded(whole: Attempt, recording: Recording | None) -> Shortest:
    """What there is to report of a violation that was not replayed, or not shortened by that."""
    if recording is None:
        return Shortest(whole, 0, 0)
    is_shorter = len(recording.shortest.steps) < len(whole.steps)
    return Shortest(whole, 0, 0, recorded=recording if is_shorter else None, stages=(recording.stage,))


@dataclass(frozen=True, slots=True)
class Tally:
    """In how many runs of what is kept the rule was broken."""

    tries: int = 0
    came_back: int = 0

    def with_runs(self, tries: int, came_back: int) -> Tally:
        """The same with so many runs more."""
        return Tally(self.tries + tries, self.came_back + came_back)

    @property
    def rate(self) -> float:
        """The part of the runs that is expected to break the rule; it did so once when it was found."""
        return (self.came_back + 1) / (self.tries + 1)

    @property
    def confirmations(self) -> tuple[int, int]:
        """How often a part must break the rule, and in how many runs at most."""
        wanted = CONFIRMATIONS if self.rate >= SELDOM else 1
        return wanted, next(runs for runs in itertools.count(wanted) if self._chance(wanted, runs) >= SURE)

    def _chance(self, wanted: int, runs: int) -> float:
        """The chance of at least so many that break the rule in so many runs."""
        fewer = (
            math.comb(runs, broke) * self.rate**broke * (1 - self.rate) ** (runs - broke) for broke in range(wanted)
        )
        return 1 - sum(fewer)


def replay_on(
    doubted: Shortest, originals: Sequence[Attempt], run: RunOperations, has_time_for: Callable[[float], bool]
) -> Shortest:
    """Replay a violation that is in doubt until it comes back, or was replayed often enough, or time is up.

    ``originals``: the examples that broke the rule, replayed in turn. ``has_time_for`` says whether something that
    takes so many seconds may be begun.
    """
    so_far = doubted
    for original in itertools.cycle(originals):
        if not so_far.is_in_doubt or not has_time_for(original.took_s):
            break
        assert original.violation is not None
        attempt = run(original.operations)
        is_back = is_same(attempt.violation, original.violation)
        so_far = replace(
            so_far,
            attempt=attempt if is_back else so_far.attempt,
            tries=so_far.tries + 1,
            came_back=int(is_back),
        )
    return so_far
