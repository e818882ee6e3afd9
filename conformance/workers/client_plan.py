"""The plan of a soak's client: its producers and consumers, and their clusters. ``conformance.soak.plan`` makes it."""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import Struct

from conformance.clients.security.service import Service
from conformance.clients.wire.consumer import Kind
from conformance.history.about import About

FaultOfLinks = Literal["cut", "hold", "refuse"]


class TopicKind(enum.StrEnum):
    """What a topic is for."""

    BATCHES = "batches"
    """Messages in batches; without deduplication."""
    ORDERED = "ordered"
    """Deduplicated, with keys, from sources that replay."""
    KEYED = "keyed"
    """Keys, and consumers that close and subscribe again; without deduplication."""
    CHUNKS = "chunks"
    """Some messages are too large for an entry; without deduplication."""
    PIECES = "pieces"
    """The same, deduplicated, from sources that replay."""

    @property
    def is_deduplicated(self) -> bool:
        """Whether deduplication is on; its producers then send again what was not answered."""
        return self in (TopicKind.ORDERED, TopicKind.PIECES)

    @property
    def is_chunked(self) -> bool:
        """Whether some messages are too large for an entry."""
        return self in (TopicKind.CHUNKS, TopicKind.PIECES)

    @property
    def has_keys(self) -> bool:
        """Whether messages have keys; each is then an entry of its own."""
        return self in (TopicKind.ORDERED, TopicKind.KEYED)


class ProducerRole(Struct, frozen=True, kw_only=True):
    """One producer, for the length of a soak; it opens again under the same name after it was closed."""

    cluster: str
    topic: str
    name: str
    topic_kind: TopicKind
    messages_per_s: float
    largest_bytes: int
    """The largest message size, where some messages are to be nearly as large; 0 where none are."""
    seed: int


class ConsumerRole(Struct, frozen=True, kw_only=True):
    """One consumer, for the length of a soak; it closes and subscribes again under the same name."""

    cluster: str
    """Where it begins; the consumers of a replicated subscription move to another cluster now and then."""
    is_replicated: bool
    is_later: bool
    """Whether its subscription is created while messages flow; an order says when."""
    topic: str
    subscription: str
    kind: Kind
    name: str
    comes_and_goes: bool
    fails_sometimes: bool
    is_confirmed: bool
    """Whether it is the wire client's, whose acks are confirmed, and not pulsar-client's."""
    seed: int


class ClientPlan(Struct, frozen=True, kw_only=True):
    """What one client process is to do, and where: ``services`` by cluster."""

    run: str
    lane: str
    history: str
    about: About
    services: dict[str, Service]
    produces: tuple[ProducerRole, ...]
    consumes: tuple[ConsumerRole, ...]
