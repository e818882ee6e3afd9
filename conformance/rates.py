"""How often something happens in repeated trials: intervals, and tests that end as soon as they are sure.

- :func:`wilson`: the interval of one rate (Wilson, Journal of the American Statistical Association 22, 1927).
- :func:`newcombe`: the interval of the difference of two rates, from Wilson's intervals of both (Newcombe, Statistics
  in Medicine 17, 1998, method 10).
- :func:`fisher`: how probable a difference at least as large is if the first rate is not the higher one (Fisher's exact
  test, one-sided).
- :class:`Presence`: whether something happens at a known rate or hardly ever (Wald's sequential probability ratio test,
  Annals of Mathematical Statistics 16, 1945).
- :class:`Comparison`: whether the first of two rates is higher, looked at a few times.

It performs nothing and knows nothing of replays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

CONFIDENCE: Final = 0.95
"""That of an interval."""

WRONGLY_HIGHER: Final = 0.01
"""The probability at most of calling the first rate higher although it is not, over all looks."""
WRONGLY_ALIKE: Final = 0.05
"""The probability at most of calling two rates alike that differ by ``GREAT`` or more, over all looks."""
GREAT: Final = 0.5
"""The difference of two rates that is not overlooked."""
LOOKS: Final = (6, 12, 24, 48)
"""After how many trials of each kind two rates are compared. Six are the fewest that show the greatest difference."""

WRONGLY_THERE: Final = 0.01
"""The probability at most of taking something for there that happens at less than ``SELDOM`` of its rate."""
WRONGLY_GONE: Final = 0.01
"""The probability at most of taking something for gone that happens at ``STILL`` of its rate or more often."""
STILL: Final = 0.5
SELDOM: Final = 0.02
MOST_TRIALS: Final = 400
"""More trials are not made: a rate below one in fifty stays undecided."""


def wilson(times: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of a rate that was seen ``times`` in ``trials``; it also holds for shares of 0 and 1."""
    if not trials:
        return 0.0, 1.0
    z, rate = NormalDist().inv_cdf(0.5 + confidence / 2), times / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + (z / (2 * trials)) ** 2)
    low, high = ((middle + side * spread) / (1 + z * z / trials) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)


def newcombe(first: Counts, second: Counts, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The interval of the first rate minus the second one."""
    (low, high), (its_low, its_high) = (wilson(one.times, one.trials, confidence) for one in (first, second))
    difference = first.rate - second.rate
    down = math.hypot(first.rate - low, its_high - second.rate)
    up = math.hypot(high - first.rate, second.rate - its_low)
    return max(-1.0, difference - down), min(1.0, difference + up)


def fisher(first: Counts, second: Counts) -> float:
    """The probability of as many of all that happened, or more, among the first trials, if both rates are the same."""
    happened = first.times + second.times
    ways = math.comb(first.trials + second.trials, happened)
    most = min(first.trials, happened)
    so_or_more = range(first.times, most + 1)
    return sum(math.comb(first.trials, n) * math.comb(second.trials, happened - n) for n in so_or_more) / ways


@dataclass(frozen=True, slots=True)
class Counts:
    """How often something happened in how many trials."""

    times: int = 0
    trials: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.times + other.times, self.trials + other.trials)

    def __str__(self) -> str:
        return f"{self.times} of {self.trials}"

    @property
    def rate(self) -> float:
        """The share; 0 without a trial."""
        return self.times / self.trials if self.trials else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Its interval of 95 %."""
        return wilson(self.times, self.trials)


NONE_YET: Final = Counts()
"""No trial."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether something happens, as often as where it is known to, or hardly ever.

    ``rate``: how often it happens where it is known to. Its two hypotheses are half of that rate, and a fiftieth of it.
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"something that is looked for happens at a rate above 0 and at most 1, not {self.rate}")

    def decide(self, seen: Counts) -> Literal["there", "gone"] | None:
        """The decision after these trials; None: more are needed."""
        evidence = self._evidence(seen)
        if evidence >= math.log((1 - WRONGLY_GONE) / WRONGLY_THERE):
            return "there"
        if evidence <= math.log(WRONGLY_GONE / (1 - WRONGLY_THERE)):
            return "gone"
        return None

    def left(self, seen: Counts) -> int:
        """How many more trials decide it if it goes on as it began: in all of them, or in none."""
        goes_on = 1 if seen.times else 0
        return next((n for n in range(1, MOST_TRIALS) if self.decide(seen + Counts(goes_on * n, n))), MOST_TRIALS)

    def _evidence(self, seen: Counts) -> float:
        """The logarithm of how much likelier the trials are if it is there."""
        there, gone = STILL * self.rate, SELDOM * self.rate
        missed = seen.trials - seen.times
        return seen.times * math.log(there / gone) + missed * math.log((1 - there) / (1 - gone))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether the first of two rates is higher, looked at after each number of trials in ``LOOKS``.

    ``higher``: by Fisher's test. ``alike``: both happened, and the upper end of the interval of their difference is
    below ``GREAT``. The probabilities of a wrong answer are divided by the number of looks, so that they hold for all
    looks together; Newcombe's interval is too short for so few trials, and gets half of its share. A test enumerates
    both. Something that never happened in the second trials is never ``alike``, whatever their number.
    """

    first: Counts
    second: Counts

    @property
    def result(self) -> Literal["higher", "alike"] | None:
        """What these trials show; None: nothing yet."""
        if fisher(self.first, self.second) <= WRONGLY_HIGHER / len(LOOKS):
            return "higher"
        both = self.first.times and self.second.times
        _, most = newcombe(self.first, self.second, 1 - WRONGLY_ALIKE / len(LOOKS))
        return "alike" if both and most < GREAT else None

    @property
    def p(self) -> float:
        """Fisher's probability."""
        return fisher(self.first, self.second)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the difference, of 95 %."""
        return newcombe(self.first, self.second)


def next_look(trials: int) -> int | None:
    """The next number of trials at which two rates are compared; None: there is none."""
    return next((look for look in LOOKS if look > trials), None)
