"""Shortening a history, on a simulated system that breaks a rule on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle, repeat

from conformance.engine.shortener.attempt import Attempt, Replayer, one_by_one
from conformance.engine.shortener.broker_search import FINAL_REPLAYS, minimise
from conformance.engine.shortener.replays import CONFIRMATIONS, Shortest, replay_on
from conformance.history.document import ENOUGH_REPLAYS, Step, Violation
from model.events import Done, Skipped
from model.operations import AnyOperation, CloseProducer, CreateTopic, OpenProducer, ReadLog, Send, Unload
from tests.report.samples import entry, step

NEEDED: tuple[AnyOperation, ...] = (CreateTopic("t0"), OpenProducer("s1", "t0", "p0"), Send("s1", (entry(3),)))
NOISE: tuple[AnyOperation, ...] = (
    CreateTopic("t1"),
    OpenProducer("s2", "t1", "p0"),
    Send("s2", (entry(1), entry(2))),
    Unload("t1"),
    Unload("t0"),
    Unload("t0"),
    Unload("t0"),
)
FINISHING = (ReadLog("t0"),)
LIMIT_S = 30.0

Breaks = Callable[[Sequence[AnyOperation]], bool]


def broken(rule: str = "DEDUP-03", *, at: int = 1) -> Violation:
    return Violation(rule=rule, because="it was stored again", step=at)


def attempt(operations: Sequence[AnyOperation], rule: str | None = "DEDUP-03") -> Attempt:
    """What these operations come to, on a system that reads the log back at the end."""
    steps = tuple(step(operation) for operation in (*operations, *FINISHING))
    return Attempt(steps, len(operations), None if rule is None else broken(rule, at=len(steps)))


def outcome(breaks: Breaks) -> Callable[[Sequence[AnyOperation]], Attempt]:
    """A system that breaks DEDUP-03 on these operations, and on no others."""
    return lambda operations: attempt(operations, "DEDUP-03" if breaks(operations) else None)


def system(breaks: Breaks) -> Replayer:
    """The same, for one history after the other."""
    return one_by_one(outcome(breaks))


def needs(*operations: AnyOperation) -> Breaks:
    return lambda performed: all(operation in performed for operation in operations)


def sends(sequence_id: int) -> Breaks:
    return lambda performed: any(isinstance(o, Send) and entry(sequence_id) in o.entries for o in performed)


def operations_of(shortest: Attempt) -> tuple[AnyOperation, ...]:
    return tuple(shortest.operations)


def test_only_what_the_violation_needs_is_kept() -> None:
    shortest = minimise(attempt((*NOISE, *NEEDED)), system(needs(*NEEDED)), limit_s=LIMIT_S)
    assert operations_of(shortest.attempt) == NEEDED
    assert (shortest.tries, shortest.came_back) == (FINAL_REPLAYS, FINAL_REPLAYS)


def test_entries_of_a_send_are_removed_too() -> None:
    long = Send("s1", (entry(1), entry(2), entry(3), entry(4)))
    shortest = minimise(attempt((*NEEDED[:2], long)), system(sends(3)), limit_s=LIMIT_S)
    assert operations_of(shortest.attempt) == (Send("s1", (entry(3),)),)


def test_other_topics_are_removed_at_once() -> None:
    tried: list[int] = []

    def run(operations: Sequence[AnyOperation]) -> Attempt:
        tried.append(len(operations))
        return outcome(needs(*NEEDED))(operations)

    minimise(attempt((*NEEDED, *NOISE)), one_by_one(run), limit_s=LIMIT_S)
    assert tried[0] == len(NEEDED) + 3, "the topic was unloaded three times"


def test_skipped_operations_are_removed_at_once() -> None:
    skipped = step(CloseProducer("s9"), Skipped("there is no such session"))
    steps = (*(step(operation) for operation in NEEDED), skipped)
    original = Attempt(steps, len(steps), broken(at=len(steps)))
    tried: list[Sequence[AnyOperation]] = []

    def run(operations: Sequence[AnyOperation]) -> Attempt:
        tried.append(operations)
        return outcome(needs(*NEEDED))(operations)

    minimise(original, one_by_one(run), limit_s=LIMIT_S)
    assert tuple(tried[0]) == NEEDED


def test_operations_that_finish_an_example_do_not_count() -> None:
    shortest = minimise(attempt((*NOISE, *NEEDED)), system(needs(*NEEDED)), limit_s=LIMIT_S)
    assert [step.operation for step in shortest.attempt.steps] == [*NEEDED, *FINISHING]


def test_another_topic_that_the_violation_needs_is_kept() -> None:
    wanted = needs(NOISE[0], *NEEDED)
    shortest = minimise(attempt((*NOISE, *NEEDED)), system(wanted), limit_s=LIMIT_S)
    assert operations_of(shortest.attempt) == (NOISE[0], *NEEDED)


def test_a_part_that_breaks_another_rule_is_not_kept() -> None:
    def run(operations: Sequence[AnyOperation]) -> Attempt:
        return attempt(operations, "DEDUP-03" if needs(*NEEDED)(operations) else "DEDUP-09")

    assert operations_of(minimise(attempt((*NOISE, *NEEDED)), one_by_one(run), limit_s=LIMIT_S).attempt) == NEEDED


def test_a_part_that_does_not_always_break_the_rule_is_not_kept() -> None:
    flaky: Iterator[bool] = cycle([*[True] * (CONFIRMATIONS - 1), False])
    shortest = minimise(attempt((*NOISE, *NEEDED)), system(lambda _: next(flaky)), limit_s=LIMIT_S)
    assert operations_of(shortest.attempt) == (*NOISE, *NEEDED)
    assert 0 < shortest.came_back < shortest.tries


def test_a_history_that_never_comes_back_is_reported_as_a_whole() -> None:
    original = attempt((*NOISE, *NEEDED))
    shortest = minimise(original, system(lambda _: False), limit_s=LIMIT_S)
    assert shortest.attempt == original
    assert shortest.came_back == 0


def test_a_part_that_broke_the_rule_once_is_reported_if_the_whole_does_not_come_back() -> None:
    """The first candidate breaks the rule once, and nothing ever does afterwards."""
    flaky: Iterator[bool] = chain([True], repeat(False))
    shortest = minimise(attempt((*NOISE, *NEEDED)), system(lambda _: next(flaky)), limit_s=LIMIT_S)
    assert len(shortest.attempt.operations) < len(NOISE) + len(NEEDED)
    assert (shortest.tries, shortest.came_back) == (CONFIRMATIONS + FINAL_REPLAYS, 1)
    assert not shortest.is_in_doubt


def test_a_part_kept_by_luck_is_reported_with_its_replays() -> None:
    flaky: Iterator[bool] = chain([True] * CONFIRMATIONS, repeat(False))
    shortest = minimise(attempt((*NOISE, *NEEDED)), system(lambda _: next(flaky)), limit_s=LIMIT_S)
    assert len(shortest.attempt.operations) < len(NOISE) + len(NEEDED)
    assert (shortest.tries, shortest.came_back) == (FINAL_REPLAYS + CONFIRMATIONS, CONFIRMATIONS)
    assert not shortest.is_in_doubt


def replayed_on(breaks: Breaks, *, tries: int = FINAL_REPLAYS, replays_at_most: int = 1000) -> Shortest:
    """What comes of a violation that did not come back in ``tries`` replays, with time for so many more."""
    original = attempt(NEEDED)
    time_for = chain([True] * replays_at_most, repeat(False))
    return replay_on(Shortest(original, tries, 0), [original], system(breaks), lambda _: next(time_for))


def test_a_history_that_never_comes_back_is_replayed_thirty_times() -> None:
    settled = replayed_on(lambda _: False)
    assert (settled.tries, settled.came_back) == (ENOUGH_REPLAYS, 0)
    assert ENOUGH_REPLAYS == 30
    assert not settled.is_in_doubt


def test_a_history_is_replayed_until_it_comes_back() -> None:
    flaky: Iterator[bool] = chain([False] * 10, repeat(True))
    settled = replayed_on(lambda _: next(flaky))
    assert (settled.tries, settled.came_back) == (FINAL_REPLAYS + 11, 1)


def test_a_suspected_violation_is_replayed_only_while_there_is_time() -> None:
    settled = replayed_on(lambda _: False, replays_at_most=3)
    assert (settled.tries, settled.came_back) == (FINAL_REPLAYS + 3, 0)
    assert settled.is_in_doubt


def test_a_suspected_violation_is_replayed_from_each_of_its_examples() -> None:
    first, second = attempt(NEEDED), attempt((*NOISE, *NEEDED))
    settled = replay_on(Shortest(first, 0, 0), [first, second], system(needs(*NOISE)), lambda _: True)
    assert operations_of(settled.attempt) == (*NOISE, *NEEDED)
    assert (settled.tries, settled.came_back) == (2, 1)


def test_without_time_a_history_is_only_replayed() -> None:
    original = attempt((*NOISE, *NEEDED))
    shortest = minimise(original, system(lambda _: True), limit_s=0)
    assert operations_of(shortest.attempt) == (*NOISE, *NEEDED)
    assert shortest.tries == CONFIRMATIONS, "even then it is seen how surely it comes back"


def test_a_replay_that_would_not_end_in_time_is_not_begun() -> None:
    """One run takes as long as the original did, but for its first step."""
    first = Step(operation=NEEDED[0], outcome=Done(), invoked_ms=0, completed_ms=10_000)
    last = Step(operation=NEEDED[1], outcome=Done(), invoked_ms=10_000, completed_ms=25_000)
    original = Attempt((first, last), 2, broken(at=2))
    tried: list[Sequence[AnyOperation]] = []

    def run(operations: Sequence[AnyOperation]) -> Attempt:
        tried.append(operations)
        return original

    assert minimise(original, one_by_one(run), limit_s=14, replay_limit_s=14).tries == 0
    assert tried == []
    assert minimise(original, one_by_one(run), limit_s=14, replay_limit_s=16).tries == CONFIRMATIONS
    assert minimise(original, one_by_one(run), limit_s=16, replay_limit_s=16).tries == FINAL_REPLAYS
