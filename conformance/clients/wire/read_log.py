"""Reads a topic back, entry by entry, with a reader.

The broker sends it neither markers nor trimmed entries.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import ConnectionLost, NoAnswer, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireConsumer, WireDelivery
from conformance.wait import Deadline
from model.log import Position

_PERMITS: Final = 1000
"""The permits of the reader: enough for an example's whole log, and bounded memory for a long one."""

_PAUSE_S: Final = 0.02
"""The pause before the next request to a topic that is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEntry:
    """One entry of a topic's log."""

    position: Position
    metadata: pb.MessageMetadata
    messages: tuple[tuple[int, bytes], ...]
    """Sequence id and payload of each message."""
    keys: tuple[tuple[str | None, bytes | None], ...]
    """Key and ordering key of each message."""

    @property
    def producer_name(self) -> str:
        return self.metadata.producer_name

    @property
    def sequence_id(self) -> int:
        """Its sequence id; the first one of a batch."""
        return self.metadata.sequence_id

    @property
    def highest_sequence_id(self) -> int:
        """The last sequence id of a batch; the only one if the metadata has no other."""
        return max(self.metadata.sequence_id, self.metadata.highest_sequence_id)


def read_log(client: WireClient, topic: str, *, timeout_s: float, last: Position | None = None) -> list[ParsedEntry]:
    """Read a topic from its beginning to its end at the start of the reading, in the order of delivery.

    ``last``: its end; by default it sends GetLastMessageId. A send in flight may be stored after it. It retries while
    the topic is being loaded. Raises ``ServerRefused``, ``ConnectionLost``, ``NoAnswer``.
    """
    return list(each_entry(client, topic, timeout_s=timeout_s, last=last))


def each_entry(
    client: WireClient, topic: str, *, timeout_s: float, last: Position | None = None, ahead: int = _PERMITS
) -> Iterator[ParsedEntry]:
    """The same as an iterator; the broker sends at most ``ahead`` messages ahead."""
    deadline = Deadline.after(timeout_s)
    with _closed(_open_reader(client, topic, deadline), deadline) as reader:
        reader.flow(ahead)
        last = last or reader.last_message_id(timeout_s=deadline.left_s)
        if last is not None:
            for group in _read_up_to(last, reader, deadline, ahead):
                yield _entry(group)


@contextmanager
def _closed(reader: WireConsumer, deadline: Deadline) -> Iterator[WireConsumer]:
    """Close a reader at the end. If the reading failed, its error is raised, and not that of the close after it."""
    try:
        yield reader
    except BaseException:
        with suppress(ServerRefused, ConnectionLost, NoAnswer):
            reader.close(timeout_s=deadline.left_s)
        raise
    reader.close(timeout_s=deadline.left_s)


def _open_reader(client: WireClient, topic: str, deadline: Deadline) -> WireConsumer:
    refused: ServerRefused | None = None
    while True:
        try:
            return client.subscribe(
                topic,
                f"read-log-{uuid.uuid4().hex}",
                kind="Exclusive",
                durable=False,
                initial="earliest",
                timeout_s=deadline.left_s,
            )
        except ServerRefused as error:
            if not error.may_pass:
                raise
            refused = error
        except NoAnswer as none:
            raise refused or none from None
        client.pump(for_s=_PAUSE_S)


def _read_up_to(last: Position, reader: WireConsumer, deadline: Deadline, ahead: int) -> Iterator[list[WireDelivery]]:
    """The deliveries of each entry, up to the last one."""
    received = _receive_up_to(last, reader, deadline, ahead)
    for _, group in itertools.groupby(received, key=lambda delivery: delivery.position):
        yield list(group)


def _receive_up_to(last: Position, reader: WireConsumer, deadline: Deadline, ahead: int) -> Iterator[WireDelivery]:
    for taken in itertools.count(1):
        delivery = reader.receive(timeout_s=deadline.left_s)
        if delivery is None:
            raise NoAnswer(f"the log's last entry is {last}; after {taken - 1} messages nothing more came")
        yield delivery
        if delivery.position >= last and delivery.batch_index in (-1, delivery.batch_size - 1):
            return
        if taken % (ahead // 2) == 0:
            reader.flow(ahead // 2)


def _entry(deliveries: list[WireDelivery]) -> ParsedEntry:
    first = deliveries[0]
    return ParsedEntry(
        position=first.position,
        metadata=first.metadata,
        messages=tuple((delivery.sequence_id, delivery.payload) for delivery in deliveries),
        keys=tuple(_keys(delivery) for delivery in deliveries),
    )


def _keys(delivery: WireDelivery) -> tuple[str | None, bytes | None]:
    source = delivery.metadata if delivery.single is None else delivery.single
    key = source.partition_key if source.HasField("partition_key") else None
    return key, source.ordering_key if source.HasField("ordering_key") else None
