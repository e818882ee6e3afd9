"""Shortening on a broker from what the recording was shortened to, and how often parts are run there.

The simulated broker breaks the rule only if a history has all operations that the violation needs, and only in as
many replays as a test says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from conformance.engine.shortener.attempt import Attempt, Replayer, one_by_one
from conformance.engine.shortener.broker_search import FINAL_REPLAYS, PATIENCE, minimise
from conformance.engine.shortener.model_search import Recording
from conformance.engine.shortener.replays import CONFIRMATIONS, SURE, ReplayCounts, Shortest, replay_on
from conformance.events import Stage
from conformance.history.document import ENOUGH_REPLAYS, Replays
from model.operations import AnyOperation, CreateTopic, Send, Unload
from tests.engine.test_broker_search import LIMIT_S, attempt
from tests.report.samples import entry

LENGTH = 64
WHOLE: tuple[AnyOperation, ...] = tuple(Send("s", (entry(number),)) for number in range(1, LENGTH + 1))
SHOWN = frozenset({20, 60})
"""The steps that show the violation to the model."""
CAUSE = 41
"""The step that the broker needs, and the model does not."""


@dataclass(slots=True)
class Broken:
    """A broker that breaks the rule if it is asked for these operations, in this part of the runs."""

    needed: frozenset[int]
    rate: float = 1.0
    runs: list[int] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def __call__(self, operations: Sequence[AnyOperation]) -> Attempt:
        self.runs.append(len(operations))
        is_shown = all(WHOLE[at] in operations for at in self.needed) and self.chance.random() < self.rate
        return attempt(operations, "DEDUP-03" if is_shown else None)


def recording(shown: frozenset[int] = SHOWN) -> Recording:
    """A recording shortened as it is: half of what is not needed is left out first, then less and less."""
    whole = attempt(WHOLE)
    last = len(whole.steps) - 1
    rungs = [tuple(range(last + 1))]
    size = LENGTH // 2
    while size:
        for start in range(LENGTH - size, -1, -size):
            out = set(range(start, start + size))
            if not out & shown and out & set(rungs[-1]):
                rungs.append(tuple(at for at in rungs[-1] if at not in out))
        size //= 2
    assert set(rungs[-1]) == {*shown, last}
    return Recording(whole, tuple(rungs), Stage(name="recording", seconds=0.1, candidates=9, steps=len(rungs[-1])))


def shortest(broker: Callable[[Sequence[AnyOperation]], Attempt], *, patience: int = PATIENCE) -> Shortest:
    return minimise(attempt(WHOLE), one_by_one(broker), limit_s=LIMIT_S, recording=recording(), patience=patience)


@dataclass(slots=True)
class SideBySide:
    """Performs up to eight histories at once; ``batches``: how many at a time."""

    broker: Broken
    batches: list[int] = field(default_factory=list)

    def shortest(self, *, patience: int = PATIENCE) -> Shortest:
        replayer = Replayer(self.run, at_once=8)
        return minimise(attempt(WHOLE), replayer, limit_s=LIMIT_S, recording=recording(), patience=patience)

    def run(self, histories: Sequence[Sequence[AnyOperation]]) -> list[Attempt | None]:
        self.batches.append(len(histories))
        return [self.broker(operations) for operations in histories]


def places(of: Attempt) -> list[int]:
    return [WHOLE.index(operation) for operation in of.operations]


def test_the_broker_is_asked_first_for_what_the_model_needs() -> None:
    broker = Broken(SHOWN)
    short = shortest(broker)
    assert broker.runs[:CONFIRMATIONS] == [len(SHOWN)] * CONFIRMATIONS
    assert places(short.attempt) == sorted(SHOWN)
    assert (short.left_out, short.shown) == (0, short.attempt)


def test_a_cause_that_the_model_does_not_need_is_added_again() -> None:
    broker = Broken(SHOWN | {CAUSE})
    short = shortest(broker)
    assert places(short.attempt) == sorted(SHOWN | {CAUSE})
    without = Broken(SHOWN | {CAUSE})
    minimise(attempt(WHOLE), one_by_one(without), limit_s=LIMIT_S)
    assert len(broker.runs) < len(without.runs), "the recording saves runs"


@pytest.mark.parametrize("more", [{0}, {63}, {5, CAUSE}, {0, 30, 31, 63}])
def test_every_cause_is_found(more: set[int]) -> None:
    assert places(shortest(Broken(SHOWN | more)).attempt) == sorted(SHOWN | more)


def test_what_the_broker_does_not_need_is_left_out_too() -> None:
    assert places(shortest(Broken(frozenset({20}))).attempt) == [20]


def test_each_stage_is_told_with_its_time_and_steps() -> None:
    broker = Broken(SHOWN)
    of_recording, on_broker = shortest(broker).stages
    assert of_recording == recording().stage
    assert (on_broker.name, on_broker.runs) == ("broker", len(broker.runs))
    assert on_broker.steps == len(SHOWN) + 1
    assert on_broker.candidates > 0
    assert on_broker.seconds >= 0


def test_a_violation_that_comes_back_seldom_is_shortened_with_patience() -> None:
    short = shortest(Broken(SHOWN, rate=0.05), patience=200)
    assert len(short.attempt.operations) < LENGTH // 4
    assert 0 < short.came_back < short.tries / 2
    assert short.left_out == 0


def test_a_violation_that_comes_back_too_seldom_keeps_a_readable_history() -> None:
    broker = Broken(SHOWN, rate=0.0)
    short = shortest(broker)
    assert (short.came_back, short.tries) == (0, PATIENCE)
    assert places(short.shown) == sorted(SHOWN)
    assert short.left_out == LENGTH - len(SHOWN)
    assert short.shown.violation is not None
    assert short.shown.violation.step == len(short.shown.steps)
    assert len(short.attempt.operations) == LENGTH, "the whole is what is replayed on"


def test_a_violation_that_only_the_whole_shows_keeps_a_readable_history() -> None:
    short = shortest(Broken(frozenset(range(LENGTH))))
    assert (short.came_back, short.tries) == (FINAL_REPLAYS, FINAL_REPLAYS)
    assert (len(short.shown.operations), len(short.attempt.operations)) == (len(SHOWN), LENGTH)


def test_a_violation_that_does_not_always_come_back_is_replayed_thirty_times() -> None:
    short = shortest(Broken(SHOWN, rate=0.6))
    assert short.tries == ENOUGH_REPLAYS
    assert 0 < short.came_back < ENOUGH_REPLAYS


@pytest.mark.parametrize(("tries", "came_back"), [(0, 0), (2, 2), (5, 4), (10, 5), (20, 1), (30, 0), (200, 10)])
def test_a_part_is_run_as_often_as_shows_a_violation_of_this_rate(tries: int, came_back: int) -> None:
    counts = ReplayCounts(tries, came_back)
    wanted, runs = counts.confirmations
    chance = random.Random(7)
    trials = [sum(chance.random() < counts.rate for _ in range(runs)) >= wanted for _ in range(4000)]
    assert sum(trials) / len(trials) > SURE - 0.03
    assert (wanted, runs) == (CONFIRMATIONS, CONFIRMATIONS) if came_back == tries else runs > CONFIRMATIONS


def test_a_part_need_come_back_only_once_where_the_violation_is_seldom() -> None:
    """Twice would take most of twice the runs."""
    assert ReplayCounts(20, 1).confirmations == (1, 24)
    assert ReplayCounts(5, 4).confirmations[0] == CONFIRMATIONS


@pytest.mark.parametrize(
    ("came_back", "tries", "low", "high"),
    [(10, 200, 0.0274, 0.0896), (0, 30, 0.0, 0.1135), (5, 5, 0.5655, 1.0), (1, 50, 0.0035, 0.1050), (0, 0, 0.0, 1.0)],
)
def test_the_interval_of_a_rate_is_that_of_wilson(came_back: int, tries: int, low: float, high: float) -> None:
    assert Replays(tries=tries, came_back=came_back).interval == pytest.approx((low, high), abs=5e-4)


def test_nothing_is_replayed_if_what_it_needs_starts_too_late() -> None:
    side_by_side = SideBySide(Broken(SHOWN))
    slow = Replayer(side_by_side.run, at_once=8, starts_in_s=2 * LIMIT_S)
    short = minimise(attempt(WHOLE), slow, limit_s=LIMIT_S, replay_limit_s=LIMIT_S, recording=recording())
    assert (short.tries, side_by_side.batches) == (0, [])
    assert replay_on(short, [attempt(WHOLE)], slow, lambda seconds: seconds < LIMIT_S) == short
    assert replay_on(short, [attempt(WHOLE)], slow, lambda seconds: seconds < 3 * LIMIT_S).tries


@dataclass(slots=True)
class Stalling(SideBySide):
    """Has time for so many batches; of the last one, only the first run ends."""

    at_most: int = 1

    def run(self, histories: Sequence[Sequence[AnyOperation]]) -> list[Attempt | None]:
        assert len(self.batches) < self.at_most, "there is no time for another run"
        attempts = SideBySide.run(self, histories)
        return attempts if len(self.batches) < self.at_most else [attempts[0], *[None] * (len(attempts) - 1)]


@pytest.mark.parametrize("at_most", [1, 2, 3])
def test_after_a_run_that_does_not_end_in_time_no_other_begins(at_most: int) -> None:
    stalling = Stalling(Broken(SHOWN), at_most=at_most)
    short = stalling.shortest()
    assert len(stalling.batches) == at_most
    assert set(places(short.attempt)) >= SHOWN
    (*_, stage) = short.stages
    assert stage.runs == sum(stalling.batches[:-1]) + 1


def test_a_violation_in_doubt_counts_only_the_replays_that_ended() -> None:
    stalling = Stalling(Broken(SHOWN, rate=0.0))
    settled = replay_on(
        Shortest(attempt(WHOLE), 0, 0), [attempt(WHOLE)], Replayer(stalling.run, at_once=8), lambda _: True
    )
    assert (settled.tries, settled.came_back) == (1, 0)


def test_without_a_recording_there_is_one_stage() -> None:
    noise: list[AnyOperation] = [CreateTopic("t1"), Unload("t1")]
    needed = CreateTopic("t0")
    short = minimise(
        attempt((needed, *noise)),
        one_by_one(lambda operations: attempt(operations, "DEDUP-03" if needed in operations else None)),
        limit_s=LIMIT_S,
    )
    assert short.attempt.operations == [needed]
    assert [stage.name for stage in short.stages] == ["broker"]


@pytest.mark.parametrize(("rate", "fraction"), [(1.0, 1 / 2), (0.1, 1 / 4)])
def test_side_by_side_it_takes_a_fraction_of_the_turns_and_comes_to_the_same(rate: float, fraction: float) -> None:
    needed = frozenset({*SHOWN, CAUSE})
    alone, together = Broken(needed, rate), SideBySide(Broken(needed, rate))
    assert places(shortest(alone, patience=100).attempt) == sorted(needed)
    short = together.shortest(patience=100)
    assert places(short.attempt) == sorted(needed)
    assert short.tries == (FINAL_REPLAYS if rate == 1.0 else ENOUGH_REPLAYS)
    assert len(together.batches) < len(alone.runs) * fraction
    assert max(together.batches) == 8
    assert sum(together.batches) == len(together.broker.runs)
