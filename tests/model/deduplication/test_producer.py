"""The client's side: what it keeps, what it resends, and where it resumes."""

from __future__ import annotations

from model.deduplication.reference_producer import (
    Producer,
    disconnected,
    gave_up,
    heard,
    next_entries,
    reconnected,
    replayed,
    restarted,
    sent,
)
from model.events import Duplicate, Refused, Stored, Unknown
from model.log import Position
from model.vocabulary import Message
from tests.model.deduplication.entries import entry

SOURCE = tuple(Message(i, f"business {i}") for i in (1, 3, 4))


def after_sending(*ids: int) -> Producer:
    producer = Producer("A", connected=True)
    for i in ids:
        producer = sent(producer, entry(i))
    return producer


def test_a_producer_sends_its_source_in_order() -> None:
    assert next_entries(Producer("A"), SOURCE) == (entry(1),)
    assert next_entries(after_sending(1), SOURCE) == (entry(3),)
    assert next_entries(after_sending(1, 3, 4), SOURCE) == ()


def test_a_producer_makes_batches_of_the_allowed_sizes() -> None:
    assert next_entries(after_sending(1), SOURCE, (1, 2, 3)) == (entry(3), entry(3, 4))


def test_a_batch_advances_the_source_by_all_its_messages() -> None:
    producer = sent(Producer("A", connected=True), entry(1, 3))
    assert next_entries(producer, SOURCE) == (entry(4),)


def test_only_a_confirmation_removes_a_pending_entry() -> None:
    producer = after_sending(1, 3)
    for answer in (Refused("UnknownStatus"), Unknown("no answer came")):
        assert heard(producer, entry(1), answer) == producer
    for confirmation in (Stored(Position(0, 0)), Duplicate()):
        assert heard(producer, entry(1), confirmation).unconfirmed == (entry(3),)


def test_a_reconnected_producer_resends_unconfirmed_entries_first_and_in_order() -> None:
    producer = heard(after_sending(1, 3), entry(1), Duplicate())
    producer = reconnected(disconnected(sent(producer, entry(4))))
    assert producer.connected
    assert producer.waiting == (entry(3), entry(4))
    producer = sent(producer, entry(3))
    assert next_entries(producer, SOURCE) == (entry(4),)
    assert reconnected(producer).waiting == (entry(3), entry(4))


def test_a_restarted_producer_resumes_after_the_last_sequence_id() -> None:
    for learned, following in ((-1, (entry(1),)), (1, (entry(3),)), (2, (entry(3),)), (4, ())):
        producer = restarted(after_sending(1, 3), SOURCE, learned)
        assert producer.unconfirmed == ()
        assert next_entries(producer, SOURCE) == following


def test_a_producer_that_replays_starts_at_the_beginning() -> None:
    assert next_entries(replayed(after_sending(1, 3)), SOURCE) == (entry(1),)


def test_a_producer_without_replay_gives_up_unconfirmed_entries() -> None:
    producer = gave_up(after_sending(1, 3))
    assert producer.unconfirmed == ()
    assert next_entries(producer, SOURCE) == (entry(4),)
