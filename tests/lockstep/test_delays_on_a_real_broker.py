"""Delayed messages on a real broker, and what the performer waits for."""

from __future__ import annotations

from conformance.lockstep.world import World
from model.events import (
    Done,
    DueReceived,
    LogRead,
    Opened,
    ReceivedMessages,
    RedeliveryRequested,
    Sent,
    Skipped,
    Stored,
)
from model.operations import OpenProducer, ReadLog, Send, Unload
from model.subscription_operations import CloseConsumer, CrashConsumer, Nack, Permit, Receive, ReceiveDue
from model.vocabulary import Entry, Message
from tests.lockstep.cursor_stage import Stage, ids
from tests.waits import eventually

DELAY_MS = 600
"""Long enough that a message is not due at the next operations."""


def send(stage: Stage, *delays_ms: int, key: str | None = None) -> None:
    """Messages d1, d2, ... with these delays."""
    stage.see(OpenProducer("p", "t", "p"), Opened)
    entries = tuple(
        Entry((Message(n, f"d{n}", key, delay_ms=delay_ms),)) for n, delay_ms in enumerate(delays_ms, start=1)
    )
    answers = stage.see(Send("p", entries), Sent).answers
    assert all(isinstance(answer, Stored) for answer in answers)


def test_a_shared_consumer_receives_a_delayed_message_when_its_time_has_come(stage: Stage) -> None:
    send(stage, DELAY_MS, 0)
    stage.subscribe()
    taken = stage.see(Receive("c", 5), ReceivedMessages)
    assert (ids(taken.messages), taken.settled) == (["d2"], False)
    assert stage.read().backlog == 2
    eventually(lambda: stage.take(5) == ["d1"])


def test_an_exclusive_consumer_receives_it_at_once(stage: Stage) -> None:
    send(stage, DELAY_MS, 0)
    stage.subscribe(kind="Exclusive")
    assert stage.take(5) == ["d1", "d2"]


def test_receiving_all_waits_for_delayed_messages(stage: Stage) -> None:
    send(stage, DELAY_MS, 0)
    stage.subscribe()
    stage.take(1)
    stage.acknowledge(0)
    assert stage.left() == ["d1"]


def test_delayed_messages_survive_an_unload_and_the_leave_of_the_last_consumer(stage: Stage) -> None:
    send(stage, DELAY_MS)
    stage.subscribe()
    assert stage.take(5) == []
    stage.see(Unload("t"), Done)
    stage.subscribe()
    assert stage.take(5) == []
    stage.see(CrashConsumer("c"), Done)
    stage.subscribe("d")
    eventually(lambda: stage.take(5, "d") == ["d1"])
    stage.see(CloseConsumer("d"), Done)


def test_a_redelivery_request_for_all_waits_until_nothing_more_can_be_on_its_way(stage: Stage) -> None:
    send(stage, DELAY_MS, 0)
    stage.subscribe()
    assert stage.take(5) == ["d2"]
    asked = stage.see(Nack("c", None), RedeliveryRequested)
    assert sorted(ids(asked.messages)) == ["d1", "d2"]


def test_key_shared_consumers_receive_later_messages_of_the_key_before_it(stage: Stage) -> None:
    send(stage, DELAY_MS, 0, key="k")
    stage.subscribe(kind="Key_Shared")
    stage.see(Permit("c", 5), Done)

    def received() -> list[str]:
        (read,) = stage.see(ReceiveDue("t", "s"), DueReceived).consumers
        return ids(read.messages)

    assert received() == ["d2"]
    eventually(lambda: received() == ["d1"])


def test_the_log_has_the_delays(stage: Stage) -> None:
    send(stage, DELAY_MS, 0)
    logged = stage.see(ReadLog("t"), LogRead).entries
    assert [one.entry.messages[0].delay_ms for one in logged] == [DELAY_MS, 0]


def test_pulsar_client_does_not_send_them_here(world: World) -> None:
    stage = Stage(world)
    stage.see(OpenProducer("p", "t", "p", "official"), Opened)
    stage.see(Send("p", (Entry((Message(1, "d1", delay_ms=DELAY_MS),)),)), Skipped)
    stage.performer.close()
