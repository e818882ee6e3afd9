"""What is known of the service that a broker gives, beside what the documents keep of topics and subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OpenedProducer:
    """A producer that was opened in a session, and that nothing has closed since."""

    topic: str
    cluster: str | None
    name: str
    is_wire: bool


@dataclass(frozen=True, slots=True)
class Service:
    """What is known of one example: its topics, those that nobody was let into since a load, and its producers."""

    topics: frozenset[str] = frozenset()
    loading: frozenset[str] = frozenset()
    producers: Mapping[str, OpenedProducer] = field(default_factory=dict)
