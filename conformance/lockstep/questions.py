"""What a capability is asked by: a request, a field, a setting, or what the suite can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from conformance.clients.driver.protocol import Feature


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """A request of the admin API, below the path of a topic."""

    path: str


@dataclass(frozen=True, slots=True)
class StatsField:
    """A field of a topic's stats: of each of its ``publishers`` or ``subscriptions``."""

    part: Literal["publishers", "subscriptions"]
    name: str


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """A header in which the admin API shows a field of an entry's metadata."""

    name: str


@dataclass(frozen=True, slots=True)
class HasSetting:
    """A setting of the broker, with any value."""

    name: str


@dataclass(frozen=True, slots=True)
class IsOn:
    """Settings of the broker that must all be true; those that a release lacks are."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtMost:
    """Settings of the broker, of which one must be within its limit, or else ``consequence``.

    ``limits``: for each name the default, and the largest value that suffices.
    """

    limits: Mapping[str, tuple[float, float]]
    consequence: str


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """An implementation of Key_Shared subscriptions that topics of the run can have."""

    kind: Literal["draining", "classic"]


@dataclass(frozen=True, slots=True)
class KnownDispatchers:
    """It is known which implementation of Key_Shared subscriptions the owner of a topic has."""


@dataclass(frozen=True, slots=True)
class PowerFailure:
    """The suite can have the power of the bookies fail, and knows what they lose."""


@dataclass(frozen=True, slots=True)
class TwoReleases:
    """The suite can restart brokers with either of two releases."""


@dataclass(frozen=True, slots=True)
class ClientFeature:
    """A feature of the released client that an operation is for; of any one in use, for a rule."""

    name: Feature


@dataclass(frozen=True, slots=True)
class ClientInProcess:
    """A released client runs in the suite's own processes, as pulsar-client does, and not behind a driver."""


Question = (
    AdminRequest
    | StatsField
    | EntryHeader
    | HasSetting
    | IsOn
    | AtMost
    | Dispatcher
    | KnownDispatchers
    | PowerFailure
    | TwoReleases
    | ClientFeature
    | ClientInProcess
)
