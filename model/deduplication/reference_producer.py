"""The client's side of document 000: a producer of a fixed name that sends a source's messages until all are confirmed.

Its ids rise with the source, it keeps what is unconfirmed, and sends that again, in order and in the same batches, on
its next connection. When its process is started anew it has forgotten everything, and goes on from what it learns. The
topic that answers it is :mod:`model.deduplication.reference`. When it connects, and what it sends next, is for others
to choose.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from model.events import Answer, Duplicate, Stored
from model.rules.catalogue import carries
from model.vocabulary import Entry, Message

Source = tuple[Message, ...]
"""What a producer has to send, in order; sequence ids rise, not necessarily by one (DEDUP-08)."""


class Producer(Struct, frozen=True, cache_hash=True, gc=False):
    """A producer: how many messages of its source it took, and the entries that it made of them and must keep.

    ``waiting`` are to be sent again on this connection, oldest first; ``awaiting`` were sent on it and are unconfirmed.
    """

    name: str
    taken: int = 0
    waiting: tuple[Entry, ...] = ()
    awaiting: tuple[Entry, ...] = ()
    connected: bool = False

    @property
    def kept(self) -> tuple[Entry, ...]:
        """All that is unconfirmed, in the order of the source."""
        return self.awaiting + self.waiting


def next_entries(producer: Producer, source: Source, batch_sizes: Iterable[int] = (1,)) -> tuple[Entry, ...]:
    """What it may send next: the oldest that must come again, or new messages in a batch of one of these sizes."""
    if producer.waiting:
        return producer.waiting[:1]
    left = source[producer.taken :]
    return tuple(Entry(left[:size]) for size in batch_sizes if size <= len(left))


def sent(producer: Producer, entry: Entry) -> Producer:
    """It sent this entry, which it keeps until it is confirmed."""
    if producer.waiting:
        return replace(producer, waiting=producer.waiting[1:], awaiting=(*producer.awaiting, entry))
    taken = producer.taken + len(entry.messages)
    return replace(producer, taken=taken, awaiting=(*producer.awaiting, entry))


@carries("DEDUP-03", "DEDUP-13")
def heard(producer: Producer, entry: Entry, answer: Answer) -> Producer:
    """It heard of an entry: a confirmation, of a duplicate too, lets it forget the entry; anything else does not."""
    if not isinstance(answer, Stored | Duplicate):
        return producer
    return replace(producer, awaiting=tuple(kept for kept in producer.awaiting if kept != entry))


def disconnected(producer: Producer) -> Producer:
    """Its connection is gone; it keeps what is unconfirmed."""
    return replace(producer, waiting=producer.kept, awaiting=(), connected=False)


@carries("DEDUP-13")
def reconnected(producer: Producer) -> Producer:
    """It is connected again and will send what is unconfirmed again, before anything new (DEDUP-13)."""
    return replace(disconnected(producer), connected=True)


@carries("DEDUP-09", "DEDUP-13")
def restarted(producer: Producer, source: Source, last_sequence_id: int) -> Producer:
    """A new process: it kept nothing, and goes on in its source behind the id that it learned (DEDUP-09)."""
    taken = sum(message.sequence_id <= last_sequence_id for message in source)
    return Producer(producer.name, taken=taken, connected=True)


@carries("DEDUP-13")
def replayed(producer: Producer) -> Producer:
    """A new process that does not care for what it learns: it sends its source from the beginning."""
    return Producer(producer.name, connected=True)


@carries("DEDUP-15")
def gave_up(producer: Producer) -> Producer:
    """A new process over a source that cannot replay: what was unconfirmed is lost, what comes next is sent."""
    return Producer(producer.name, taken=producer.taken, connected=True)
