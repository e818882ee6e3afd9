"""The deviations of deduplication excuse only the messages that they lose or store again: all others are judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.chunking.state import Act, ChunkingProducer, ChunkSubscription, ChunkTopic, Reloaded, SentMessage
from model.events import LogRead
from model.example import Example
from model.explain import judge
from model.judgement import Allowed, Broken
from model.operations import ReadLog
from model.traffic import CommandAck
from tests.model.chunking.histories import (
    PRODUCER,
    SUBSCRIPTION_ID,
    allowed,
    at,
    broken,
    digest,
    entries,
    example,
    joined,
    life,
    logged,
    looked,
    passed,
)

ALL = "a0/2 a1/2"
EACH: tuple[str, list[Act]] = "a0/2", [life(f"{ALL}", [0, None])]
AGAIN: tuple[str, list[Act]] = f"a0/2 {ALL} b0/2", [life("a0/2", [0]), life(f"{ALL} b0/2", [1, 2, 3])]
RELOADED: tuple[str, list[Act]] = (
    "a0/2 a0/2 b0/2",
    [life("a0/2", [0]), Reloaded(), life(f"{ALL} b0/2", [1, None, 2])],
)
"""The first chunk of message a is stored, and both are sent again. Of b only the first one is sent."""


def log_read(log: str, acts: list[Act], confirmed: str) -> Allowed[Example] | Broken:
    """The verdict on a log if the client confirmed these messages to its application."""
    asked = tuple(
        SentMessage(sequence_id=ord(one), digest=digest(one), size_bytes=2, is_confirmed=True) for one in confirmed
    )
    topic = ChunkTopic(1, deduplication=True, producers={PRODUCER: ChunkingProducer(asked, tuple(acts))})
    return judge(example(topic), ReadLog("t"), LogRead((), parts=logged(log)))


@pytest.mark.parametrize(
    ("history", "not_stored", "deviation"),
    [
        (EACH, "x", "chunk-each-deduplicated"),
        (AGAIN, "b", "chunk-only-last-deduplicated"),
        (RELOADED, "b", "chunk-recovery-counts-unfinished"),
    ],
    ids=["each deduplicated", "only the last deduplicated", "counted by the recovery"],
)
def test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log(
    history: tuple[str, list[Act]], not_stored: str, deviation: str
) -> None:
    assert set(allowed(log_read(*history, confirmed="a")).deviations) == {deviation}
    assert broken(log_read(*history, confirmed=f"a{not_stored}")) == ("CHUNK-13", None, "client")


@pytest.mark.parametrize(("late", "is_explained"), [("a", True), ("b", False)])
def test_only_the_messages_that_a_deviation_affects_may_be_delivered_late(late: str, *, is_explained: bool) -> None:
    log = "a0/2 a0/2 a1/2 b0/2 b1/2 x"
    acts: list[Act] = [life("a0/2", [0]), life("a0/2 a1/2 b0/2 b1/2 x", [1, 2, 3, 4, 5])]
    read = allowed(log_read(log, acts, confirmed="ab")).state
    topic = read.chunking.topics["t"]
    asked = SentMessage(sequence_id=ord("x"), digest=digest("x"), size_bytes=1)
    producer = replace(topic.producers[PRODUCER], asked=(*topic.producers[PRODUCER].asked, asked))
    state = joined(replace(read, chunking=read.chunking.with_producer("t", PRODUCER, producer)), "c")
    delivered = ChunkSubscription(delivered={PRODUCER: ord("x")}, seen=frozenset({(PRODUCER, ord("x"))}))
    state = replace(state, chunking=state.chunking.with_subscription(SUBSCRIPTION_ID, delivered), past=None)
    numbers = (1, 2) if late == "a" else (3, 4)
    rest = CommandAck(tuple(at(number) for number in range(6) if number not in numbers))
    acked = allowed(passed(state, "c", rest)).state
    judged = looked(acked, c=entries(log, *numbers))
    if is_explained:
        assert "chunk-only-last-deduplicated" in allowed(judged).deviations
    else:
        assert broken(judged)[:2] == ("CHUNK-05", None)
