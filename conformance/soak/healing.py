"""Waits, once nothing disturbs any more, until everything is delivered and acknowledged, by the broker's own account.

A subscription that comes no further is helped, because some known deviations stop one until its consumers come anew or
its topic is loaded anew: first the one, then the other is done, and told. One that is not helped by either is stuck.

Of several clusters, each waits for what the others have for it. Where a replicated subscription has no consumers, it is
to follow as far as the log went when all else was through; messages are sent meanwhile.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from conformance.clients.admin.backlog import unacknowledged
from conformance.clients.admin.stored_log import last_stored
from conformance.clients.admin.types import InternalStats
from conformance.history.recording import now_ns
from conformance.soak.asked import Healed, Subscription
from conformance.soak.beating import beating
from conformance.soak.clients import Clients
from conformance.soak.plan import TopicPlan
from conformance.soak.sites import ALONE, UNANSWERED, Site
from conformance.soak.words import Renew
from model.log import Position

PATIENCE_S: Final = 15.0
"""How long a subscription may come no further before it is helped, and after each help."""
FOLLOW_PATIENCE_S: Final = 75.0
"""The same of one that waits for other clusters: longer than what ``verify`` grants (``follows_within_ns``).

It is to follow one; or it has all that is there, and replicators that lost their connection try again now and then.
"""
FOLLOWED_FOR_S: Final = 65.0
"""For how long at least it is seen whether subscriptions follow: long enough for ``verify`` to judge that."""
LOOK_EVERY_S: Final = 0.5
BEAT_EVERY_S: Final = 1.0

Place = tuple[str, str, str]
"""Cluster, topic and subscription."""

Whereabouts = Mapping[Subscription, str]
"""The cluster in which the consumers of a topic's replicated subscription are."""


@dataclass(slots=True)
class _Watched:
    """A subscription that is not through yet: what is left of it, since when, and how often it was helped.

    ``goal``: how far it is to follow; None for one that has consumers here.
    """

    goal: Position | None = None
    left: frozenset[Position] = frozenset()
    since_s: float = field(default_factory=time.monotonic)
    helped: int = 0


