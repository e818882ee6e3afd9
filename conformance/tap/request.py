"""What a tap is requested to be, its progress, and its result: values for those who start and display one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.clients.security.service import Service

Named = tuple[str, str | None]
"""A topic, and a subscription of it or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TapRequest:
    """``host`` and ``port``: where clients connect; ``service``: the broker; ``admin``: its admin API, if any."""

    host: str
    port: int
    service: Service
    admin: Service | None
    history: Path


@dataclass(slots=True, kw_only=True)
class TapCounts:
    """What passed so far; ``lagging``: events that passed and are not yet in the history."""

    connections: int = 0
    sent: int = 0
    received: int = 0
    events: int = 0
    lagging: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TapResult:
    """``logged``: messages read back from the logs; ``not_judged``: by topic or subscription, why it is not judged as
    a whole; ``release``: the broker's, if the admin API told."""

    counts: TapCounts
    seconds: float
    topics: int
    logged: int
    release: str | None
    not_judged: Mapping[Named, str] = field(default_factory=dict)
