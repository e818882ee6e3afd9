"""The operations of document 003 on a real broker, and their outcomes."""

from __future__ import annotations

import pytest

from conformance.clients.admin.http import AdminError
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from model.events import (
    Acknowledged,
    CursorRead,
    CursorReset,
    Done,
    DueReceived,
    Expired,
    LogRead,
    Opened,
    Persisted,
    Range,
    ReceivedMessages,
    RedeliveryRequested,
    Refused,
    Sent,
    Skipped,
    Stored,
    Subscribed,
    Terminated,
    Trimmed,
)
from model.log import Position
from model.operations import DisturbMetadataStore, OpenProducer, ReadLog, Send, Terminate, Trim, Unload
from model.subscription_operations import (
    AckById,
    Acknowledge,
    AwaitPersisted,
    CloseConsumer,
    CrashConsumer,
    CreateSubscription,
    DeleteSubscription,
    Expire,
    Nack,
    Permit,
    ReadCursor,
    Receive,
    ReceiveDue,
    ResetCursor,
    Seek,
    Skip,
    SkipAll,
    Subscribe,
)
from model.vocabulary import Entry, Limits, Message
from tests.lockstep.cursor_stage import Stage, ids
from tests.lockstep.simulated.cursors import NO_SUBSCRIPTION
from tests.waits import eventually


def test_a_consumer_without_a_queue_receives_what_it_permits_and_nothing_is_due(stage: Stage) -> None:
    stage.send(5)
    stage.subscribe()
    assert stage.see(Receive("c", 2), ReceivedMessages).settled
    assert stage.take(2) == ["3", "4"]
    taken = stage.see(Receive("c", 5), ReceivedMessages)
    assert (ids(taken.messages), taken.settled) == (["5"], False)


def test_a_batch_is_received_as_a_whole(stage: Stage) -> None:
    stage.send(2, batch=3)
    stage.subscribe()
    assert stage.take(2) == ["1", "2", "3"]
    first, *_ = stage.see(Receive("c", 1), ReceivedMessages).messages
    assert (first.business_id, first.batch_index, first.batch_size, first.redeliveries) == ("4", 0, 3, 0)


def test_a_receiver_queue_is_filled_ahead_and_refilled(stage: Stage) -> None:
    stage.send(9)
    stage.subscribe(queue=4)
    arrived = stage.read().arrived
    assert [(one.consumer, ids(one.messages), one.unacknowledged) for one in arrived] == [
        ("c", ["1", "2", "3", "4"], 4)
    ]
    assert stage.take(5) == ["5", "6", "7", "8", "9"]
    assert ids(stage.read().arrived[0].messages) == []


def test_acks_out_of_order_and_across_ledgers_are_ranges_until_they_meet(stage: Stage) -> None:
    at = stage.send(12)
    stage.subscribe()
    stage.take(12)
    assert stage.acknowledge(9, 2, 3) == ["10", "3", "4"]
    read = stage.read()
    assert read.mark_delete == Position(at[0].ledger, -1)
    assert read.ranges == (Range(at[1], at[3]), Range(at[8], at[9]))
    assert (read.backlog, read.unacknowledged) == (9, 9)
    stage.acknowledge(0, 1, 4, 5, 6, 7, 8)
    assert (stage.read().mark_delete, stage.read().ranges) == (at[9], ())
    assert stage.left() == ["11", "12"]


def test_the_index_of_an_ack_wraps_around(stage: Stage) -> None:
    stage.send(3)
    stage.subscribe()
    stage.take(3)
    assert stage.acknowledge(4, 1, 3) == ["2", "1"]


def test_messages_of_a_batch_are_acknowledged_one_by_one_and_together(stage: Stage) -> None:
    at = stage.send(2, batch=3)
    stage.subscribe()
    stage.take(6)
    stage.acknowledge(1)
    assert (stage.read().ranges, stage.read().backlog, stage.read().unacknowledged) == ((), 2, 5)
    stage.acknowledge(0, 2)
    assert (stage.read().mark_delete, stage.read().backlog, stage.read().unacknowledged) == (at[0], 1, 3)
    stage.acknowledge(3, 5)
    assert stage.left() == ["5"]


def test_a_cumulative_ack_covers_everything_before_it_and_a_part_of_a_batch(stage: Stage) -> None:
    at = stage.send(7)
    stage.send(1, batch=3)
    stage.subscribe(kind="Exclusive")
    stage.take(10)
    stage.acknowledge(8, cumulative=True)
    assert stage.read().mark_delete == at[6]
    assert stage.left("Exclusive") == ["10"]


