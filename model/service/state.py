"""The observer's state for SERVE: loading topics, connected producers, bookies, confirmed entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from model.immutable.map import Map
from model.service.confirmed import ConfirmedLog


@dataclass(frozen=True, slots=True)
class OpenedProducer:
    """A producer that a session opened and that is still open."""

    topic: str
    cluster: str | None
    name: str
    is_wire: bool


NEVER: Final = 1_000
"""More bookies than any cluster has."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The topics of one example, those without a client since their last load, and the producers."""

    topics: frozenset[str] = frozenset()
    loading: frozenset[str] = frozenset()
    producers: Mapping[str, OpenedProducer] = field(default_factory=dict)
    ensembles: Map[str, int] = field(default_factory=Map)
    """The ensemble size of each topic whose ledgers may lose a bookie."""
    bookies_left: int | None = None
    """How many bookies run, while one is lost."""
    confirmed: Map[str, ConfirmedLog] = field(default_factory=Map)
    """The confirmed entries of each topic."""
    store_away_until_ms: float | None = None
    """Until when the metadata store may be unavailable to the brokers, if it was disturbed."""
    are_sessions_expired: bool = False
    """Whether the brokers may have no session in it until then."""

    @property
    def is_short_of_bookies(self) -> bool:
        """Whether a bookie is lost."""
        return self.bookies_left is not None

    def goes_on(self, topic: str) -> bool:
        """Whether a bookie is lost, and a topic has enough of them left."""
        return self.bookies_left is not None and self.ensembles.get(topic, NEVER) <= self.bookies_left

    def may_fail(self, topic: str) -> bool:
        """Whether a bookie is lost, and too few may be left for a topic."""
        return self.is_short_of_bookies and not self.goes_on(topic)
