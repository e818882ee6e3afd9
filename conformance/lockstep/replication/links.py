"""Cuts, holds, slows and heals the links between clusters, for the topics of one example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from conformance.lockstep.clusters import Link, ReplicationWorld, now_ms
from model.cluster_events import LinkCut, LinkHealed
from model.cluster_operations import CutLink, HealLink, HoldLink, LinkOperation, ReleaseLink, SlowLink
from model.events import AnyOutcome, Done, Skipped


class Links:
    """``replicated_over`` returns the topics that a link replicates, by their real names; None without such a link."""

    def __init__(self, world: ReplicationWorld, replicated_over: Callable[[Link], Sequence[str] | None]) -> None:
        self._world = world
        self._replicated_over = replicated_over

    def perform(self, operation: LinkOperation) -> AnyOutcome:
        link = (operation.source, operation.target)
        match operation:
            case CutLink():
                return self._cut(link)
            case HealLink(is_awaited=is_awaited):
                return self._heal(link, is_awaited=is_awaited)
            case HoldLink() | SlowLink() | ReleaseLink():
                return self._hold_or_release(operation)
            case _:
                assert_never(operation)

    def _cut(self, link: Link) -> AnyOutcome:
        topics = self._replicated_over(link)
        if topics is None or self._world.clusters.is_cut(*link):
            return Skipped("there is no such link, or it is cut already")
        self._world.clusters.cut(*link)
        self._world.await_all(
            lambda: not any(self._world.is_connected(link, topic) for topic in topics),
            f"cluster {link[0]} does not notice that its link to {link[1]} is cut",
        )
        return LinkCut(now_ms())

    def _heal(self, link: Link, *, is_awaited: bool) -> AnyOutcome:
        if not self._world.clusters.is_cut(*link):
            return Skipped("the link is not cut")
        until_ms = now_ms()
        self._world.clusters.heal(*link)
        for topic in (self._replicated_over(link) or ()) if is_awaited else ():
            self._world.await_connected((link,), topic)
        return LinkHealed(until_ms)

    def _hold_or_release(self, operation: HoldLink | SlowLink | ReleaseLink) -> AnyOutcome:
        source, target = operation.source, operation.target
        if self._replicated_over((source, target)) is None or self._world.clusters.is_cut(source, target):
            return Skipped("there is no such link, or it is cut")
        match operation:
            case HoldLink(what=what):
                self._world.clusters.hold(source, target, what)
            case SlowLink(delay_ms=delay_ms):
                self._world.clusters.slow(source, target, delay_ms / 1000)
            case ReleaseLink():
                self._world.clusters.release(source, target)
            case _:
                assert_never(operation)
        return Done()
