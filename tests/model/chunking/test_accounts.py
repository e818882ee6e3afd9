"""CHUNK-15: chunks count as entries for permits, and neither few permits, a leave nor a slow read leaves one behind."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from model.events import Cleared, Done
from model.example import Example
from model.explain import judge
from model.judgement import Allowed
from model.operations import ClearFailpoints, SetFailpoint, Unload
from model.subscription_operations import CrashConsumer
from model.traffic import CommandAck, CommandFlow, CommandRedeliver, CommandSubscribe, ConsumerCommand
from model.vocabulary import SubscriptionType
from tests.model.chunking.histories import allowed, at, broken, entries, example, joined, left, looked, passed, written

MESSAGE = "a0/3 a1/3 a2/3"
ALL = entries(MESSAGE, 0, 1, 2)
OF_TWO = (CommandSubscribe(), CommandFlow(2))
"""What passes when a consumer with two places subscribes."""
READS_TWICE = "redelivery-reads-in-parallel"


def of_two(log: str = MESSAGE, kind: SubscriptionType = "Shared", *, queue: int = 1000, unknown: str = "") -> Example:
    """A topic with this log, and the consumers c and d."""
    return joined(joined(example(written(log), unknown=unknown), "c", kind, queue=queue), "d", kind, queue=queue)


# ----------------------------------------------------------------------------------------------------- without a permit


@pytest.mark.parametrize(
    ("commands", "is_allowed"),
    [
        (ALL, True),  # a history without recorded permits
        ([CommandSubscribe(), CommandFlow(3), *ALL], True),
        ([CommandSubscribe(), CommandFlow(2), *ALL], False),
        ([CommandSubscribe(), CommandFlow(2), *ALL[:2], CommandFlow(1), ALL[2]], True),
        ([CommandSubscribe(), CommandFlow(9), CommandSubscribe(), CommandFlow(1), *ALL], False),
        ([CommandFlow(1), *ALL], True),  # the step with the subscribe is left out, and the first permits with it
        ([CommandSubscribe(), ALL[0], CommandFlow(1), *ALL[1:]], True),  # the first permits were not recorded
    ],
)
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_each_chunk_takes_a_permit(
    commands: list[ConsumerCommand], kind: SubscriptionType, *, is_allowed: bool
) -> None:
    judged = passed(joined(example(written(MESSAGE)), "c", kind), "c", *commands)
    if is_allowed:
        allowed(judged)
    else:
        assert broken(judged) == ("CHUNK-15", None, "broker")


def test_a_second_read_after_a_redelivery_request_takes_the_permits_of_the_first_again() -> None:
    state = allowed(passed(joined(example(written(MESSAGE)), "c"), "c", *OF_TWO, ALL[0])).state
    redelivered: list[ConsumerCommand] = [CommandRedeliver(()), ALL[0], ALL[1]]
    assert allowed(passed(state, "c", *redelivered)).deviations == (READS_TWICE,)
    unknown = joined(example(written(MESSAGE), unknown=READS_TWICE), "c")
    assert broken(passed(unknown, "c", *OF_TWO, ALL[0], *redelivered))[1] == READS_TWICE


# ----------------------------------------------------------------------------------------------------- left undelivered


def slowed(state: Example) -> Example:
    return allowed(judge(state, SetFailpoint("t", "read-slow"), Done())).state


def at_rest(state: Example) -> Example:
    return allowed(judge(slowed(state), ClearFailpoints(), Cleared(()))).state


def with_leaver(state: Example, *had: int) -> Example:
    """d leaves, and had these entries."""
    return left(allowed(passed(state, "d", *entries(MESSAGE, *had))).state, "d")


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        pytest.param(of_two(), "CHUNK-14", id="no test"),
        pytest.param(of_two(queue=3), "CHUNK-14", id="places for all"),
        pytest.param(of_two(queue=2), "CHUNK-15", id="few permits"),
        pytest.param(slowed(of_two()), "CHUNK-15", id="slow read"),
        pytest.param(at_rest(of_two()), "CHUNK-14", id="slow read before"),
        pytest.param(with_leaver(of_two(), 0, 1, 2), "CHUNK-15", id="leave"),
        pytest.param(with_leaver(of_two()), "CHUNK-03", id="leave without chunks"),
        pytest.param(slowed(of_two("x y")), "CHUNK-14", id="no chunk"),
    ],
)
def test_a_message_that_is_left_undelivered_when_accounts_are_put_to_a_test_breaks_chunk_15(
    state: Example, rule: str
) -> None:
    assert broken(looked(state)) == (rule, None, "broker")


def test_a_reload_ends_what_a_leaver_left() -> None:
    acknowledging = allowed(passed(of_two(f"{MESSAGE} x"), "c", CommandAck((at(3),)))).state
    state = allowed(judge(with_leaver(acknowledging, 0, 1, 2), Unload("t"), Done())).state
    assert broken(looked(state))[0] == "CHUNK-03"


def test_a_crash_is_a_leave() -> None:
    state = allowed(passed(of_two(), "d", *ALL)).state
    state = allowed(judge(state, CrashConsumer("d"), Done())).state
    assert broken(looked(state))[0] == "CHUNK-15"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([CommandSubscribe(), CommandFlow(1)], ("CHUNK-15", None, "client")),
        ([CommandSubscribe(), CommandFlow(1), CommandFlow(1)], ("CHUNK-14", None, "broker")),
    ],
)
def test_permits_that_are_used_up_are_the_clients_fault(
    given: list[ConsumerCommand], expected: tuple[str, str | None, str]
) -> None:
    state = of_two("x y a0/2 a1/2")
    commands: Iterable[ConsumerCommand] = (*given, *entries("x", 0))
    assert broken(looked(state, c=commands, d=[CommandSubscribe(), CommandFlow(1), *entries("x y", 1)])) == expected


# ------------------------------------------------------------------------------------------------------------ exercised


@pytest.mark.parametrize(
    ("state", "is_exercised"), [(of_two(), False), (of_two(queue=2), True), (slowed(of_two()), True)]
)
def test_chunk_15_is_exercised_where_a_complete_message_puts_accounts_to_a_test(
    state: Example, *, is_exercised: bool
) -> None:
    judged = looked(state, c=ALL)
    assert isinstance(judged, Allowed)
    assert ("CHUNK-15" in judged.exercised) is is_exercised


# -------------------------------------------------------------------------------------------- returned without the rest


@pytest.mark.parametrize(
    ("requests", "is_explained"),
    [([CommandRedeliver((at(1),))], True), ([], False), ([CommandRedeliver((at(0),))], False)],
)
def test_another_consumer_may_get_the_last_chunk_that_a_client_returned_alone(
    requests: list[ConsumerCommand], *, is_explained: bool
) -> None:
    log = "a0/2 a1/2"
    of_release = of_two(log, unknown="chunks-dispatched-one-by-one")
    state = allowed(passed(of_release, "c", *entries(log, 0, 1), *requests)).state
    judged = looked(state, d=entries(log, 1))
    if is_explained:
        assert allowed(judged).deviations == ("chunk-nack-returns-last-only",)
    else:
        assert broken(judged)[0] == "CHUNK-14"
