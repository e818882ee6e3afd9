"""The other cluster of topics that are replicated from home, and the links between the two."""

from __future__ import annotations

import random
from collections.abc import Callable

from model.cluster_events import LinkCut, LinkHealed
from model.cluster_operations import CutLink, HealLink, HoldLink, LinkOperation, ReleaseLink, SlowLink
from model.events import AnyOutcome, Done, LoggedEntry, LogRead, Skipped
from model.operations import CreateTopic

Log = list[LoggedEntry]
Replicate = Callable[[Log], Log]
"""What the other cluster has of a log."""


def as_it_is(log: Log) -> Log:
    return log


class SimulatedReplica:
    """Replicates with ``replicate`` when it is read.

    After a replicator has reconnected, it may have sent again what was in flight, unless the topic is deduplicated.
    """

    def __init__(self, chance: random.Random, replicate: Replicate) -> None:
        self._chance = chance
        self._replicate = replicate
        self._deduplicated: set[str] = set()
        self._has_reconnected = False
        self._cut: set[tuple[str, str]] = set()

    def create(self, operation: CreateTopic) -> None:
        """A topic is created, in a namespace that has the same policy in both clusters."""
        if operation.persistence is None and operation.deduplication in (
            "broker",
            "namespace-on",
            "topic-off",
            "own-namespace-on",
        ):
            self._deduplicated.add(operation.topic)

    def reconnect(self) -> None:
        """The replicators reconnect."""
        self._has_reconnected = True

    def change_link(self, operation: LinkOperation) -> AnyOutcome:
        link = (operation.source, operation.target)
        match operation:
            case CutLink() if link in self._cut:
                return Skipped("the link is cut already")
            case CutLink():
                self._cut.add(link)
                self.reconnect()
                return LinkCut(0)
            case HealLink() if link not in self._cut:
                return Skipped("the link is not cut")
            case HealLink():
                self._cut.remove(link)
                return LinkHealed(0)
            case HoldLink() | SlowLink() | ReleaseLink():
                return Skipped("the link is cut") if link in self._cut else Done()

    def read_log(self, topic: str, log: Log) -> LogRead:
        is_deduplicated = topic in self._deduplicated
        replicated = self._replicate(log)
        if self._has_reconnected and not is_deduplicated:
            replicated = self._repeated(replicated)
        self._cut.clear()
        return LogRead(tuple(replicated), is_deduplicated=is_deduplicated, has_reconnected=self._has_reconnected)

    def _repeated(self, log: Log) -> Log:
        """Some time on the way, the replicator sent everything from an earlier entry on."""
        sent = self._chance.randint(0, len(log))
        return log[:sent] + log[self._chance.randint(0, sent) :]
