"""What counts as a choice: which operations, of which subscription types and settings."""

from __future__ import annotations

from conformance.coverage.choices import Choices, is_kill, kind_of
from model.cluster_operations import LoseCluster, RecoverCluster
from model.events import Created, Done, Skipped, Subscribed
from model.operations import AnyOperation, CreateTopic, InjectNetworkFault, Kill, OpenProducer, Send, TakeOver
from model.subscription_operations import Nack, ReadCursor, Receive, Skip, Subscribe
from model.vocabulary import CutAfter, Entry, Message

TOPIC = CreateTopic("t0", persistence="every-ack")
SHARED = Subscribe("c1", "t0", "s1", kind="Shared")
EXCLUSIVE = Subscribe("c2", "t0", "s2", kind="Exclusive")


def drawn(*operations: AnyOperation) -> set[str]:
    """The choices of an example in which all operations were performed."""
    return set(counted(*operations).drawn)


def counted(*operations: AnyOperation) -> Choices:
    choices = Choices()
    for operation in operations:
        created = Created(deduplication=False, snapshot_room=6) if isinstance(operation, CreateTopic) else None
        choices.note(operation, created or (Subscribed() if isinstance(operation, Subscribe) else Done()))
    return choices


def test_an_operation_counts_for_its_subscription_type_and_for_the_settings_of_its_topic() -> None:
    assert drawn(TOPIC, SHARED, Receive("c1", 1)) == {
        "Shared: nothing > Subscribe",
        "cursors persisted every-ack: nothing > Subscribe",
        "deduplication off: nothing > Subscribe",
        "Shared: Subscribe > Receive",
        "cursors persisted every-ack: Subscribe > Receive",
        "deduplication off: Subscribe > Receive",
    }


def test_operations_on_subscriptions_of_other_types_count_for_no_type() -> None:
    found = drawn(TOPIC, SHARED, EXCLUSIVE, Receive("c1", 1), Skip("t0", "s2", 1))
    assert "deduplication off: Receive > Skip" in found
    assert not {"Shared: Receive > Skip", "Exclusive: Receive > Skip"} & found


def test_a_fault_follows_the_last_operation_of_any_subscription() -> None:
    found = drawn(TOPIC, SHARED, EXCLUSIVE, Receive("c1", 1), Kill())
    assert "Shared: Receive > Kill" in found
    assert "Exclusive: Receive > Kill" not in found


def test_what_follows_a_kill_is_counted_with_what_it_followed() -> None:
    found = drawn(TOPIC, SHARED, Skip("t0", "s1", 1), TakeOver("t0", "shutdown"), SHARED, Nack("c1", None))
    assert "Shared: Skip > TakeOver (shutdown)" in found
    assert "Shared: Skip > TakeOver (shutdown) > Subscribe" in found
    assert not [choice for choice in found if choice.endswith("Subscribe > Nack") and choice.count(">") > 1]


def test_operations_that_only_read_or_were_skipped_count_as_nothing() -> None:
    choices = counted(TOPIC, SHARED, ReadCursor("t0", "s1"))
    assert choices.note(Skip("t0", "s1", 1), Skipped("there is no such subscription")) is None
    assert choices.note(Receive("c1", 1), Done()) == "Receive"
    assert "Shared: Subscribe > Receive" in choices.drawn
    assert not [choice for choice in choices.drawn if "ReadCursor" in choice or "Skip" in choice]


def test_a_session_counts_for_the_topic_of_its_producer() -> None:
    sent = Send("p", (Entry((Message(1, "b1"),)),))
    found = drawn(TOPIC, CreateTopic("t1"), OpenProducer("p", "t0", "p"), sent)
    assert "cursors persisted every-ack: OpenProducer > Send" in found
    there = drawn(TOPIC, CreateTopic("t1"), OpenProducer("p", "t1", "p"), sent)
    assert "cursors persisted every-ack: OpenProducer > Send" not in there


def test_the_choices_that_may_be_next_are_counted_once_they_are_drawn() -> None:
    choices = counted(TOPIC, SHARED, Receive("c1", 1))
    assert "Shared: Receive > Nack" in set(choices.following("Nack"))
    assert "Shared: Receive > Nack" not in choices.drawn
    choices.note(Nack("c1", None), Done())
    assert "Shared: Receive > Nack" in choices.drawn


def test_faults_of_different_kinds_are_different_operations() -> None:
    assert kind_of(TakeOver("t0", "kill")) != kind_of(TakeOver("t0", "unload"))
    assert kind_of(InjectNetworkFault("t0", CutAfter(1))) == "InjectNetworkFault (CutAfter)"
    assert kind_of(RecoverCluster("C", is_empty=True)) != kind_of(RecoverCluster("C"))
    assert [is_kill(kind_of(one)) for one in (LoseCluster("C", "freeze"), RecoverCluster("C"))] == [True, False]