def test_a_message_that_was_not_received_can_be_acknowledged_by_its_id(stage: Stage) -> None:
    at = stage.send(3)
    stage.subscribe()
    acknowledged = stage.see(AckById("c", ("2", "nowhere")), Acknowledged)
    assert (ids(acknowledged.messages), acknowledged.receipt) == (["2"], True)
    assert stage.read().ranges == (Range(at[0], at[1]),)
    assert stage.left() == ["1", "3"]


def test_messages_of_a_crashed_consumer_are_redelivered_to_another(stage: Stage) -> None:
    stage.send(4)
    stage.subscribe("a")
    stage.subscribe("b")
    assert stage.take(3, "a") == ["1", "2", "3"]
    assert stage.take(3, "b") == ["4"]
    stage.acknowledge(1, consumer="a")
    stage.see(CrashConsumer("a"), Done)
    assert sorted(stage.take(3, "b")) == ["1", "3"]
    assert isinstance(stage.do(Receive("a", 1)), Skipped)


def test_only_the_active_consumer_receives_messages(stage: Stage) -> None:
    stage.subscribe("a", "Failover")
    stage.subscribe("b", "Failover")
    stage.send(3)
    taken = {name: stage.take(3, name) for name in ("a", "b")}
    assert sorted(taken.values()) == [[], ["1", "2", "3"]]
    active = "a" if taken["a"] else "b"
    other = "b" if taken["a"] else "a"
    stage.see(CloseConsumer(active), Done)
    assert stage.take(3, other) == ["1", "2", "3"]


def test_a_redelivery_request_redelivers_its_messages_and_counts_them(stage: Stage) -> None:
    stage.send(4)
    stage.subscribe(queue=10)
    stage.take(4)
    assert ids(stage.see(Nack("c", (1, 3)), RedeliveryRequested).messages) == ["2", "4"]
    again = stage.see(Receive("c", 5), ReceivedMessages).messages
    assert [(one.business_id, one.redeliveries) for one in again] == [("2", 1), ("4", 1)]
    stage.acknowledge(0)
    assert ids(stage.see(Nack("c"), RedeliveryRequested).messages)[:3] == ["2", "3", "4"]
    assert sorted(stage.take(5)) == ["2", "3", "4"]


@pytest.mark.parametrize("by_time", [False, True])
def test_a_seek_disconnects_the_consumer_and_moves_the_cursor_back(stage: Stage, by_time: bool) -> None:
    stage.send(4)
    stage.send(1)
    stage.subscribe(kind="Exclusive")
    stage.take(5)
    stage.acknowledge(4, cumulative=True)
    set_to = stage.see(Seek("c", "2", by_time), CursorReset).to
    assert isinstance(stage.do(Receive("c", 1)), Skipped)
    left = stage.left("Exclusive")
    assert left[-4:] == ["2", "3", "4", "5"]
    assert stage.positions[left[0]] == set_to
    assert by_time or len(left) == 4


def test_a_cursor_is_reset_to_a_message_and_to_the_beginning(stage: Stage) -> None:
    stage.send(7)
    stage.subscribe()
    stage.take(7)
    assert stage.see(ResetCursor("t", "s", "6"), CursorReset).to == stage.positions["6"]
    assert stage.left() == ["6", "7"]
    assert stage.see(ResetCursor("t", "s", None), CursorReset).to is None
    assert len(stage.left()) == 7


def test_skipping_does_not_count_acknowledged_messages(stage: Stage) -> None:
    at = stage.send(7)
    stage.subscribe()
    stage.take(7)
    stage.acknowledge(1)
    stage.see(Skip("t", "s", 2), Done)
    assert stage.read().mark_delete == at[2]
    stage.see(SkipAll("t", "s"), Done)
    assert (stage.read().mark_delete, stage.read().backlog) == (at[6], 0)


def test_expiry_acknowledges_up_to_its_message(stage: Stage) -> None:
    at = stage.send(12)
    stage.see(CreateSubscription("t", "s"), Done)
    stage.see(Expire("t", "s", "7"), Expired)
    assert stage.read().mark_delete == at[6]
    assert stage.left() == [str(number) for number in range(8, 13)]


def test_a_subscription_is_created_once_and_not_deleted_while_it_has_consumers(stage: Stage) -> None:
    create, delete = CreateSubscription("t", "s", "latest"), DeleteSubscription("t", "s")
    stage.send(1)
    stage.see(create, Done)
    assert stage.see(create, Refused).code == "409"
    stage.subscribe()
    assert stage.see(delete, Refused).code == "412"
    assert stage.take(1) == []
    stage.see(CloseConsumer("c"), Done)
    stage.see(delete, Done)
    assert stage.do(ReadCursor("t", "s")) == NO_SUBSCRIPTION


