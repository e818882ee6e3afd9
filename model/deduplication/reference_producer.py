"""The client of document 000: a producer with a fixed name that sends a source's messages until all are confirmed.

Its ids rise with the source. It keeps unconfirmed entries and resends them on its next connection, in order and in the
same batches. A restarted process has lost everything, and resumes from the last sequence id in ProducerSuccess. The
topic is :mod:`model.deduplication.reference`. The caller decides when it connects and what it sends next.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from model.events import Answer, Duplicate, Stored
from model.rules.catalogue import carries
from model.vocabulary import Entry, Message

Source = tuple[Message, ...]
"""The messages to send, in order; sequence ids rise, not necessarily by one (DEDUP-08)."""


class Producer(Struct, frozen=True, cache_hash=True, gc=False):
    """A producer: how many messages of its source it took, and its unconfirmed entries.

    ``waiting``: to be resent on this connection, oldest first. ``awaiting``: sent on it and unconfirmed.
    """

    name: str
    taken: int = 0
    waiting: tuple[Entry, ...] = ()
    awaiting: tuple[Entry, ...] = ()
    connected: bool = False

    @property
    def unconfirmed(self) -> tuple[Entry, ...]:
        """The unconfirmed entries, in the order of the source."""
        return self.awaiting + self.waiting


def next_entries(producer: Producer, source: Source, batch_sizes: Iterable[int] = (1,)) -> tuple[Entry, ...]:
    """What it may send next: the oldest entry to resend, or new messages in a batch of one of these sizes."""
    if producer.waiting:
        return producer.waiting[:1]
    left = source[producer.taken :]
    return tuple(Entry(left[:size]) for size in batch_sizes if size <= len(left))


def sent(producer: Producer, entry: Entry) -> Producer:
    """The producer keeps a sent entry until it is confirmed."""
    if producer.waiting:
        return replace(producer, waiting=producer.waiting[1:], awaiting=(*producer.awaiting, entry))
    taken = producer.taken + len(entry.messages)
    return replace(producer, taken=taken, awaiting=(*producer.awaiting, entry))


@carries("DEDUP-03", "DEDUP-13")
def heard(producer: Producer, entry: Entry, answer: Answer) -> Producer:
    """A confirmation, also of a duplicate, ends the wait for an entry; any other answer does not."""
    if not isinstance(answer, Stored | Duplicate):
        return producer
    return replace(producer, awaiting=tuple(kept for kept in producer.awaiting if kept != entry))


def disconnected(producer: Producer) -> Producer:
    """The connection is gone; unconfirmed entries are kept."""
    return replace(producer, waiting=producer.unconfirmed, awaiting=(), connected=False)


@carries("DEDUP-13")
def reconnected(producer: Producer) -> Producer:
    """A reconnected producer resends unconfirmed entries before new ones (DEDUP-13)."""
    return replace(disconnected(producer), connected=True)


@carries("DEDUP-09", "DEDUP-13")
def restarted(producer: Producer, source: Source, last_sequence_id: int) -> Producer:
    """A new process resumes its source after the last sequence id in ProducerSuccess (DEDUP-09)."""
    taken = sum(message.sequence_id <= last_sequence_id for message in source)
    return Producer(producer.name, taken=taken, connected=True)


@carries("DEDUP-13")
def replayed(producer: Producer) -> Producer:
    """A new process that ignores the last sequence id and sends its source from the beginning."""
    return Producer(producer.name, connected=True)


@carries("DEDUP-15")
def gave_up(producer: Producer) -> Producer:
    """A new process with a source that cannot replay: unconfirmed messages are lost, later ones are sent."""
    return Producer(producer.name, taken=producer.taken, connected=True)
