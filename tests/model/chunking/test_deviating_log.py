"""The deviations of deduplication excuse only the messages that they lose or store again: all others are judged."""

from __future__ import annotations

import pytest

from model.chunking import producers
from model.chunking.state import Act, Chunking, ChunkingProducer, ChunkTopic, Reloaded, SentMessage
from model.deviations import DEVIATIONS
from model.excuses.chunking import (
    CHUNK_EACH_DEDUPLICATED,
    CHUNK_ONLY_LAST_DEDUPLICATED,
    CHUNK_RECOVERY_COUNTS_UNFINISHED,
)
from model.judgement import Allowed, Broken
from tests.model.chunking.histories import PRODUCER, life, logged

ALL = "a0/2 a1/2"
EACH: tuple[str, list[Act]] = "a0/2", [life(f"{ALL}", [0, None])]
AGAIN: tuple[str, list[Act]] = f"a0/2 {ALL} b0/2", [life("a0/2", [0]), life(f"{ALL} b0/2", [1, 2, 3])]
RELOADED: tuple[str, list[Act]] = (
    "a0/2 a0/2 b0/2",
    [life("a0/2", [0]), Reloaded(), life(f"{ALL} b0/2", [1, None, 2])],
)
"""The first chunk of message a is stored, and both are sent again. Of b only the first one is sent."""


def log_read(log: str, acts: list[Act], confirmed: str) -> Allowed[Chunking] | Broken:
    """The verdict on a log if the client confirmed these messages to its application."""
    asked = tuple(SentMessage(sequence_id=ord(one), digest="", size_bytes=2, is_confirmed=True) for one in confirmed)
    producer = ChunkingProducer(asked, tuple(acts))
    state = Chunking({"t": ChunkTopic(1, deduplication=True, producers={PRODUCER: producer})})
    return producers.log_read(state, "t", logged(log), frozenset(DEVIATIONS))


@pytest.mark.parametrize(
    ("history", "not_stored", "deviations"),
    [
        (EACH, "x", {CHUNK_EACH_DEDUPLICATED}),
        (AGAIN, "b", {CHUNK_ONLY_LAST_DEDUPLICATED}),
        (RELOADED, "b", {CHUNK_RECOVERY_COUNTS_UNFINISHED, CHUNK_ONLY_LAST_DEDUPLICATED}),
    ],
    ids=["each deduplicated", "only the last deduplicated", "counted by the recovery"],
)
def test_a_confirmed_message_that_no_deviation_lost_is_complete_in_the_log(
    history: tuple[str, list[Act]], not_stored: str, deviations: set[str]
) -> None:
    allowed = log_read(*history, confirmed="a")
    assert isinstance(allowed, Allowed)
    assert set(allowed.deviations) == deviations
    broken = log_read(*history, confirmed=f"a{not_stored}")
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation, broken.side) == ("CHUNK-13", None, "client")


def test_only_the_messages_that_a_deviation_affects_may_be_delivered_late() -> None:
    allowed = log_read("a0/2 a0/2 a1/2 x", [life("a0/2", [0]), life(f"{ALL} x", [1, 2, 3])], confirmed="a")
    assert isinstance(allowed, Allowed)
    assert allowed.state.topics["t"].deviating == {(PRODUCER, ord("a"))}
