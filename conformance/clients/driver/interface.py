"""A released client of Pulsar, as applications use it: pulsar-client in this process, or any client behind a driver.

It reconnects and resends by itself. Outcomes and errors are those of :mod:`conformance.clients.outcomes`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

from conformance.clients.outcomes import SendOutcome
from conformance.clients.wire.consumer import Kind
from model.log import Position
from model.vocabulary import Compression

UNLIMITED: Final = 0.0
"""As a send timeout: never give up."""

NEVER_MS: Final = 2**31 - 1
"""As the delay of a batch: wait until it is requested, or full."""


class OfficialTicket:
    """One message in flight; the producer waits for its answer."""

    __slots__ = ("_answered", "outcome", "sequence_id")

    def __init__(self, sequence_id: int) -> None:
        self.sequence_id: Final = sequence_id
        self.outcome: SendOutcome | None = None
        """Its outcome; None while the client still tries."""
        self._answered = threading.Event()

    def settle(self, outcome: SendOutcome) -> None:
        """Set its outcome; the first one counts."""
        if self.outcome is None:
            self.outcome = outcome
            self._answered.set()

    def wait(self, timeout_s: float) -> SendOutcome | None:
        """Wait for its outcome; None if there is none in time."""
        self._answered.wait(timeout_s)
        return self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialDelivery:
    """A message as the application receives it."""

    position: Position
    topic: str
    """That of the partition, if the topic has some."""
    batch_index: int
    """Its batch index; -1 for a single message."""
    payload: bytes
    producer_name: str
    """Empty if the client does not show it."""
    key: str
    """The ordering key if the client shows it, else the partition key; empty for none."""
    properties: Mapping[str, str]
    redelivery_count: int
    message: Any
    """The client's message or message id, for the ack."""
    message_id: Any
    """The client's message id, which serves as well."""

    def without_payload(self) -> OfficialDelivery:
        """The delivery without its payload, for a later ack."""
        return replace(self, payload=b"", message=self.message_id)


class ReleasedProducer(Protocol):
    """An open producer."""

    @property
    def name(self) -> str: ...

    @property
    def last_sequence_id(self) -> int:
        """That of ProducerSuccess; later the client's own; -1 for none."""

    def send(
        self,
        sequence_id: int,
        payload: bytes,
        *,
        properties: Mapping[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
    ) -> OfficialTicket:
        """Send a message without waiting; with batching the client holds it for others."""

    def send_batch(
        self, messages: Sequence[tuple[int, bytes]], *, keys: Sequence[tuple[str | None, str | None]] | None = None
    ) -> Sequence[OfficialTicket]:
        """Send messages as one batch; returns one ticket for each. ``keys``: key and ordering key of each."""

    def answer(self, ticket: OfficialTicket, *, timeout_s: float) -> SendOutcome:
        """Wait for the outcome of a send. Raises :class:`NoAnswer` if the client still tries after that time."""

    def close(self) -> None:
        """Close it; unanswered sends are lost."""


class ReleasedConsumer(Protocol):
    """A subscribed consumer."""

    def receive(self, *, timeout_s: float) -> OfficialDelivery | None:
        """Wait for the next message; None if none arrives in time. Raises :class:`ConnectionLost`."""

    @property
    def is_connected(self) -> bool:
        """Whether the client has a connection for it right now."""

    def ack(self, delivery: OfficialDelivery) -> None:
        """Acknowledge a message; the client groups acks."""

    def ack_cumulative(self, delivery: OfficialDelivery) -> None:
        """Acknowledge everything up to a message; grouped, too."""

    def nack(self, delivery: OfficialDelivery) -> None:
        """Nack a message; the client requests it after the consumer's delay."""

    def redeliver_all(self) -> None:
        """Request the redelivery of all unacknowledged messages."""

    def unsubscribe(self) -> None: ...

    def close(self) -> None:
        """Close it; it sends grouped acks."""


class ReleasedClient(Protocol):
    """One client, with connections of its own. Its methods raise what is in ``CLIENT_ERRORS``."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Abort it."""

    def open_producer(
        self,
        topic: str,
        *,
        name: str | None,
        send_timeout_s: float = UNLIMITED,
        initial_sequence_id: int | None = None,
        batching: bool = False,
        chunking: bool = False,
        compression: Compression = "none",
        batch_delay_ms: int = NEVER_MS,
        batch_messages: int = 1000,
    ) -> ReleasedProducer:
        """Open a producer. With ``batching``, messages wait until a batch is requested, full or old enough.

        With ``chunking``, a message that is too large for an entry is split, after ``compression``.
        """

    def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        kind: Kind,
        initial: Literal["earliest", "latest"] = "latest",
        consumer_name: str | None = None,
        prefetch: int = 1000,
        nack_delay_s: float = 60.0,
        acknowledges_parts: bool = False,
        pending_chunked: int = 10,
        acknowledges_discarded: bool = False,
        replicated: bool = False,
    ) -> ReleasedConsumer:
        """Subscribe with a receiver queue of ``prefetch``.

        ``acknowledges_parts``: batch index acks. ``pending_chunked``: its pending limit of chunked messages, 0 for
        none; over the limit it discards the oldest one, and acknowledges it with ``acknowledges_discarded``.
        """

    def close(self) -> None:
        """Close everything gracefully."""

    def abort(self) -> None:
        """Cut the connections without closing producers and consumers. Safe to call twice."""
