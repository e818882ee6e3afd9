"""Short constructors of entries and topics, for the tests of the reference."""

from __future__ import annotations

from model.deduplication.reference import SessionAnswers, Topic, complete_next_write, new_topic, open_producer, send
from model.vocabulary import Entry, Message


def entry(*ids: int) -> Entry:
    """A message of this sequence id, or a batch of several."""
    return Entry(tuple(Message(i, f"business {i}") for i in ids))


def topic_with(*producers: str, entries_per_ledger: int = 5, max_producers: int = 10) -> Topic:
    """A topic with deduplication; each producer has a session of its own name."""
    topic = new_topic(entries_per_ledger=entries_per_ledger, max_producers=max_producers)
    for producer in producers:
        topic, _ = open_producer(topic, producer, producer)
    return topic


def store(topic: Topic, producer: str, *ids: int) -> Topic:
    """The topic after each of these ids was sent and stored."""
    for i in ids:
        topic, heard = send(topic, producer, entry(i))
        assert not heard, f"{i} is not new: {heard}"
        topic, _ = complete_next_write(topic)
    return topic


def answers(heard: SessionAnswers) -> list[object]:
    """The answers, without their receivers."""
    return [message.answer for message in heard]


def stored_ids(topic: Topic, producer: str) -> list[int]:
    """The sequence ids of a producer in the log, in its order."""
    return [m.sequence_id for logged in topic.log if logged.producer == producer for m in logged.entry.messages]
