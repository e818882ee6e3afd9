"""The quiesce phase: no faults, and everything must be delivered and acknowledged, according to the broker's stats.

If a subscription makes no progress for a while, its consumers reconnect. If that does not help, its topic is unloaded.
Some known deviations stop a subscription until one of these. Both are recorded. If neither helps, it is stuck. So is
one whose stats are not answered for too long.

Each of several clusters waits for what the others still replicate to it. A replicated subscription must also follow
where it has no consumers, up to the end of the log when all else was delivered; heartbeats are sent meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.stored_log import last_stored
from conformance.clients.admin.types import InternalStats
from conformance.history.lane_recorder import now_ns
from conformance.soak.cluster import ALONE, UNANSWERED, SoakCluster
from conformance.soak.heartbeats import heartbeats
from conformance.soak.plan import TopicPlan
from conformance.soak.request import QuiesceResult, Subscription
from conformance.soak.workers import Clients
from conformance.wait import Deadline, wait_until
from model.log import Position

PATIENCE_S: Final = 15.0
"""How long a subscription may make no progress before it is helped, and after each help."""
FOLLOW_PATIENCE_S: Final = 75.0
"""The same for one that waits for other clusters: longer than ``verify`` allows (``follows_within_ns``).

It follows another cluster; or nothing is left, and a replicator that lost its connection retries now and then.
"""
ANSWER_PATIENCE_S: Final = 120.0
"""How long the stats of a topic may not be answered: it cannot be loaded, because its bookies are lost, say."""
FOLLOWED_FOR_S: Final = 65.0
"""How long subscriptions are observed to follow, at least: long enough for ``verify`` to judge it."""
LOOK_EVERY_S: Final = 0.5
HEARTBEAT_EVERY_S: Final = 1.0

Place = tuple[str, str, str]
"""Cluster, topic and subscription."""

Homes = Mapping[Subscription, str]
"""The cluster of the consumers of each replicated subscription."""


@dataclass(slots=True)
class _Open:
    """A subscription with entries left: which, since when, and how often it was helped.

    ``goal``: how far it must follow; None for one that has consumers here.
    """

    goal: Position | None = None
    left: frozenset[Position] = frozenset()
    since_s: float = field(default_factory=time.monotonic)
    helped: int = 0


class QuiescePhase:
    """Waits for the subscriptions of a soak until each is drained or stuck."""

    def __init__(
        self, clusters: Sequence[SoakCluster], clients: Clients, topics: Sequence[TopicPlan], homes: Homes
    ) -> None:
        self._clusters = {cluster.label: cluster for cluster in clusters}
        self._clients = clients
        self._topics = topics
        self._homes = homes
        self._open: dict[Place, _Open] = {}
        self._helped: list[tuple[Subscription, str]] = []
        self._stuck: dict[Subscription, frozenset[Position]] = {}

    @property
    def left(self) -> int:
        """How many entries are left, of all subscriptions, according to the last stats."""
        return sum(len(opened.left) for opened in list(self._open.values()))

    def run(self, tick: Callable[[], None]) -> QuiesceResult:
        """Wait, calling ``tick`` all the time, until every subscription is drained or stuck."""
        self._wait(self._consumed(), tick)
        following = self._following()
        if following:
            self._wait_with_heartbeats(following, tick)
            self._wait(self._consumed(), tick)  # what was sent meanwhile
        return QuiesceResult(helped=tuple(self._helped), stuck=tuple(sorted(self._stuck.items())))

    def _consumed(self) -> dict[Place, _Open]:
        """The subscriptions that have consumers, at the cluster of these, except for those that are stuck already."""
        places = [
            (label, topic.name, name)
            for topic in self._topics
            for name, _ in topic.subscriptions
            if name != topic.replicated
            for label in topic.clusters
        ]
        places += [(label, *subscription) for subscription, label in self._homes.items()]
        return {place: _Open() for place in places if _named(place) not in self._stuck}

    def _following(self) -> dict[Place, _Open]:
        """The replicated subscriptions, at the clusters without their consumers, with how far each must follow."""
        found = {}
        for (topic, name), at in self._homes.items():
            for label, cluster in self._clusters.items():
                goal = last_stored(cluster.admin.internal_stats(topic))
                if label != at and goal is not None:
                    found[label, topic, name] = _Open(goal=goal)
        return found

    def _wait(
        self,
        opened: dict[Place, _Open],
        tick: Callable[[], None],
        meanwhile: Callable[[], None] = lambda: None,
        *,
        at_least_s: float = 0.0,
    ) -> None:
        """Wait for these, for so long at least, and call ``meanwhile`` now and then."""
        self._open = opened
        enough = Deadline.after(at_least_s)

        def is_over() -> bool:
            tick()
            meanwhile()
            for label, topic in sorted({place[:2] for place in self._open}):
                self._look(label, topic)
            return not self._open and enough.passed

        wait_until(is_over, math.inf, pause_s=LOOK_EVERY_S)

    def _wait_with_heartbeats(self, following: dict[Place, _Open], tick: Callable[[], None]) -> None:
        """Wait for these, with heartbeats at the cluster of each topic's consumers; cursors are read, too."""
        consumed = sorted({(self._homes[topic, name], topic) for _, topic, name in following})
        pause = Deadline.after(0.0)
        with contextlib.ExitStack() as stack:
            traffic = {label: stack.enter_context(heartbeats(one)) for label, one in self._clusters.items()}

            def send_and_sample() -> None:
                nonlocal pause
                if not pause.passed:
                    return
                for label, topic in consumed:
                    traffic[label].send(topic)
                for cluster, topic in product(self._clusters.values(), sorted({topic for _, topic in consumed})):
                    cluster.read_cursors(topic)
                pause = Deadline.after(HEARTBEAT_EVERY_S)

            self._wait(following, tick, send_and_sample, at_least_s=FOLLOWED_FOR_S)

    def _look(self, label: str, topic: str) -> None:
        try:
            stats = self._clusters[label].admin.internal_stats(topic)
            has_all = self._has_all(label, topic)
        except UNANSWERED:
            self._give_up(label, topic)  # unless the topic is only loading
            return
        for place in [one for one in self._open if one[:2] == (label, topic)]:
            self._follow(place, _left(stats, place[2], self._open[place].goal), has_all=has_all)

    def _give_up(self, label: str, topic: str) -> None:
        """What a topic has open is stuck if its stats have not been answered for too long."""
        for place in [one for one in self._open if one[:2] == (label, topic)]:
            opened = self._open[place]
            if time.monotonic() - opened.since_s > ANSWER_PATIENCE_S:
                self._stuck[_named(place)] = opened.left
                del self._open[place]

    def _has_all(self, label: str, topic: str) -> bool:
        """Whether the other clusters have nothing left to replicate to this one."""
        others = [cluster for cluster in self._clusters.values() if cluster.label != label]
        return all(cluster.admin.stats(topic).has_passed_all_on for cluster in others)

    def _follow(self, place: Place, left: frozenset[Position], *, has_all: bool) -> None:
        opened = self._open[place]
        is_settled = opened.goal is not None or (self._clients.are_quiet and has_all)
        if not left and is_settled:
            del self._open[place]
        elif left != opened.left or not self._clients.are_quiet:
            opened.left, opened.since_s = left, time.monotonic()
        elif time.monotonic() - opened.since_s > (PATIENCE_S if left and opened.goal is None else FOLLOW_PATIENCE_S):
            self._help(place, opened)
            opened.since_s = time.monotonic()

    def _help(self, place: Place, opened: _Open) -> None:
        opened.helped += 1
        match opened.helped:
            case 1 if opened.goal is None:
                _, topic, name = place
                self._helped.append((_named(place), "its consumers reconnected"))
                self._clients.reconnect(topic, name)
            case 1 | 2:
                opened.helped = 2
                self._helped.append((_named(place), "its topic was unloaded"))
                self._unload(place)
            case _:
                self._stuck[_named(place)] = opened.left
                del self._open[place]

    def _unload(self, place: Place) -> None:
        cluster, topic = self._clusters[place[0]], place[1]
        begun_ns = now_ns()
        cluster.admin.unload(topic)
        cluster.recording.fault("unload", topic=topic, invoked_ns=begun_ns, completed_ns=now_ns())


def _named(place: Place) -> Subscription:
    """A topic and a subscription for people, with the cluster where there are several."""
    label, topic, name = place
    return topic, name if label == ALONE else f"{name} in cluster {label}"


def _left(stats: InternalStats, subscription: str, goal: Position | None) -> frozenset[Position]:
    """The entries, up to a goal where there is one, that a subscription has not acknowledged.

    The log, which may be long, is read only where there are any.
    """
    last = last_stored(stats) if goal is None else goal
    if last is None:
        return frozenset()
    if subscription not in stats.cursors:  # an update has yet to create it
        return frozenset({last})
    mark_delete = Position.parse(stats.cursors[subscription].mark_delete_position)
    if mark_delete >= last:
        return frozenset()
    return frozenset(one for one in unacknowledged(stats, subscription) if one <= last)
