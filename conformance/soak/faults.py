"""Injects the faults of a soak, one after the other, in a thread of its own.

The history has each fault of a broker twice: when it begins, and when it is over. So it shows a fault even if its
writer was killed meanwhile.
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
from conformance.history.lane_recorder import now_ns
from conformance.soak.cluster import UNANSWERED, SoakCluster
from conformance.soak.plan import FaultBetween, FaultName, FaultOfBroker, ScheduledFault, TopicPlan
from conformance.soak.request import Subscription
from conformance.soak.workers import Clients
from conformance.workers.protocol import NetworkFaultOrder

ABANDONED_S: Final = 60.0
"""How long a soak that failed waits for a fault at its end."""

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


class FaultInjector(threading.Thread):
    """Injects faults from its start until it is stopped; a fault that has begun is completed."""

    def __init__(
        self,
        clusters: Sequence[SoakCluster],
        links: Linked | None,
        clients: Clients,
        topics: Sequence[TopicPlan],
        schedule: Iterator[ScheduledFault],
        *,
        on_start: Callable[[Broker], None],
    ) -> None:
        """``links``: between the clusters, where there are several; ``on_start`` is called after each start of a
        broker."""
        super().__init__(name="fault-injector", daemon=True)
        self.counted: Counter[str] = Counter()
        self.current: str | None = None
        self.failure: HarnessError | None = None
        self.homes: dict[Subscription, str] = {
            (topic.name, topic.replicated): topic.home for topic in topics if topic.replicated
        }
        """The cluster of the consumers of each replicated subscription; those created at the beginning fail over."""
        self._clusters = tuple(clusters)
        self._links = links
        self._clients = clients
        self._topics = topics
        self._schedule = schedule
        self._on_start = on_start
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Begin no other fault, and wait for the current one; HarnessError if one failed."""
        self._stopping.set()
        self.join()
        self.check()

    def abandon(self) -> None:
        """Begin no other fault, and wait a while for the current one: the broker is about to be stopped."""
        self._stopping.set()
        if self.is_alive():
            self.join(ABANDONED_S)

    def check(self) -> None:
        """Raise HarnessError if a fault failed."""
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        began_s = time.monotonic()
        try:
            for fault in self._schedule:
                if not self._wait_until(began_s + fault.at_s):
                    return
                self._inject(fault)
            self._stopping.wait()
        except HarnessError as harness_error:
            self.failure = harness_error

    def _wait_until(self, at_s: float) -> bool:
        """Wait until it is time; False when there is to be no other fault."""
        return not self._stopping.wait(max(0.0, at_s - time.monotonic()))

    def _inject(self, fault: ScheduledFault) -> None:
        self.current = fault.name
        match fault.name:
            case "cut" | "hold" | "refuse":  # recorded by the client whose links these are
                self._clients.send(NetworkFaultOrder(how=fault.name, lasts_s=fault.lasts_s), number=fault.choice)
            case "cut-link" | "hold-link":
                self._inject_into_link(fault.name, fault)
            case "failover":
                self._fail_over(fault)
            case name:
                self._inject_into_broker(name, fault)
        self.counted[fault.name] += 1
        self.current = None

    def _inject_into_broker(self, name: FaultOfBroker, fault: ScheduledFault) -> None:
        cluster = self._clusters[_further(fault) % len(self._clusters)]
        topic = self._topics[fault.choice % len(self._topics)].name if name == "unload" else None
        begun_ns = now_ns()
        cluster.recording.fault(name, invoked_ns=begun_ns, topic=topic)
        self._carry_out(name, cluster, topic, lasts_s=fault.lasts_s)
        cluster.recording.fault(name, invoked_ns=begun_ns, completed_ns=now_ns(), topic=topic)

    def _carry_out(self, name: FaultOfBroker, cluster: SoakCluster, topic: str | None, *, lasts_s: float) -> None:
        match name:
            case "kill":
                cluster.broker.kill()
                cluster.broker.start()
                self._on_start(cluster.broker)
            case "restart":
                cluster.broker.restart()
                self._on_start(cluster.broker)
            case "pause":
                cluster.broker.pause()
                self._stopping.wait(lasts_s)
                cluster.broker.resume()
            case "unload":
                assert topic is not None
                _unload(cluster, topic)
            case _:
                assert_never(name)

    def _inject_into_link(self, name: Literal["cut-link", "hold-link"], fault: ScheduledFault) -> None:
        """Cut or hold a link from one cluster to another for a while; the sender's recording has it."""
        control = self._links
        assert control is not None
        links = list(permutations(self._clusters, 2))
        source, target = links[_further(fault) % len(links)]
        begun_ns = now_ns()
        if name == "cut-link":
            control.cut(source.label, target.label)
        else:
            control.hold(source.label, target.label, "messages")
        self._stopping.wait(fault.lasts_s)
        control.heal(source.label, target.label)
        control.release(source.label, target.label)
        source.recording.fault(name, invoked_ns=begun_ns, completed_ns=now_ns())

    def _fail_over(self, fault: ScheduledFault) -> None:
        """Move the consumers of a replicated subscription to another cluster."""
        topic = self._topics[fault.choice % len(self._topics)]
        assert topic.replicated is not None
        at = self.homes[topic.name, topic.replicated]
        others = [label for label in topic.clusters if label != at]
        to = others[_further(fault) % len(others)]
        self.homes[topic.name, topic.replicated] = to
        self._clients.reconnect(topic.name, topic.replicated, cluster=to)


def _further(fault: ScheduledFault) -> int:
    """A second choice of a fault, in addition to a topic or a client."""
    return fault.choice >> 8


def _unload(cluster: SoakCluster, topic: str) -> None:
    try:
        cluster.admin.unload(topic)
    except UNANSWERED:
        return  # it may have been unloaded all the same
