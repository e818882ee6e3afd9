"""Producer sessions of an example, on topics of any document."""

from __future__ import annotations

from dataclasses import dataclass, replace

from model.log import Position
from model.operations import OpenProducer
from model.vocabulary import Client, Compression, Entry


@dataclass(frozen=True, slots=True)
class Pending:
    """Entries that were sent without waiting for answers.

    ``confirmed_before``: the last position confirmed on the topic before the send. ``deduplication``: its state then.
    ``is_before_fault``: since they were sent, something happened that may fail later writes of the topic.
    """

    entries: tuple[Entry, ...]
    confirmed_before: Position | None
    deduplication: bool
    is_before_fault: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A producer session: its topic, name and client, and the sends without a wait.

    ``was_cut``: a network fault may have cut its connection, which the client did not notice yet. ``highest``: the
    highest of its last sequence id in ProducerSuccess and the confirmed ids; None: unknown. ``cluster``: the
    cluster that it is at, if the history names one.
    """

    topic: str
    producer: str
    client: Client
    pending: tuple[Pending, ...] = ()
    is_chunking: bool = False
    compression: Compression = "none"
    was_cut: bool = False
    highest: int | None = None
    cluster: str | None = None

    def before_fault(self) -> Session:
        """The same when something happened that may fail later writes of its topic."""
        return replace(self, pending=tuple(replace(one, is_before_fault=True) for one in self.pending))


def session_of(operation: OpenProducer, highest: int | None = None) -> Session:
    """A new session with this last sequence id in ProducerSuccess."""
    return Session(
        operation.topic,
        operation.producer,
        operation.client,
        is_chunking=operation.is_chunking,
        compression=operation.compression,
        highest=highest,
        cluster=operation.cluster,
    )
