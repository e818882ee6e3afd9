"""The observer's state for SERVE: loading topics, connected producers, bookies, confirmed entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from model.immutable.map import Map
from model.service.access import NOBODY, Contention, Holder
from model.service.confirmed import ConfirmedLog
from model.service.levels import Policy, PolicyId
from model.vocabulary import AccessMode


@dataclass(frozen=True, slots=True)
class OpenedProducer:
    """A producer that a session opened and that is still open."""

    topic: str
    cluster: str | None
    name: str
    is_wire: bool
    access: AccessMode = "Shared"


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
    contentions: Map[str, Contention] = field(default_factory=Map)
    """The topics of which a producer asked for exclusive access."""
    store_away_until_ms: float | None = None
    """Until when the metadata store may be unavailable to the brokers, if it was disturbed."""
    are_sessions_expired: bool = False
    """Whether the brokers may have no session in it until then."""
    policies: Map[PolicyId, Policy] = field(default_factory=Map)
    """The policies that were set."""
    deduplicated: frozenset[str] = frozenset()
    """The topics whose deduplication was on at any time."""
    has_changed_release: bool = False
    """Whether a broker of another release took topics over."""
    uncounted: frozenset[str] = frozenset()
    """The topics with readers or applications, whose producers and subscriptions are not counted here."""

    def holders(self, topic: str, *, but: str | None = None) -> tuple[Holder, ...]:
        """The producers that are open on a topic, without one session."""
        there = [(name, one) for name, one in self.producers.items() if one.topic == topic and name != but]
        return tuple(Holder(name, one.access != "Shared", one.is_wire) for name, one in there)

    def contention(self, topic: str, *, but: str | None = None) -> Contention:
        """Who contends for a topic, without one session."""
        found = self.contentions.get(topic, NOBODY)
        return found if but is None else found.without(but)

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
