"""How often to replay a history, depending on how often its violation comes back.

If a violation always comes back, a part must break the rule in ``CONFIRMATIONS`` consecutive runs to count. If it comes
back sometimes, a part is tried so often that, at the same rate, the violation would come back with probability
``SURE``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from conformance.engine.shortener.attempt import Attempt, Replayer, is_same
from conformance.engine.shortener.model_search import Recording
from conformance.events import Stage
from conformance.history.document import ENOUGH_REPLAYS

CONFIRMATIONS: Final = 2
"""How often a shorter history must break the rule to count."""
SURE: Final = 0.9
"""The probability that a part counts that breaks the rule as often as the whole."""
SELDOM: Final = 0.5
"""Below this rate, a violation must come back only once."""


@dataclass(frozen=True, slots=True)
class Shortest:
    """The shortest history that was found, and in how many of the last tries it broke its rule.

    ``tries`` is 0 if there was no time. If no try broke the rule, the runs during shortening count, too: it is in doubt
    only if no run of it or of a part broke the rule again.

    ``recorded``: the recording with its shortest part, if nothing shorter than the whole came back. ``stages``: how it
    was shortened.
    """

    attempt: Attempt
    tries: int
    came_back: int
    recorded: Recording | None = None
    stages: tuple[Stage, ...] = ()

    @property
    def is_in_doubt(self) -> bool:
        """Whether it did not come back, and was replayed too seldom to be suspected."""
        return self.came_back == 0 and self.tries < ENOUGH_REPLAYS

    @property
    def shown(self) -> Attempt:
        """The history to report."""
        return self.attempt if self.recorded is None else self.recorded.shown

    @property
    def left_out(self) -> int:
        """How many steps of the recording are not in the history to report."""
        if self.recorded is None:
            return 0
        return len(self.recorded.whole.steps) - len(self.recorded.shown.steps)


def only_recorded(whole: Attempt, recording: Recording | None) -> Shortest:
    """The report of a violation that was not replayed, or not shortened by replays."""
    if recording is None:
        return Shortest(whole, 0, 0)
    is_shorter = len(recording.shown.steps) < len(whole.steps)
    return Shortest(whole, 0, 0, recorded=recording if is_shorter else None, stages=(recording.stage,))


@dataclass(frozen=True, slots=True)
class ReplayCounts:
    """The runs of the parts that count, and in how many of them the rule was broken."""

    tries: int = 0
    came_back: int = 0

    def with_runs(self, tries: int, came_back: int) -> ReplayCounts:
        return ReplayCounts(self.tries + tries, self.came_back + came_back)

    @property
    def rate(self) -> float:
        """The expected rate of runs that break the rule, including the first one that did."""
        return (self.came_back + 1) / (self.tries + 1)

    @property
    def confirmations(self) -> tuple[int, int]:
        """How often a part must break the rule, and in how many runs at most."""
        wanted = CONFIRMATIONS if self.rate >= SELDOM else 1
        return wanted, next(runs for runs in itertools.count(wanted) if self._chance(wanted, runs) >= SURE)

    def _chance(self, wanted: int, runs: int) -> float:
        """The probability that at least ``wanted`` of ``runs`` break the rule."""
        fewer = (
            math.comb(runs, broke) * self.rate**broke * (1 - self.rate) ** (runs - broke) for broke in range(wanted)
        )
        return 1 - sum(fewer)


def replay_on(
    doubted: Shortest, originals: Sequence[Attempt], replayer: Replayer, has_time_for: Callable[[float], bool]
) -> Shortest:
    """Replay a violation in doubt until it comes back, is suspected, or time is up.

    ``originals``: the examples that broke the rule, replayed in turn. ``has_time_for``: whether a replay that takes so
    many seconds may begin.
    """
    so_far, in_turn, starts_in_s = doubted, itertools.cycle(originals), replayer.starts_in_s
    while so_far.is_in_doubt:
        batch = list(itertools.islice(in_turn, min(replayer.at_once, ENOUGH_REPLAYS - so_far.tries)))
        if not has_time_for(starts_in_s + max(original.took_s for original in batch)):
            break
        again, starts_in_s = replayer.run([original.operations for original in batch]), 0.0
        pairs = zip(batch, again, strict=True)
        ended = [(original, attempt) for original, attempt in pairs if attempt is not None]
        back = [attempt for original, attempt in ended if _is_back(attempt, original)]
        so_far = replace(
            so_far,
            attempt=back[-1] if back else so_far.attempt,
            tries=so_far.tries + len(ended),
            came_back=len(back),
        )
        if len(ended) < len(batch):
            break
    return so_far


def _is_back(attempt: Attempt, original: Attempt) -> bool:
    assert original.violation is not None
    return is_same(attempt.violation, original.violation)
