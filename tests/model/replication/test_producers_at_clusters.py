"""Where several clusters have a topic, each deduplicates what its own producers send."""

from __future__ import annotations

from collections.abc import Iterable

from model.cluster_events import ReplicationSettings
from model.events import Answer, AnyOutcome, Created, Done, Duplicate, Opened, Sent, Stored
from model.example import Example, judge
from model.judgement import Allowed, Broken
from model.log import Position
from model.operations import AnyOperation, CreateTopic, Kill, OpenProducer, Send, Unload
from model.vocabulary import Entry, Message

Step = tuple[AnyOperation, AnyOutcome]

CREATED: Step = (
    CreateTopic("t", clusters=2),
    Created(True, 6, replication=ReplicationSettings(("A", "B"), 100, 2000, 3)),
)


def opened(cluster: str, last_sequence_id: int) -> Step:
    return OpenProducer(cluster.lower(), "t", "p", cluster=cluster), Opened(last_sequence_id)


def sent(cluster: str, sequence_id: int, answer: Answer) -> Step:
    return Send(cluster.lower(), (Entry((Message(sequence_id, f"m{sequence_id}"),)),)), Sent((answer,))


def judged(steps: Iterable[Step]) -> tuple[Allowed[Example] | Broken, list[str]]:
    """What these steps leave possible, and which rules they exercised."""
    found: Allowed[Example] | Broken = Allowed(Example())
    exercised: list[str] = []
    for operation, outcome in steps:
        assert isinstance(found, Allowed)
        found = judge(found.state, operation, outcome)
        exercised += found.exercised if isinstance(found, Allowed) else ()
    return found, exercised


def test_a_new_message_is_stored_at_each_cluster() -> None:
    steps = [CREATED, opened("A", -1), opened("B", -1)]
    found, exercised = judged([*steps, sent("A", 1, Stored(Position(1, 0))), sent("B", 1, Stored(Position(2, 0)))])
    assert isinstance(found, Allowed)
    assert exercised.count("DEDUP-02") == 2


def test_one_that_is_confirmed_as_a_duplicate_breaks_a_rule() -> None:
    found, _ = judged([CREATED, opened("A", -1), sent("A", 1, Duplicate())])
    assert isinstance(found, Broken)
    assert found.rule.startswith("DEDUP")


def test_what_was_sent_to_another_cluster_is_no_duplicate_here() -> None:
    found, _ = judged([CREATED, opened("A", -1), sent("A", 5, Stored(Position(1, 0))), opened("B", 5)])
    assert isinstance(found, Broken)
    assert found.rule.startswith("DEDUP")


def test_a_message_is_stored_after_those_that_were_confirmed() -> None:
    steps = [CREATED, opened("A", -1), sent("A", 1, Stored(Position(1, 4))), sent("A", 2, Stored(Position(1, 3)))]
    found, _ = judged(steps)
    assert isinstance(found, Broken)
    assert found.rule == "DEDUP-02"


def reopened(*before: Step, last_sequence_id: int) -> Allowed[Example] | Broken:
    first = [CREATED, opened("A", -1), sent("A", 3, Stored(Position(1, 0)))]
    return judged([*first, *before, opened("A", last_sequence_id)])[0]


def test_a_recovered_topic_has_the_last_sequence_id_or_may_have_forgotten_the_producer() -> None:
    """Replicated messages count under the names of their producers, so a snapshot may be full."""
    for recovery in (Unload("t", cluster="A"), Kill(cluster="A")):
        for last in (3, -1):
            assert isinstance(reopened((recovery, Done()), last_sequence_id=last), Allowed)
        assert isinstance(reopened((recovery, Done()), last_sequence_id=2), Broken)


def test_one_that_was_reloaded_at_another_cluster_has_forgotten_none() -> None:
    assert isinstance(reopened((Unload("t", cluster="B"), Done()), last_sequence_id=-1), Broken)
