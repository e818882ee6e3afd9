"""Carries out the faults of a soak, one after the other, in a thread of its own.

Each fault of the broker is in the history twice: that it began, before anything is done, and that it is over. So a
history whose writer was killed in the middle of one says so.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Final, Literal, assert_never, get_args

from conformance.brokers.interface import Broker, Capability
from conformance.clusters import Clusters as Linked
from conformance.harness_error import HarnessError
from conformance.history.recording import now_ns
from conformance.soak.asked import Subscription
from conformance.soak.clients import Clients
from conformance.soak.plan import ScheduledFault, TopicPlan
from conformance.soak.sites import UNANSWERED, Site
from conformance.soak.words import FaultBetween, FaultName, FaultOfBroker, InjectNetworkFault, Renew

ABANDONED_S: Final = 60.0
"""How long at most the end of a soak that failed waits for a fault."""

_NEEDS: Final[dict[FaultName, Capability | None]] = {
    "kill": Capability.KILL,
    "restart": Capability.RESTART,
    "pause": Capability.PAUSE,
    "unload": None,
    "cut": None,
    "hold": None,
    "refuse": None,
    "cut-link": Capability.CLUSTERS,
    "hold-link": Capability.CLUSTERS,
    "failover": Capability.CLUSTERS,
}
_OF_CLUSTERS: Final = frozenset(get_args(FaultBetween))


def possible_on(broker: Broker, *, clusters: int = 1) -> frozenset[FaultName]:
    """The faults that this broker can be given, and so many clusters of its kind together."""
    possible = frozenset(name for name, needed in _NEEDS.items() if needed is None or needed in broker.capabilities)
    return possible if clusters > 1 else possible - _OF_CLUSTERS


class Disturbing(threading.Thread):
    """Disturbs from when it is started until it is stopped; a fault that has begun is brought to its end."""

    def __init__(
        self,
        sites: Sequence[Site],
        clusters: Linked | None,
        clients: Clients,
        topics: Sequence[TopicPlan],
        schedule: Iterator[ScheduledFault],
        *,
        on_start: Callable[[Broker], None],
    ) -> None:
        """``clusters``: the links between the sites, where there are several; ``on_start`` is done to a broker after
        each of its starts."""
        super().__init__(name="disturbing", daemon=True)
        self.counted: Counter[str] = Counter()
        self.current: str | None = None
        self.failure: HarnessError | None = None
        self.whereabouts: dict[Subscription, str] = {
            (topic.name, topic.replicated): topic.home for topic in topics if topic.replicated
        }
        """In which cluster the consumers of each replicated subscription are; those made at the beginning fail over."""
        self._sites = tuple(sites)
        self._clusters = clusters
        self._clients = clients
        self._topics = topics
        self._schedule = schedule
        self._on_start = on_start
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Begin no other fault, and wait until the one that goes on is over; HarnessError if one failed."""
        self._stopping.set()
        self.join()
        self.check()

    def abandon(self) -> None:
        """Begin no other fault, and wait a while for the one that goes on: the broker is about to be stopped."""
        self._stopping.set()
        if self.is_alive():
            self.join(ABANDONED_S)

    def check(self) -> None:
        """Raise HarnessError if a fault could not be brought to its end."""
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        """Carry out the schedule."""
        began_s = time.monotonic()
        try:
            for fault in self._schedule:
                if not self._wait_until(began_s + fault.at_s):
                    return
                self._disturb(fault)
            self._stopping.wait()
        except HarnessError as harness_error:
            self.failure = harness_error

    def _wait_until(self, at_s: float) -> bool:
        """Wait until it is time; False when there is to be no other fault."""
        return not self._stopping.wait(max(0.0, at_s - time.monotonic()))

    def _disturb(self, fault: ScheduledFault) -> None:
        self.current = fault.name
        match fault.name:
            case "cut" | "hold" | "refuse":  # which the client records, whose links they are
                self._clients.tell(InjectNetworkFault(how=fault.name, lasts_s=fault.lasts_s), number=fault.choice)
            case "cut-link" | "hold-link":
                self._disturb_link(fault.name, fault)
            case "failover":
                self._fail_over(fault)
            case name:
                self._disturb_broker(name, fault)
        self.counted[fault.name] += 1
        self.current = None

    def _disturb_broker(self, name: FaultOfBroker, fault: ScheduledFault) -> None:
        site = self._sites[_further(fault) % len(self._sites)]
        topic = self._topics[fault.choice % len(self._topics)].name if name == "unload" else None
        begun_ns = now_ns()
        site.recording.fault(name, invoked_ns=begun_ns, topic=topic)
        self._carry_out(name, site, topic, lasts_s=fault.lasts_s)
        site.recording.fault(name, invoked_ns=begun_ns, completed_ns=now_ns(), topic=topic)

    def _carry_out(self, name: FaultOfBroker, site: Site, topic: str | None, *, lasts_s: float) -> None:
        match name:
            case "kill":
                site.broker.kill()
                site.broker.start()
                self._on_start(site.broker)
            case "restart":
                site.broker.restart()
                self._on_start(site.broker)
            case "pause":
                site.broker.pause()
                self._stopping.wait(lasts_s)
                site.broker.resume()
            case "unload":
                assert topic is not None
                _unload(site, topic)
            case _:
                assert_never(name)

    def _disturb_link(self, name: Literal["cut-link", "hold-link"], fault: ScheduledFault) -> None:
        """Have nothing come from one cluster to another for a while; it is told of the one that sends."""
        clusters = self._clusters
        assert clusters is not None
        links = list(permutations(self._sites, 2))
        source, target = links[_further(fault) % len(links)]
        begun_ns = now_ns()
        if name == "cut-link":
            clusters.cut(source.label, target.label)
        else:
            clusters.hold(source.label, target.label, "messages")
        self._stopping.wait(fault.lasts_s)
        clusters.heal(source.label, target.label)
        clusters.release(source.label, target.label)
        source.recording.fault(name, invoked_ns=begun_ns, completed_ns=now_ns())

    def _fail_over(self, fault: ScheduledFault) -> None:
        """Have the consumers of a replicated subscription go to another cluster."""
        topic = self._topics[fault.choice % len(self._topics)]
        assert topic.replicated is not None
        at = self.whereabouts[topic.name, topic.replicated]
        others = [label for label in topic.clusters if label != at]
        to = others[_further(fault) % len(others)]
        self.whereabouts[topic.name, topic.replicated] = to
        self._clients.tell(Renew(topic=topic.name, subscription=topic.replicated, cluster=to))


def _further(fault: ScheduledFault) -> int:
    """What else a fault picks, besides a topic or a client."""
    return fault.choice >> 8


def _unload(site: Site, topic: str) -> None:
    try:
        site.admin.unload(topic)
    except UNANSWERED:
        return  # it may have been unloaded all the same