def test_an_unload_loses_no_ack(stage: Stage) -> None:
    at = stage.send(12)
    stage.subscribe()
    stage.take(12)
    stage.acknowledge(*range(5), 7)
    # Before the cursor has its ledger, an unload does lose acks on releases (unload-while-cursor-ledger-opens).
    stage.see(AwaitPersisted("t", "s"), Persisted)
    stage.see(Unload("t"), Done)
    assert isinstance(stage.do(Acknowledge("c", (1,))), Skipped)
    assert (stage.read().mark_delete, stage.read().ranges) == (at[4], (Range(at[6], at[7]),))
    assert stage.left() == ["6", "7", "9", "10", "11", "12"]


def test_the_writes_to_the_ledger_that_a_cursor_was_recovered_from_are_not_its_own(world: World) -> None:
    stage = Stage(world, persistence="once-a-second")
    stage.send(12)
    stage.subscribe()
    stage.take(12)
    # More ranges than the metadata store holds: the unload writes them to the cursor's ledger.
    stage.acknowledge(1, 3, 5, 7, 9, 11)
    stage.see(AwaitPersisted("t", "s"), Persisted)
    assert stage.read().written > 0
    stage.see(Unload("t"), Done)
    assert stage.read().written == 0
    stage.subscribe("d")
    stage.take(1, "d")
    stage.acknowledge(0, consumer="d")
    assert stage.see(AwaitPersisted("t", "s"), Persisted).entries > 0


def test_trimming_keeps_the_ledgers_with_unacknowledged_messages(world: World) -> None:
    stage = Stage(world, is_trimmed=True)
    at = stage.send(12)
    stage.subscribe()
    stage.take(12)
    stage.acknowledge(*range(8))
    # The broker uses the persisted mark-delete position, which follows a moment later.
    eventually(lambda: stage.see(Trim("t"), Trimmed).ledgers == (at[5].ledger, at[10].ledger))
    assert stage.left() == ["9", "10", "11", "12"]
    stage.performer.close()


def test_a_terminated_topic_accepts_no_message(stage: Stage) -> None:
    stage.send(2)
    stage.see(Terminate("t"), Terminated)
    stage.subscribe()
    assert stage.take(3) == ["1", "2"]


def test_a_consumer_that_has_the_rest_of_a_batch_is_seen_to_be_blocked(world: World) -> None:
    stage = Stage(world, limits=Limits(unacknowledged=3))
    stage.send(1, batch=3)
    stage.send(3)
    stage.subscribe()
    stage.take(3)
    stage.acknowledge(0, 1)
    stage.see(CrashConsumer("c"), Done)
    stage.subscribe("d")
    taken = stage.see(Receive("d", 6), ReceivedMessages)
    assert (ids(taken.messages), taken.blocked) == (["3", "4", "5"], True)
    assert stage.read().arrived[0].unacknowledged == 3
    stage.performer.close()


def test_a_consumer_is_seen_to_be_blocked_by_messages_that_it_does_not_have(world: World) -> None:
    stage = Stage(world, limits=Limits(unacknowledged=3))
    stage.send(6)
    stage.subscribe()
    assert stage.take(1) == ["1"]
    stage.see(Expire("t", "s", "1"), Expired)
    assert stage.take(1) == ["2"]
    stage.acknowledge(0)  # of releases with dropped-pending-acks-still-counted, this does not lower the count
    assert stage.see(Receive("c", 6), ReceivedMessages).blocked
    assert stage.read().unacknowledged == 3
    stage.performer.close()


def test_a_non_durable_subscription_is_gone_with_its_consumer(stage: Stage) -> None:
    stage.send(3)
    stage.see(Subscribe("c", "t", "s", "Exclusive", durable=False), Subscribed)
    assert stage.take(2) == ["1", "2"]
    stage.see(CrashConsumer("c"), Done)
    assert stage.do(ReadCursor("t", "s")) == NO_SUBSCRIPTION


def test_an_operation_on_something_missing_is_skipped(stage: Stage) -> None:
    stage.subscribe()
    for operation in (
        Receive("nobody", 1),
        Acknowledge("c", (0,)),
        Nack("c", (0,)),
        Seek("c", "nowhere"),
        ReadCursor("elsewhere", "s"),
        Expire("t", "s", "nowhere"),
        Subscribe("c", "t", "s"),
    ):
        assert isinstance(stage.do(operation), Skipped), operation
    assert stage.do(ReadCursor("t", "other")) == NO_SUBSCRIPTION


# ------------------------------------------------------------------------------------------------- delayed messages

DELAY_MS = 600
LONG_MS = 4000
"""Long enough that a message is not due at the next operations, on a busy machine either."""