class Healing:
    """Looks after the subscriptions of a soak until there is nothing more to be had."""

    def __init__(
        self, sites: Sequence[Site], clients: Clients, topics: Sequence[TopicPlan], whereabouts: Whereabouts
    ) -> None:
        self._sites = {site.label: site for site in sites}
        self._clients = clients
        self._topics = topics
        self._whereabouts = whereabouts
        self._open: dict[Place, _Watched] = {}
        self._helped: list[tuple[Subscription, str]] = []
        self._stuck: dict[Subscription, frozenset[Position]] = {}

    @property
    def left(self) -> int:
        """How many entries are left, of all subscriptions, at the last look."""
        return sum(len(watched.left) for watched in list(self._open.values()))

    def until_through(self, tick: Callable[[], None]) -> Healed:
        """Wait, with ``tick`` called all the time, until every subscription is through or stuck."""
        self._wait(self._consumed(), tick)
        following = self._following()
        if following:
            self._wait_beating(following, tick)
            self._wait(self._consumed(), tick)  # what was sent meanwhile
        return Healed(helped=tuple(self._helped), stuck=tuple(sorted(self._stuck.items())))

    def _consumed(self) -> dict[Place, _Watched]:
        """The subscriptions that have consumers, where they have them, but for those that are stuck already."""
        places = [
            (label, topic.name, name)
            for topic in self._topics
            for name, _ in topic.subscriptions
            if name != topic.replicated
            for label in topic.clusters
        ]
        places += [(label, *subscription) for subscription, label in self._whereabouts.items()]
        return {place: _Watched() for place in places if _named(place) not in self._stuck}

    def _following(self) -> dict[Place, _Watched]:
        """The replicated subscriptions, where nobody consumes, with how far each is to come."""
        found = {}
        for (topic, name), at in self._whereabouts.items():
            for label, site in self._sites.items():
                goal = last_stored(site.admin.internal_stats(topic))
                if label != at and goal is not None:
                    found[label, topic, name] = _Watched(goal=goal)
        return found

    def _wait(
        self,
        opened: dict[Place, _Watched],
        tick: Callable[[], None],
        meanwhile: Callable[[], None] = lambda: None,
        *,
        until_s: float = 0.0,
    ) -> None:
        """Look after these, and do something else now and then, until then at least, by the monotonic clock."""
        self._open = opened
        while self._open or time.monotonic() < until_s:
            tick()
            meanwhile()
            for label, topic in sorted({place[:2] for place in self._open}):
                self._look(label, topic)
            time.sleep(LOOK_EVERY_S)

    def _wait_beating(self, following: dict[Place, _Watched], tick: Callable[[], None]) -> None:
        """Wait for these, with a message to each topic now and then, where its consumers are; cursors are read, too."""
        consumed = sorted({(self._whereabouts[topic, name], topic) for _, topic, name in following})
        until_s, next_s = time.monotonic() + FOLLOWED_FOR_S, 0.0
        with contextlib.ExitStack() as stack:
            beats = {label: stack.enter_context(beating(site)) for label, site in self._sites.items()}

            def beat() -> None:
                nonlocal next_s
                if time.monotonic() < next_s:
                    return
                for label, topic in consumed:
                    beats[label].beat(topic)
                for site, topic in product(self._sites.values(), sorted({topic for _, topic in consumed})):
                    site.read_cursors(topic)
                next_s = time.monotonic() + BEAT_EVERY_S

            self._wait(following, tick, beat, until_s=until_s)

    def _look(self, label: str, topic: str) -> None:
        try:
            stats = self._sites[label].admin.internal_stats(topic)
            has_all = self._has_all(label, topic)
        except UNANSWERED:
            return  # it is being loaded, perhaps
        for place in [one for one in self._open if one[:2] == (label, topic)]:
            self._follow(place, _left(stats, place[2], self._open[place].goal), has_all=has_all)

    def _has_all(self, label: str, topic: str) -> bool:
        """Whether the other clusters have nothing more of a topic for this one."""
        others = [site for site in self._sites.values() if site.label != label]
        return all(site.admin.stats(topic).has_passed_all_on for site in others)

    def _follow(self, place: Place, left: frozenset[Position], *, has_all: bool) -> None:
        watched = self._open[place]
        is_settled = watched.goal is not None or (self._clients.are_quiet and has_all)
        if not left and is_settled:
            del self._open[place]
        elif left != watched.left or not self._clients.are_quiet:
            watched.left, watched.since_s = left, time.monotonic()
        elif time.monotonic() - watched.since_s > (PATIENCE_S if left and watched.goal is None else FOLLOW_PATIENCE_S):
            self._help(place, watched)
            watched.since_s = time.monotonic()

    def _help(self, place: Place, watched: _Watched) -> None:
        watched.helped += 1
        match watched.helped:
            case 1 if watched.goal is None:
                _, topic, name = place
                self._helped.append((_named(place), "its consumers came anew"))
                self._clients.tell(Renew(topic=topic, subscription=name))
            case 1 | 2:
                watched.helped = 2
                self._helped.append((_named(place), "its topic was loaded anew"))
                self._unload(place)
            case _:
                self._stuck[_named(place)] = watched.left
                del self._open[place]

    def _unload(self, place: Place) -> None:
        site, topic = self._sites[place[0]], place[1]
        begun_ns = now_ns()
        site.admin.unload(topic)
        site.recording.fault("unload", topic=topic, invoked_ns=begun_ns, completed_ns=now_ns())


def _named(place: Place) -> Subscription:
    """A topic and a subscription in words for people, with the cluster where there are several."""
    label, topic, name = place
    return topic, name if label == ALONE else f"{name} in cluster {label}"


def _left(stats: InternalStats, subscription: str, goal: Position | None) -> frozenset[Position]:
    """The entries, up to a goal where there is one, that a subscription has not acknowledged.

    A long log is gone through only where there are any.
    """
    last = last_stored(stats) if goal is None else goal
    if last is None:
        return frozenset()
    if subscription not in stats.cursors:  # it is still to be made by an update
        return frozenset({last})
    mark_delete = Position.parse(stats.cursors[subscription].mark_delete_position)
    if mark_delete >= last:
        return frozenset()
    return frozenset(one for one in unacknowledged(stats, subscription) if one <= last)
