"""Reads a topic back, entry by entry: what is stored, as against what was confirmed.

A reader sees what consumers may see: markers are left out by the broker, and so is what was trimmed.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import NoAnswer, ServerRefused
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.consumer import WireConsumer, WireDelivery
from conformance.wait import Deadline
from model.log import Position

_PERMITS: Final = 1000
"""How many messages the broker may be ahead: an example's whole log in one go, a long log in bounded memory."""

_PAUSE_S: Final = 0.02
"""How long to leave a topic alone that is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """One entry of a topic's log."""

    position: Position
    metadata: pb.MessageMetadata
    messages: tuple[tuple[int, bytes], ...]
    """Sequence id and payload: of the message, or of each of the batch."""
    keys: tuple[tuple[str | None, bytes | None], ...]
    """The same messages' keys and ordering keys."""

    @property
    def producer_name(self) -> str:
        return self.metadata.producer_name

    @property
    def sequence_id(self) -> int:
        """What it was sent with; of a batch, its first one."""
        return self.metadata.sequence_id

    @property
    def highest_sequence_id(self) -> int:
        """The last sequence id of a batch; the only one, where the entry does not say that there are more."""
        return max(self.metadata.sequence_id, self.metadata.highest_sequence_id)


def read_log(client: WireClient, topic: str, *, timeout_s: float, last: Position | None = None) -> list[LoggedEntry]:
    """Read a topic from its beginning to what is its end when the reading begins, in the order of delivery.

    ``last``: its end, where that is known; otherwise the broker is asked. A send that is still on its way inside the
    broker may come to stand behind that. A topic that is just being loaded is asked for again. Raises
    ``ServerRefused``, ``ConnectionLost``, ``NoAnswer``.
    """
    return list(each_entry(client, topic, timeout_s=timeout_s, last=last))


def each_entry(
    client: WireClient, topic: str, *, timeout_s: float, last: Position | None = None, ahead: int = _PERMITS
) -> Iterator[LoggedEntry]:
    """The same, entry by entry: the broker is at most ``ahead`` messages ahead of whoever looks at them."""
    deadline = Deadline.after(timeout_s)
    reader = _open_reader(client, topic, deadline)
    try:
        reader.flow(ahead)
        last = last or reader.last_message_id(timeout_s=deadline.left_s)
        if last is not None:
            for group in _read_up_to(last, reader, deadline, ahead):
                yield _entry(group)
    finally:
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
    """Give the deliveries of each entry, up to the last one."""
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


def _entry(deliveries: list[WireDelivery]) -> LoggedEntry:
    first = deliveries[0]
    return LoggedEntry(
        position=first.position,
        metadata=first.metadata,
        messages=tuple((delivery.sequence_id, delivery.payload) for delivery in deliveries),
        keys=tuple(_keys(delivery) for delivery in deliveries),
    )


def _keys(delivery: WireDelivery) -> tuple[str | None, bytes | None]:
    source = delivery.metadata if delivery.single is None else delivery.single
    key = source.partition_key if source.HasField("partition_key") else None
    return key, source.ordering_key if source.HasField("ordering_key") else None
