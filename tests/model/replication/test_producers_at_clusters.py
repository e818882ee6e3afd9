"""If several clusters have a topic, each deduplicates the messages of its own producers."""

from __future__ import annotations

from collections.abc import Iterable

from model.cluster_events import ReplicationSettings
from model.events import Answer, AnyOutcome, Created, Done, Duplicate, Opened, Sent, Stored
from model.example import Example
from model.explain import judge
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
    """The verdict on these steps, and the rules that they exercised."""
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


def test_a_new_message_that_is_confirmed_as_a_duplicate_breaks_a_rule() -> None:
    found, _ = judged([CREATED, opened("A", -1), sent("A", 1, Duplicate())])
    assert isinstance(found, Broken)
    assert found.rule.startswith("DEDUP")


def test_a_message_of_another_cluster_does_not_raise_the_last_sequence_id() -> None:
    found, _ = judged([CREATED, opened("A", -1), sent("A", 5, Stored(Position(1, 0))), opened("B", 5)])
    assert isinstance(found, Broken)
    assert found.rule.startswith("DEDUP")


def test_a_message_is_stored_after_those_confirmed_before() -> None:
    steps = [CREATED, opened("A", -1), sent("A", 1, Stored(Position(1, 4))), sent("A", 2, Stored(Position(1, 3)))]
    found, _ = judged(steps)
    assert isinstance(found, Broken)
    assert found.rule == "DEDUP-02"


def reopened(*before: Step, last_sequence_id: int) -> Allowed[Example] | Broken:
    first = [CREATED, opened("A", -1), sent("A", 3, Stored(Position(1, 0)))]
    return judged([*first, *before, opened("A", last_sequence_id)])[0]


def test_a_recovered_topic_has_the_last_sequence_id_or_forgot_the_producer() -> None:
    """Replicated messages count under the names of their producers, so a snapshot may have no more room."""
    for recovery in (Unload("t", cluster="A"), Kill(cluster="A")):
        for last in (3, -1):
            assert isinstance(reopened((recovery, Done()), last_sequence_id=last), Allowed)
        assert isinstance(reopened((recovery, Done()), last_sequence_id=2), Broken)


def test_an_unload_in_another_cluster_forgets_no_producer() -> None:
    assert isinstance(reopened((Unload("t", cluster="B"), Done()), last_sequence_id=-1), Broken)
