"""Consumers of pulsar-client in the operations of document 003, partitions, and when a cursor is persisted."""

from __future__ import annotations

import pytest

from conformance.lockstep.world import World
from model.events import Created, Done, Persisted, RedeliveryRequested, Skipped, Subscribed
from model.operations import CreateTopic, Unload
from model.subscription_operations import AwaitPersisted, CloseConsumer, CrashConsumer, Nack, ReadCursor, Subscribe
from tests.lockstep.cursor_stage import Stage
from tests.waits import eventually


def test_grouped_acks_are_sent_on_closing(stage: Stage) -> None:
    at = stage.send(3)
    stage.subscribe(client="official", queue=10)
    assert stage.take(5) == ["1", "2", "3"]
    assert stage.acknowledge(0, 1) == ["1", "2"]
    stage.see(CloseConsumer("c"), Done)
    assert stage.read().mark_delete == at[1]


def left_after_crash(world: World) -> list[str]:
    """The business ids left of three messages when a consumer crashes that just acknowledged two of them."""
    stage = Stage(world)
    stage.send(3)
    stage.subscribe(client="official", queue=10)
    stage.take(3)
    stage.acknowledge(0, 1)
    stage.see(CrashConsumer("c"), Done)
    left = stage.left()
    stage.performer.close()
    return left


def test_grouped_acks_are_lost_in_a_crash(world: World) -> None:
    # The client flushes grouped acks every 100 ms, so it may have done so in between.
    eventually(lambda: left_after_crash(world) == ["1", "2", "3"])


def test_acks_arrive_before_the_cursor_is_read(stage: Stage) -> None:
    at = stage.send(2, batch=3)
    stage.subscribe(client="official", queue=10)
    stage.take(6)
    stage.acknowledge(0, 1, 2, 4)
    assert (stage.read().mark_delete, stage.read().backlog) == (at[0], 1)
    assert stage.left() == ["4", "6"]


def test_a_cumulative_ack_of_pulsar_client_covers_everything_before_it(stage: Stage) -> None:
    at = stage.send(7)
    stage.subscribe(kind="Exclusive", client="official", queue=10)
    stage.take(7)
    stage.acknowledge(5, cumulative=True)
    assert stage.read().mark_delete == at[5]


def test_nacked_messages_are_redelivered_after_a_delay(stage: Stage) -> None:
    stage.send(4)
    stage.subscribe(client="official", queue=10)
    stage.take(4)
    stage.see(Nack("c", (1, 2)), RedeliveryRequested)
    assert sorted(stage.take(9)) == ["2", "3"]
    stage.see(Nack("c"), RedeliveryRequested)
    assert sorted(stage.take(9)) == ["1", "2", "3", "4"]


def test_pulsar_client_reconnects_after_an_unload(stage: Stage) -> None:
    stage.send(3)
    stage.subscribe(client="official", queue=10)
    assert stage.take(2) == ["1", "2"]
    stage.see(Unload("t"), Done)
    assert set(stage.take(3)) == {"1", "2", "3"}


def test_consumers_of_both_clients_share_a_subscription(stage: Stage) -> None:
    stage.subscribe("w", queue=1)
    stage.subscribe("o", client="official", queue=1)
    stage.send(6)
    taken = [*stage.take(2, "w"), *stage.take(9, "o")]
    taken += [message.business_id for one in stage.read().arrived for message in one.messages]
    assert sorted(taken) == ["1", "2", "3", "4", "5", "6"]


def test_each_partition_has_its_own_cursor(stage: Stage) -> None:
    stage.see(CreateTopic("u", persistence="every-ack", partitions=2), Created)
    first, second = (stage.send(2, topic=f"u-partition-{number}") for number in (0, 1))
    assert isinstance(stage.do(Subscribe("w", "u", "s")), Skipped)
    stage.see(Subscribe("o", "u", "s", client="official", queue=10), Subscribed)
    stage.see(Subscribe("w", "u-partition-1", "t"), Subscribed)
    assert sorted(stage.take(9, "o")) == ["1", "2", "3", "4"]
    assert stage.take(9, "w") == ["3", "4"]
    stage.acknowledge(0, 1, 2, 3, consumer="o")
    assert [stage.read(f"u-partition-{number}").mark_delete for number in (0, 1)] == [first[-1], second[-1]]
    assert isinstance(stage.do(ReadCursor("u", "s")), Skipped)
    stage.see(CrashConsumer("o"), Done)


def test_every_ack_is_persisted_at_once(stage: Stage) -> None:
    stage.send(3)
    stage.subscribe()
    stage.take(3)
    stage.acknowledge(0)
    assert stage.see(AwaitPersisted("t", "s"), Persisted).after_ms < 1000
    entries = stage.see(AwaitPersisted("t", "s"), Persisted).entries
    stage.acknowledge(2)
    assert stage.see(AwaitPersisted("t", "s"), Persisted).entries == entries + 1


@pytest.mark.parametrize("waits", [True, False])
def test_a_rate_limited_cursor_is_persisted_by_the_flush(world: World, waits: bool) -> None:
    stage = Stage(world, persistence="once-a-second")
    stage.send(9)
    stage.subscribe()
    stage.take(9)
    for number in range(8 if waits else 1):
        stage.acknowledge(number)
    persisted = stage.see(AwaitPersisted("t", "s"), Persisted)
    # The broker persists one ack a second because of its rate limit, and the rest in the flush, every 2 s.
    assert persisted.after_ms < 3500
    assert (persisted.after_ms > 500) == waits
    stage.performer.close()


def test_grouped_acks_are_persisted_later(stage: Stage) -> None:
    stage.send(3)
    stage.subscribe(client="official", queue=10)
    stage.take(3)
    stage.acknowledge(1)
    assert stage.see(AwaitPersisted("t", "s"), Persisted).entries > 0
