"""Which entries of chunked messages are due to consumers, and what explains those that are not dispatched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.chunking import dispatch
from model.chunking.state import Chunking, ChunkTopic
from model.chunking.tracker import judge
from model.events import DueReceived, Subscribed
from model.example import Example
from model.judgement import Allowed, Broken
from model.subscription_operations import ReceiveDue, Subscribe
from model.traffic import CommandRedeliver
from model.vocabulary import NO_LIMITS, LookAhead, SubscriptionType
from tests.model.chunking.histories import (
    allowed,
    at,
    broken,
    entries,
    example,
    joined,
    left,
    logged,
    looked,
    written,
)

PLAIN = ChunkTopic(100, deduplication=False)


def test_a_complete_message_of_a_shared_subscription_is_due_at_some_consumer() -> None:
    log = logged("a0/2 b0/2 x a1/2")
    assert dispatch.due("Shared", log, [{at(0)}, {at(2)}]) == [at(3)]
    assert dispatch.due("Shared", log, [{at(0), at(2), at(3)}]) == []
    assert dispatch.due("Exclusive", log, [{at(0), at(2), at(3)}]) == [at(1)]
    assert dispatch.due("Shared", log, []) == []


BEYOND_PERMITS, OUTLIVES = "chunk-assigned-beyond-permits", "chunk-assignment-outlives-consumer"


@pytest.mark.parametrize(
    ("kind", "queue", "holds", "is_explained"),
    [
        ("Shared", 2, [[0, 1], []], True),
        ("Shared", 2, [[], [0, 1]], True),
        ("Shared", 1, [[0], []], True),  # two chunks are beyond the permits
        ("Shared", 3, [[0, 1], []], False),  # it has permits for all
        ("Shared", 2, [[0, 1]], False),  # there is nobody else whose permits could have been counted
        ("Shared", 2, [[0], [1]], False),
        ("Shared", 2, [[0, 2], [3]], False),  # one in the middle
        ("Shared", 2, [[], []], False),  # nobody has the first one
        ("Shared", 2, [[0, 1, 2], []], False),  # the message after it
        ("Key_Shared", 2, [[0, 1], []], False),
    ],
)
def test_the_rest_of_a_message_without_a_consumer_is_a_deviation_only_where_few_permits_explain_it(
    kind: SubscriptionType, queue: int, holds: list[list[int]], *, is_explained: bool
) -> None:
    log = "a0/3 a1/3 a2/3 x"
    state = example(written(log), unknown=OUTLIVES)
    for name in "cd"[: len(holds)]:
        state = joined(state, name, kind, queue=queue)
    judged = looked(state, **{name: entries(log, *one) for name, one in zip("cd", holds, strict=False)})
    assert is_explained == (isinstance(judged, Allowed) and judged.deviations == (BEYOND_PERMITS,))
    assert isinstance(judged, Allowed) or judged.deviation is None or not is_explained


@pytest.mark.parametrize(("queue", "is_explained"), [(2, True), (3, True), (4, False)])
def test_entries_of_other_messages_take_permits_of_a_consumer_with_the_first_chunk(
    queue: int, *, is_explained: bool
) -> None:
    log = "x y a0/2 a1/2"
    state = example(written(log))
    for name in "cd":
        state = joined(state, name, "Shared", queue=queue)
    judged = looked(state, c=entries(log, 0, 1, 2))
    assert isinstance(judged, Allowed) is is_explained


def test_a_chunk_that_was_assigned_beyond_permits_is_not_dispatched_until_its_consumer_leaves() -> None:
    log = "a0/2 a1/2"
    state = joined(joined(example(written(log)), "c", "Shared", queue=1), "d", "Shared", queue=1)
    stalled = allowed(looked(state, c=entries(log, 0))).state
    again = allowed(looked(joined(stalled, "e", "Shared", queue=9)))
    assert again.deviations == (BEYOND_PERMITS,)
    without = replace(left(stalled, "c"), known=stalled.known - {OUTLIVES})
    assert isinstance(looked(without), Broken)


def after_a_join(
    topic: ChunkTopic, before: list[int], log: str, kind: SubscriptionType = "Key_Shared", *, joins: bool = True
) -> Example:
    """Of a log that is written so far, c has these entries, when d joins; then the rest is written."""
    had = log.split()[: max(before, default=-1) + 1]
    so_far = replace(written(" ".join(had)), drains=topic.drains, look_ahead=topic.look_ahead)
    state = joined(example(so_far), "c", kind)
    state = allowed(looked(state, c=entries(log, *before))).state
    if joins:
        state = allowed(looked(joined(state, "d", kind))).state
    return replace(state, chunking=state.chunking.with_topic("t", topic))


@pytest.mark.parametrize(("key", "is_explained"), [("k0", True), ("k1", False), (None, False)])
def test_a_draining_hash_blocks_later_messages_of_the_same_key(key: str | None, *, is_explained: bool) -> None:
    log = "a0/2 a1/2 x"
    topic = written(log, {"a": "k0", "x": key or ""})
    judged = looked(after_a_join(topic, [0], log))
    assert isinstance(judged, Allowed) is is_explained


@pytest.mark.parametrize(
    ("log", "before", "joins", "later", "is_explained", "is_explained_if_full"),
    [
        ("a0/3 a1/3 a2/3", [0, 1], True, [], True, True),
        ("a0/3 a1/3 a2/3", [0], True, [], True, True),
        ("a0/3 a1/3 a2/3", [], True, [0, 1], False, False),  # nobody joined or left since
        ("a0/3 a1/3 a2/3", [0], True, [1], False, False),  # a chunk was dispatched since: its hash does not drain
        ("a0/3 a1/3 a2/3", [], True, [], False, False),  # nobody has the first chunk
        ("a0/3 a1/3 a2/3 x", [0, 1], True, [], False, True),  # the message of another hash
        ("a0/3 a1/3 a2/3", [0, 1], False, [], False, False),  # the consumer is alone
    ],
)
def test_chunks_that_a_draining_hash_does_not_block_are_due(
    log: str, before: list[int], joins: bool, later: list[int], is_explained: bool, is_explained_if_full: bool
) -> None:
    for look_ahead, is_so in ((NO_LIMITS, is_explained), (LookAhead(0, 1), is_explained_if_full)):
        topic = replace(written(log), look_ahead=look_ahead)
        judged = looked(after_a_join(topic, before, log, joins=joins), c=entries(log, *later))
        if is_so:
            assert allowed(judged).deviations == ("draining-hash-blocks-chunks",)
        else:
            assert broken(judged)[1] is None


RECENTLY_JOINED = "recently-joined-waits-for-chunks"


@pytest.mark.parametrize(
    ("log", "before", "joins", "c", "d", "is_explained"),
    [
        ("a0/3 a1/3 a2/3", [0, 1], True, [], [], True),
        ("a0/3 a1/3 a2/3 y", [0, 1], True, [], [], True),  # nothing more is read
        ("a0/3 a1/3 y a2/3", [0, 1], True, [], [], True),
        ("a0/3 a1/3 a2/3", [], True, [0, 1], [], False),  # nobody joined or left since
        ("a0/3 a1/3 a2/3", [0], True, [1], [], False),  # a chunk was dispatched since
        ("a0/3 a1/3 a2/3 y", [0, 1], True, [], [2], True),  # the other chunk went to the one that joined
        ("a0/3 a1/3 a2/3 y", [0], True, [1], [2], False),  # the first one read a chunk since
        ("a0/3 a1/3 a2/3", [0, 1], False, [], [], False),  # the consumer is alone
        ("a0/3 y", [0], True, [], [], True),  # an unfinished message
        ("a0/3 y", [], True, [0], [], False),  # nobody joined since
        ("a0/3 y", [], True, [], [], False),  # it has no chunk of the unfinished message
    ],
)
def test_chunks_that_a_recently_joined_consumer_does_not_wait_for_are_due(
    log: str, before: list[int], joins: bool, c: list[int], d: list[int], is_explained: bool
) -> None:
    sent = {"c": entries(log, *c), **({"d": entries(log, *d)} if joins else {})}
    judged = looked(after_a_join(replace(written(log), drains=False), before, log, joins=joins), **sent)
    if not is_explained:
        assert broken(judged)[1] is None
        return
    assert RECENTLY_JOINED in allowed(judged).deviations
    with_draining_hashes = looked(after_a_join(written(log), before, log, joins=joins), **sent)
    assert isinstance(with_draining_hashes, Broken) or RECENTLY_JOINED not in with_draining_hashes.deviations


@pytest.mark.parametrize("log", ["x a0/3 a1/3 a2/3", "a0/3 a1/3 x a2/3", "a0/3 x y"])
def test_a_recently_joined_consumer_does_not_wait_for_what_was_read_before_it_joined(log: str) -> None:
    """Message x is redelivered."""
    number = log.split().index("x")
    before = [number for number in range(3) if log.split()[number] != "y"]
    returns = CommandRedeliver((at(number),))
    judged = looked(after_a_join(replace(written(log), drains=False), before, log), c=[returns])
    assert broken(judged)[1] is None


@pytest.mark.parametrize(
    ("before", "c", "deviation"),
    [([0, 1], [], "hash-reassigned-between-chunks"), ([0], [1], None), ([], [0, 1], None)],
)
def test_chunks_of_one_message_at_two_consumers_are_a_deviation_only_after_a_reassignment(
    before: list[int], c: list[int], deviation: str | None
) -> None:
    log = "a0/3 a1/3 a2/3"
    judged = looked(after_a_join(written(log), before, log), c=entries(log, *c), d=entries(log, 2))
    if deviation is None:
        assert broken(judged)[:2] == ("CHUNK-14", None)
        return
    assert allowed(judged).deviations == (deviation,)
    longer_log = f"{log} b0/2 b1/2"
    state = after_a_join(written(longer_log), before, longer_log)
    later = looked(state, c=entries(longer_log, 3), d=entries(longer_log, 2, 4))
    assert broken(later)[1] is None, "another message was split without a reassignment"


def test_a_shared_subscription_of_early_releases_scatters_chunks() -> None:
    log = "a0/3 a1/3 a2/3"
    state = joined(joined(example(written(log)), "c", "Shared"), "d", "Shared")
    scattered = looked(state, c=entries(log, 0, 1), d=entries(log, 2))
    assert allowed(scattered).deviations == ("chunks-dispatched-one-by-one",)
    assert allowed(looked(state, c=entries(log, 0, 1, 2))).deviations == ()
    twice = looked(state, c=entries(log, 0, 1, 2), d=entries(log, 2))
    assert broken(twice)[1] is None, "a chunk was dispatched to both"


@pytest.mark.parametrize("drains", [True, False])
def test_the_owner_of_a_chunked_topic_decides_its_implementation_of_key_shared(*, drains: bool) -> None:
    state = Chunking(topics={"t": replace(PLAIN, drains=not drains)})
    for operation, outcome, expected in (
        (Subscribe("c", "t", "s", kind="Key_Shared"), Subscribed(drains=drains), drains),
        (ReceiveDue("t", "s"), DueReceived(), drains),
        (ReceiveDue("t", "s"), DueReceived(drains=not drains), not drains),
    ):
        judged = judge(state, {}, operation, outcome)
        assert isinstance(judged, Allowed)
        state = judged.state
        assert state.topics["t"].drains is expected
