"""Which entries of chunked messages are due to consumers, and what explains those that are not dispatched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.chunking import dispatch
from model.chunking.state import (
    Chunking,
    ChunkingProducer,
    ChunkTopic,
    SentMessage,
)
from model.chunking.tracker import judge
from model.events import DueReceived, Subscribed
from model.excuses.chunking import (
    CHUNK_ASSIGNED_BEYOND_PERMITS,
    CHUNKS_DISPATCHED_ONE_BY_ONE,
    DRAINING_HASH_BLOCKS_CHUNKS,
    HASH_REASSIGNED_BETWEEN_CHUNKS,
    RECENTLY_JOINED_WAITS_FOR_CHUNKS,
)
from model.judgement import Allowed, Broken
from model.subscription_operations import ReceiveDue, Subscribe
from model.vocabulary import LookAhead, SubscriptionId, SubscriptionType
from tests.model.chunking.histories import PRODUCER, at, consumer, logged

PLAIN = ChunkTopic(100, deduplication=False)


def test_a_complete_message_of_a_shared_subscription_is_due_at_some_consumer() -> None:
    log = logged("a0/2 b0/2 x a1/2")
    assert dispatch.due("Shared", log, [{at(0)}, {at(2)}]) == [at(3)]
    assert dispatch.due("Shared", log, [{at(0), at(2), at(3)}]) == []
    assert dispatch.due("Exclusive", log, [{at(0), at(2), at(3)}]) == [at(1)]
    assert dispatch.due("Shared", log, []) == []


@pytest.mark.parametrize(
    ("kind", "queue", "holds", "deviation"),
    [
        ("Shared", 2, [{0, 1}, set()], CHUNK_ASSIGNED_BEYOND_PERMITS),
        ("Shared", 2, [set(), {0, 1}], CHUNK_ASSIGNED_BEYOND_PERMITS),
        ("Shared", 1, [{0}, set()], CHUNK_ASSIGNED_BEYOND_PERMITS),  # two chunks are beyond the permits
        ("Shared", 3, [{0, 1}, set()], None),  # it has permits for all
        ("Shared", 2, [{0, 1}], None),  # there is nobody else whose permits could have been counted
        ("Shared", 2, [{0}, {1}], None),
        ("Shared", 2, [{0, 2}, {3}], None),  # one in the middle
        ("Shared", 2, [set(), set()], None),  # nobody has the first one
        ("Shared", 2, [{0, 1, 2}, set()], None),  # the message after it
        ("Key_Shared", 2, [{0, 1}, set()], None),
    ],
)
def test_the_rest_of_a_message_without_a_consumer_is_a_deviation_only_where_few_permits_explain_it(
    kind: SubscriptionType, queue: int, holds: list[set[int]], deviation: str | None
) -> None:
    log = logged("a0/3 a1/3 a2/3 x")
    topic, consumers = (
        replace(PLAIN, log=log),
        [replace(consumer(), kind=kind, queue=queue, holds=frozenset(map(at, one))) for one in holds],
    )
    sent = {position for one in consumers for position in one.holds}
    owed = [one.position for one in log if one.position not in sent]
    assert dispatch.starved(SubscriptionId("t", "s"), topic, consumers, owed, is_stuck=False).deviation == deviation


@pytest.mark.parametrize(("queue", "is_explained"), [(2, True), (3, True), (4, False)])
def test_entries_of_other_messages_take_permits_of_a_consumer_with_the_first_chunk(
    queue: int, *, is_explained: bool
) -> None:
    first, other = (
        replace(consumer(), kind="Shared", queue=queue, holds=frozenset(map(at, one))) for one in ((0, 1, 2), ())
    )
    topic = replace(PLAIN, log=logged("x y a0/2 a1/2"))
    broken = dispatch.starved(SubscriptionId("t", "s"), topic, [first, other], [at(3)], is_stuck=False)
    assert broken.deviation == (CHUNK_ASSIGNED_BEYOND_PERMITS if is_explained else None)


@pytest.mark.parametrize(("key", "is_explained"), [("k0", True), ("k1", False), (None, False)])
def test_a_draining_hash_blocks_later_messages_of_the_same_key(key: str | None, *, is_explained: bool) -> None:
    sent = [SentMessage(sequence_id=ord(one), digest="", size_bytes=1, sticky_key=key) for one in "ax"]
    producers = {PRODUCER: ChunkingProducer(asked=(replace(sent[0], sticky_key="k0"), sent[1]))}
    topic = replace(PLAIN, producers=producers, log=logged("a0/2 a1/2 x"))
    holder = replace(consumer(), kind="Key_Shared", holds=frozenset({at(0)}), reassigned=frozenset({at(0)}))
    consumers = [holder, replace(consumer(), kind="Key_Shared")]
    broken = dispatch.starved(SubscriptionId("t", "s"), topic, consumers, [at(1), at(2)], is_stuck=False)
    assert broken.deviation == (DRAINING_HASH_BLOCKS_CHUNKS if is_explained else None)


@pytest.mark.parametrize(
    ("holds", "reassigned", "owed", "is_explained"),
    [
        ([{0, 1}, set()], {0, 1}, {2}, True),
        ([{0}, set()], {0}, {1, 2}, True),
        ([{0, 1}, set()], set(), {2}, False),  # nobody joined or left since
        ([{0, 1}, set()], {0}, {2}, False),  # a chunk was dispatched since: its hash does not drain
        ([set(), set()], set(), {0, 1, 2}, False),  # nobody has the first chunk
        ([{0, 1}, set()], {0, 1}, {2, 3}, False),  # the message of another hash
        ([{0, 1}], {0, 1}, {2}, False),  # the consumer is alone
    ],
)
def test_chunks_that_a_draining_hash_does_not_block_are_due(
    holds: list[set[int]], reassigned: set[int], owed: set[int], is_explained: bool
) -> None:
    topic = replace(PLAIN, log=logged("a0/3 a1/3 a2/3 x"))
    consumers = [
        replace(consumer(), kind="Key_Shared", holds=frozenset(map(at, one)), reassigned=frozenset(map(at, reassigned)))
        for one in holds
    ]
    positions = sorted(map(at, owed))
    broken = dispatch.starved(SubscriptionId("t", "s"), topic, consumers, positions, is_stuck=False)
    assert broken.deviation == (DRAINING_HASH_BLOCKS_CHUNKS if is_explained else None)
    is_full = replace(topic, look_ahead=LookAhead(0, 1))
    broken = dispatch.starved(SubscriptionId("t", "s"), is_full, consumers, positions, is_stuck=False)
    is_after = bool(reassigned) and holds[0] == reassigned and len(holds) > 1
    assert broken.deviation == (DRAINING_HASH_BLOCKS_CHUNKS if is_after else None)


@pytest.mark.parametrize(
    ("holds", "reassigned", "owed", "is_explained"),
    [
        ([{1, 2}, set()], {1, 2}, {3}, True),
        ([{1, 2}, set()], {1, 2}, {3, 4}, True),  # nothing more is read
        ([{1, 2}, set()], set(), {3}, False),  # nobody joined or left since
        ([{1, 2}, set()], {1}, {3}, False),  # a chunk was dispatched since
        ([{1, 2}, set()], {1, 2}, {0, 3}, False),  # an earlier message
        ([{1, 2}, set()], {1, 2}, {4}, False),  # only a later one
        ([{1, 2}, {3}], {1, 2}, {4}, True),  # the other chunk went to the one that joined
        ([{1, 2}, {3}], {1}, {4}, False),  # the first one read a chunk since
        ([{1, 2}], {1, 2}, {3}, False),  # the consumer is alone
    ],
)
def test_chunks_that_a_recently_joined_consumer_does_not_wait_for_are_due(
    holds: list[set[int]], reassigned: set[int], owed: set[int], is_explained: bool
) -> None:
    topic = replace(PLAIN, log=logged("x a0/3 a1/3 a2/3 y"), drains=False)
    consumers = [
        replace(consumer(), kind="Key_Shared", holds=frozenset(map(at, one)), reassigned=frozenset(map(at, reassigned)))
        for one in holds
    ]
    broken = dispatch.starved(SubscriptionId("t", "s"), topic, consumers, sorted(map(at, owed)), is_stuck=False)
    assert broken.deviation == (RECENTLY_JOINED_WAITS_FOR_CHUNKS if is_explained else None)


@pytest.mark.parametrize(("reassigned", "is_explained"), [({1, 2}, True), ({1, 2, 3}, False), (set(), False)])
def test_a_message_between_the_chunks_waits_only_if_it_was_not_read_when_the_consumer_joined(
    reassigned: set[int], *, is_explained: bool
) -> None:
    topic = replace(PLAIN, log=logged("x a0/3 a1/3 y a2/3"), drains=False)
    first, second = (
        replace(consumer(), kind="Key_Shared", holds=frozenset(map(at, held)), reassigned=frozenset(map(at, read)))
        for held, read in (({1, 2}, reassigned), (set(), set()))
    )
    broken = dispatch.starved(SubscriptionId("t", "s"), topic, [first, second], [at(3), at(4)], is_stuck=False)
    assert broken.deviation == (RECENTLY_JOINED_WAITS_FOR_CHUNKS if is_explained else None)


@pytest.mark.parametrize(
    ("holds", "reassigned", "owed", "is_explained"),
    [
        ({0}, {0}, {2}, True),
        ({0}, set(), {2}, False),  # nobody joined since
        ({1}, {1}, {2}, False),  # it has no chunk of the unfinished message
        ({0, 1}, {0, 1}, {0, 2}, False),  # an entry that was read when the other one joined
    ],
)
def test_an_unfinished_message_holds_up_others_only_where_a_consumer_joined_while_another_one_had_its_chunks(
    holds: set[int], reassigned: set[int], owed: set[int], *, is_explained: bool
) -> None:
    topic = replace(PLAIN, log=logged("a0/3 x y"), drains=False)
    first = replace(
        consumer(), kind="Key_Shared", holds=frozenset(map(at, holds)), reassigned=frozenset(map(at, reassigned))
    )
    consumers, left = [first, replace(consumer(), kind="Key_Shared")], sorted(map(at, owed))
    broken = dispatch.starved(SubscriptionId("t", "s"), topic, consumers, left, is_stuck=False)
    assert (broken.rule, broken.deviation) == ("CHUNK-09", RECENTLY_JOINED_WAITS_FOR_CHUNKS if is_explained else None)
    with_draining_hashes = replace(topic, drains=True)
    broken = dispatch.starved(SubscriptionId("t", "s"), with_draining_hashes, consumers, left, is_stuck=False)
    assert (broken.rule, broken.deviation) == ("CHUNK-09", None)


@pytest.mark.parametrize(
    ("kind", "reassigned", "deviation"),
    [
        ("Key_Shared", {0, 1}, HASH_REASSIGNED_BETWEEN_CHUNKS),
        ("Key_Shared", {0}, None),
        ("Key_Shared", set(), None),
    ],
)
def test_chunks_of_one_message_at_two_consumers_are_a_deviation_only_after_a_reassignment(
    kind: SubscriptionType, reassigned: set[int], deviation: str | None
) -> None:
    first, second = (replace(consumer(), kind=kind, holds=frozenset(map(at, held))) for held in ({0, 1}, {2}))
    first = replace(first, reassigned=frozenset(map(at, reassigned)))
    broken = dispatch.together(logged("a0/3 a1/3 a2/3"), {"c": first, "d": second}, frozenset())
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("CHUNK-14", deviation)
    later = dispatch.together(
        logged("a0/3 a1/3 a2/3 b0/2 b1/2"),
        {"c": replace(first, holds=first.holds | {at(3)}), "d": replace(second, holds=second.holds | {at(4)})},
        frozenset({HASH_REASSIGNED_BETWEEN_CHUNKS}),
    )
    assert isinstance(later, Broken)
    assert later.deviation is None, "another message was split without a reassignment"


def test_a_shared_subscription_of_early_releases_scatters_chunks() -> None:
    first, second = (replace(consumer(), kind="Shared", holds=frozenset(map(at, held))) for held in ({0, 1}, {2}))
    broken = dispatch.together(logged("a0/3 a1/3 a2/3"), {"c": first, "d": second}, frozenset())
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("CHUNK-14", CHUNKS_DISPATCHED_ONE_BY_ONE)
    whole = {"c": replace(first, holds=first.holds | second.holds)}
    assert isinstance(dispatch.together(logged("a0/3 a1/3 a2/3"), whole, frozenset()), Allowed)
    twice = dispatch.together(logged("a0/3 a1/3 a2/3"), {**whole, "d": second}, frozenset())
    assert isinstance(twice, Broken)
    assert twice.deviation is None, "a chunk was dispatched to both"


@pytest.mark.parametrize("drains", [True, False])
def test_the_owner_of_a_chunked_topic_decides_its_implementation_of_key_shared(*, drains: bool) -> None:
    state = Chunking(topics={"t": replace(PLAIN, drains=not drains)})
    for operation, outcome, expected in (
        (Subscribe("c", "t", "s", kind="Key_Shared"), Subscribed(drains=drains), drains),
        (ReceiveDue("t", "s"), DueReceived(), drains),
        (ReceiveDue("t", "s"), DueReceived(drains=not drains), not drains),
    ):
        judged = judge(state, {}, operation, outcome, frozenset())
        assert isinstance(judged, Allowed)
        state = judged.state
        assert state.topics["t"].drains is expected
