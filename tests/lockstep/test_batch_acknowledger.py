"""The acks of a client without batch index acks."""

from __future__ import annotations

import pytest

from conformance.lockstep.cursors.batch_acknowledger import BatchAcknowledger
from conformance.lockstep.positions import Positions
from model.events import Delivery
from model.log import Position

TOPIC = "t"


def entry(number: int, size: int, *, redeliveries: int = 0) -> list[Delivery]:
    position = Position(7, number)
    if size == 1:
        return [Delivery(position, -1, 0, f"{number}", redeliveries)]
    return [Delivery(position, index, size, f"{number}/{index}", redeliveries) for index in range(size)]


class Client:
    """A consumer that received these entries."""

    def __init__(self, *entries: list[Delivery]) -> None:
        self.positions = Positions()
        self.acknowledger = BatchAcknowledger(self.positions)
        for messages in entries:
            self.receives(messages)

    def receives(self, messages: list[Delivery]) -> None:
        for message in messages:
            self.positions.delivered(TOPIC, message)
            self.acknowledger.arrived(TOPIC, message)

    def acks(self, *messages: Delivery) -> list[str]:
        return [message.business_id for message in self.acknowledger.acknowledge(messages)]


def test_a_batch_is_acknowledged_with_the_last_of_its_messages() -> None:
    single, batch = entry(0, 1), entry(1, 3)
    client = Client(single, batch)
    assert client.acks(batch[1], single[0]) == ["0"]
    assert client.acknowledger.keeps(batch[1])
    assert client.acks(batch[0]) == []
    assert client.acks(batch[2]) == ["1/0", "1/1", "1/2"]
    assert not client.acknowledger.keeps(batch[1])


@pytest.mark.parametrize("redeliveries", [0, 1])
def test_a_redelivered_batch_starts_without_acks(redeliveries: int) -> None:
    first, again = entry(0, 2), entry(0, 2, redeliveries=redeliveries)
    client = Client(first)
    assert client.acks(first[0]) == []
    client.receives(again)
    assert client.acks(again[1]) == []
    assert client.acks(again[0]) == ["0/0", "0/1"]


def test_a_cumulative_ack_within_a_batch_acknowledges_up_to_the_previous_entry() -> None:
    before, batch = entry(0, 2), entry(1, 3)
    client = Client(before, batch)
    position, (last,) = client.acknowledger.acknowledge_up_to(batch[1])
    assert (position, last.position, last.business_id) == (Position(7, 0), Position(7, 0), "0/1")
    assert client.acknowledger.acknowledge_up_to(batch[2]) == (Position(7, 1), (batch[2],))


def test_a_cumulative_ack_within_the_first_entry_acknowledges_nothing() -> None:
    batch = entry(0, 2)
    assert Client(batch).acknowledger.acknowledge_up_to(batch[0]) == (Position(7, -1), ())


def test_a_cumulative_ack_and_individual_ones_complete_a_batch() -> None:
    batch = entry(0, 3)
    client = Client(batch)
    assert client.acks(batch[2]) == []
    assert client.acknowledger.acknowledge_up_to(batch[1]) == (Position(7, 0), (batch[2],))
