"""A recovery that nobody awaits excuses a missing sequence id for a while, and not from then on."""

from __future__ import annotations

import pytest

from model.cursors.cursor import Interval
from model.deduplication.topic_observer import RECOVERY_MS
from model.deviations import DEVIATIONS
from model.deviations.deduplication import SECOND_RECOVERY_NOT_AWAITED
from model.events import Created, Done, Opened, Sent, Stored
from model.example import Example, judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import CreateTopic, OpenProducer, Send, Unload
from model.vocabulary import Entry, Message
from tests.judging import Happened

LOADED_MS = 100.0


def stored(producer: str, number: int) -> Happened:
    """A producer has one message stored, at the entry of this number."""
    return Send(producer, (Entry((Message(1, producer),)),)), Sent((Stored(Position(1, number)),))


def opened_after(wait_ms: float) -> Allowed[Example] | Broken:
    """After an unload one producer is let in, and so long after it another one, whose sequence id is missing."""
    created = Created(deduplication=True, snapshot_room=9)
    history: tuple[Happened, ...] = (
        (CreateTopic("t", deduplication="topic-on"), created),
        (OpenProducer("p", "t", "p"), Opened(-1)),
        (OpenProducer("q", "t", "q"), Opened(-1)),
        stored("p", 0),
        stored("q", 1),
        (Unload("t"), Done()),
        (OpenProducer("p-again", "t", "p"), Opened(1)),
    )
    state = Example(known=frozenset(DEVIATIONS))
    for number, happened in enumerate(history):
        now_ms = LOADED_MS if number == len(history) - 1 else 0.0
        after = judge(state, happened[0], happened[1], at=Interval(now_ms, now_ms))
        assert isinstance(after, Allowed), after
        state = after.state
    now_ms = LOADED_MS + wait_ms
    return judge(state, OpenProducer("q-again", "t", "q"), Opened(-1), at=Interval(now_ms, now_ms))


def test_soon_after_a_topic_is_loaded_a_missing_sequence_id_is_a_deviation() -> None:
    allowed = opened_after(RECOVERY_MS)
    assert isinstance(allowed, Allowed)
    assert allowed.deviations == (SECOND_RECOVERY_NOT_AWAITED,)
    assert "DEDUP-12" in allowed.excused


@pytest.mark.parametrize("wait_ms", [RECOVERY_MS + 1, 60_000.0])
def test_a_recovery_that_is_over_excuses_no_missing_sequence_id(wait_ms: float) -> None:
    broken = opened_after(wait_ms)
    assert isinstance(broken, Broken)
    assert (broken.rule, broken.deviation) == ("DEDUP-12", None)
