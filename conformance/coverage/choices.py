"""Counts the choices of one example: which operation followed which, and what followed a kill.

A choice is written ``Shared: Skip > Kill``, or ``Shared: Skip > Kill > Nack`` where a broker went away in between. It
counts for each type of the subscriptions that both operations concern, and for each setting of their topic. Operations
that only look count as nothing, and so do those that were skipped. Nothing here draws or judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from typing import Final

from model.cluster_operations import LoseCluster, RecoverCluster
from model.events import AnyOutcome, Created, Skipped
from model.operations import (
    AnyOperation,
    CreateTopic,
    FreezeOwner,
    InjectNetworkFault,
    Kill,
    Restart,
    SetFailpoint,
    TakeOver,
)
from model.subscription_operations import Subscribe
from model.vocabulary import SubscriptionId

KILLS: Final = (Kill, Restart, TakeOver, FreezeOwner, LoseCluster)
"""The operations that take a broker away."""
_KILLS: Final = frozenset(one.__name__ for one in KILLS)
NOTHING: Final = "nothing"
"""What the first operation on a new topic follows."""


def kind_of(operation: AnyOperation) -> str:
    """The kind of an operation: its name, and what it does to a broker or the network."""
    name = type(operation).__name__
    match operation:
        case TakeOver(how=how, release=str(release)):
            return f"{name} ({how}, {release})"
        case TakeOver(how=how) | FreezeOwner(how=how) | LoseCluster(how=how):
            return f"{name} ({how})"
        case RecoverCluster(is_empty=True, is_reached_early=is_early):
            return f"{name} (empty, reached early)" if is_early else f"{name} (empty)"
        case SetFailpoint(kind=kind):
            return f"{name} ({kind})"
        case InjectNetworkFault(fault=fault):
            return f"{name} ({type(fault).__name__})"
        case _:
            return name


def is_kill(kind: str) -> bool:
    """Whether operations of a kind take a broker away."""
    return kind.partition(" ")[0] in _KILLS


class Choices:
    """The choices of one example."""

    def __init__(self) -> None:
        self.drawn: Counter[str] = Counter()
        self._types: dict[SubscriptionId, str] = {}
        self._actors: dict[str, tuple[str, str | None]] = {}
        """The topic and subscription of each session, consumer, source and program."""
        self._settings: dict[str, frozenset[str]] = {}
        self._last: tuple[str, frozenset[str]] = (NOTHING, frozenset())
        self._killed: tuple[str, frozenset[str]] | None = None
        """What the last operation followed, if that took a broker away."""

    def note(self, operation: AnyOperation, outcome: AnyOutcome) -> str | None:
        """Count an operation that was performed; its kind, or None if it counts as nothing."""
        if isinstance(outcome, Skipped) or operation.is_look:
            return None
        if isinstance(operation, CreateTopic):
            self._create(operation, outcome)
            return None
        if isinstance(operation, Subscribe):
            self._types[SubscriptionId(operation.topic, operation.subscription)] = operation.kind
        if operation.actor is not None and operation.topic is not None:
            self._actors[operation.actor] = (operation.topic, operation.subscription)
        kind, classes = kind_of(operation), self._classes(operation)
        self.drawn.update(self._following(kind, classes))
        self._killed = self._last if isinstance(operation, KILLS) else None
        self._last = kind, classes
        return kind

    def following(self, kind: str) -> Iterator[str]:
        """The choices that an operation of this kind may be next."""
        return self._following(kind, self._all())

    def _following(self, kind: str, classes: Set[str]) -> Iterator[str]:
        last, before = self._last
        shared = classes if last == NOTHING else before & classes
        for one in sorted(shared):
            yield f"{one}: {last} > {kind}"
            if self._killed is not None and one in self._killed[1]:
                yield f"{one}: {self._killed[0]} > {last} > {kind}"

    def _create(self, operation: CreateTopic, outcome: AnyOutcome) -> None:
        is_deduplicated = isinstance(outcome, Created) and outcome.deduplication
        settings = {f"deduplication {'on' if is_deduplicated else 'off'}"}
        if operation.persistence is not None:
            settings.add(f"cursors persisted {operation.persistence}")
        for name, is_set in (
            ("trimmed topic", operation.is_trimmed),
            ("limits", operation.limits is not None),
            ("partitions", operation.partitions > 0),
            ("clusters", operation.clusters > 1),
            ("chunks", operation.is_chunked),
        ):
            if is_set:
                settings.add(name)
        self._settings[operation.topic] = frozenset(settings)

    def _classes(self, operation: AnyOperation) -> frozenset[str]:
        """The subscription types and settings that an operation concerns: those of its subscription, or of its topic,
        or all.
        """
        topic, subscription = self._actors.get(operation.actor or "", (operation.topic, operation.subscription))
        if topic is None:
            return self._all()
        types = (kind for (where, name), kind in self._types.items() if where == topic and subscription in (None, name))
        return self._settings.get(topic, frozenset()).union(types)

    def _all(self) -> frozenset[str]:
        return frozenset(self._types.values()).union(*self._settings.values())
