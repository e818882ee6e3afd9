"""Producer sessions of an example, whatever their topic is."""

from __future__ import annotations

from dataclasses import dataclass

from model.log import Position
from model.operations import OpenProducer
from model.vocabulary import Client, Compression, Entry


@dataclass(frozen=True, slots=True)
class Pending:
    """Entries that were sent and not awaited.

    Before that, ``behind`` was the last position confirmed on the topic, and ``deduplication`` on or off.
    """

    entries: tuple[Entry, ...]
    behind: Position | None
    deduplication: bool


@dataclass(frozen=True, slots=True)
class Session:
    """A producer session: on which topic, under which name, by which client, and what it sent without waiting.

    ``was_cut``: a network fault may have cut its connection, which nobody noticed yet.
    ``highest``: the highest sequence id that it learned on opening or that was confirmed to it; None: not known.
    """

    topic: str
    producer: str
    client: Client
    pending: tuple[Pending, ...] = ()
    is_chunking: bool = False
    compression: Compression = "none"
    was_cut: bool = False
    highest: int | None = None


def session_of(operation: OpenProducer, highest: int | None = None) -> Session:
    """A session that was just opened, and learned this last sequence id."""
    return Session(
        operation.topic,
        operation.producer,
        operation.client,
        is_chunking=operation.is_chunking,
        compression=operation.compression,
        highest=highest,
    )