def send_delayed(stage: Stage, *delays_ms: int, key: str | None = None) -> None:
    """Messages d1, d2, ... with these delays."""
    stage.see(OpenProducer("p", "t", "p"), Opened)
    entries = tuple(
        Entry((Message(n, f"d{n}", key, delay_ms=delay_ms),)) for n, delay_ms in enumerate(delays_ms, start=1)
    )
    answers = stage.see(Send("p", entries), Sent).answers
    assert all(isinstance(answer, Stored) for answer in answers)


def test_a_shared_consumer_receives_a_delayed_message_when_its_time_has_come(stage: Stage) -> None:
    send_delayed(stage, LONG_MS, 0)
    stage.subscribe()
    taken = stage.see(Receive("c", 5), ReceivedMessages)
    assert (ids(taken.messages), taken.settled) == (["d2"], False)
    assert stage.read().backlog == 2
    eventually(lambda: stage.take(5) == ["d1"])


def test_an_exclusive_consumer_receives_it_at_once(stage: Stage) -> None:
    send_delayed(stage, DELAY_MS, 0)
    stage.subscribe(kind="Exclusive")
    assert stage.take(5) == ["d1", "d2"]


def test_a_read_of_the_cursor_waits_for_delayed_messages_if_asked_to(stage: Stage) -> None:
    send_delayed(stage, LONG_MS, 0)
    stage.subscribe()
    taken = stage.see(Receive("c", 5), ReceivedMessages)
    assert ids(taken.messages) == ["d2"]
    (at_once,) = stage.read().arrived
    (later,) = stage.see(ReadCursor("t", "s", after_delays=True), CursorRead).arrived
    assert (ids(at_once.messages), ids(later.messages)) == ([], ["d1"])


def test_receiving_all_waits_for_delayed_messages(stage: Stage) -> None:
    send_delayed(stage, DELAY_MS, 0)
    stage.subscribe()
    stage.take(1)
    stage.acknowledge(0)
    assert stage.left() == ["d1"]


def test_delayed_messages_survive_an_unload_and_the_leave_of_the_last_consumer(stage: Stage) -> None:
    send_delayed(stage, LONG_MS)
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
    send_delayed(stage, LONG_MS, 0)
    stage.subscribe()
    assert stage.take(5) == ["d2"]
    asked = stage.see(Nack("c", None), RedeliveryRequested)
    assert sorted(ids(asked.messages)) == ["d1", "d2"]


def test_key_shared_consumers_receive_later_messages_of_the_key_before_it(stage: Stage) -> None:
    send_delayed(stage, LONG_MS, 0, key="k")
    stage.subscribe(kind="Key_Shared")
    stage.see(Permit("c", 5), Done)

    def received() -> list[str]:
        (read,) = stage.see(ReceiveDue("t", "s"), DueReceived).consumers
        return ids(read.messages)

    assert received() == ["d2"]
    eventually(lambda: received() == ["d1"])


def test_the_log_has_the_delays(stage: Stage) -> None:
    send_delayed(stage, DELAY_MS, 0)
    logged = stage.see(ReadLog("t"), LogRead).entries
    assert [one.entry.messages[0].delay_ms for one in logged] == [DELAY_MS, 0]


def test_pulsar_client_does_not_send_them_here(world: World) -> None:
    stage = Stage(world)
    stage.see(OpenProducer("p", "t", "p", "official"), Opened)
    stage.see(Send("p", (Entry((Message(1, "d1", delay_ms=DELAY_MS),)),)), Skipped)
    stage.performer.close()


# ------------------------------------------------------------------------------------------------------ failed reads


def test_failed_reads_are_waited_for_only_in_an_example_that_disturbed_the_metadata_store(world: World) -> None:
    """A dispatcher reads again 15 s after a read that failed, by its settings."""
    performer = RealPerformer(world)
    try:
        assert world.failed_reads_s == 0
        disturbed = performer.perform(DisturbMetadataStore("expire")).outcome
        assert isinstance(disturbed, Done | Skipped)
        assert (world.failed_reads_s > 0) == isinstance(disturbed, Done)
    finally:
        performer.close()
    RealPerformer(world).close()
    assert world.failed_reads_s == 0


def test_limits_that_a_release_lacks_are_refused_each_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str, __: int) -> None:
        raise AdminError("POST maxConsumersPerTopic", 404, "there is no such request")

    monkeypatch.setattr(world.admin, "set_max_consumers", refuse)
    for _ in range(2):
        with pytest.raises(AdminError, match="no such request"):
            world.namespaces.of_cursors("every-ack", is_trimmed=False, limits=Limits(consumers=2, unacknowledged=77))
