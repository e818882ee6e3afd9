"""The seeded defect of a run: on during the run, and off for comparison.

A defect of the broker is switched on after each start of a broker of any cluster. One of the wire is in a proxy for all
clients of the machines; what the suite reads itself bypasses the proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from conformance.brokers.deployment import deployment_of
from conformance.brokers.interface import AgentAddress, Broker, Capability
from conformance.clients.security.service import Service
from conformance.faults import catalogue, defects
from conformance.faults.catalogue import BrokerDefect
from conformance.faults.wire import WireDefect
from conformance.harness_error import HarnessError
from conformance.proxy.proxy import Proxy


class SeededDefect(Protocol):
    """A defect and how to switch it."""

    @property
    def service(self) -> Service | None:
        """The address for clients, if the defect is not in the broker itself."""

    def give(self, broker: Broker) -> None:
        """Switch it on after a start of a broker, unless it is off for comparison."""

    def taken_out(self) -> AbstractContextManager[None]:
        """Switch it off for a ``with`` block. Raises HarnessError if the defect never had an effect."""

    def close(self) -> None:
        """Stop its proxy, if it has one."""


def agents_for(defect: BrokerDefect, broker: Broker) -> tuple[AgentAddress, ...]:
    """Load the agent into the processes that have a defect's code. Raises HarnessError if the broker has none."""
    deployment = deployment_of(broker)
    if defect.is_of_bookie and deployment is not None:
        return deployment.load_bookie_agents()
    if defect.is_of_bookie or Capability.DEFECTS not in broker.capabilities:
        raise HarnessError(f"the broker {broker.name} has no agent inside, which the defect {defect.name} needs")
    if defect.release is None:
        return broker.load_agents()
    if deployment is None or (two := deployment.two_releases) is None:
        raise HarnessError(f"the defect {defect.name} needs brokers of two releases (--broker 4.0.8,4.2.4)")
    started = deployment.brokers if broker is deployment else [one for one in deployment.brokers if one is broker]
    affected = [one for one in started if one.release == two[defect.release]]
    return tuple(agent for one in affected for agent in one.load_agents())


class SeededBrokerDefect:
    """A defect in the processes of all brokers of all clusters, which ends with a process."""

    service = None
    """Its brokers have addresses of their own, without those that are frozen at the moment."""

    def __init__(self, defect: BrokerDefect) -> None:
        self._agents: dict[AgentAddress, None] = {}
        self._defect = defect
        self._is_out = False

    def give(self, broker: Broker) -> None:
        """Switch it on in a broker's process. Raises HarnessError if the broker has no agent."""
        for agent in agents_for(self._defect, broker):
            self._agents[agent] = None
            if not self._is_out:
                defects.switch_on(agent, self._defect)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Switch it off in all brokers for a ``with`` block."""
        for agent in self._agents:
            defects.switch_off(agent, self._defect)
        self._is_out = True
        try:
            yield
        finally:
            self._is_out = False
            for agent in self._agents:
                defects.switch_on(agent, self._defect)

    def close(self) -> None:
        """Do nothing: it has no proxy."""


class SeededWireDefect:
    """A defect of the wire, which outlives the broker's process."""

    def __init__(self, broker: Broker, defect: WireDefect) -> None:
        """``broker``: a started one."""
        self._broker = broker
        self._defect = defect
        self._proxy = Proxy(broker.addresses.service)
        self._is_on = False
        self.service = self._proxy.service

    def give(self, broker: Broker) -> None:
        """Switch it on in front of this broker, if it is the defective one and not switched on yet."""
        if broker is self._broker and not self._is_on:
            self._is_on = True
            for fault in self._defect.faults:
                self._proxy.inject(fault)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Switch it off for a ``with`` block."""
        if not self._proxy.ports:
            raise HarnessError(f"no client came through the proxy that has the defect {self._defect.name}")
        self._proxy.lift_all()
        self._is_on = False
        try:
            yield
        finally:
            self.give(self._broker)

    def close(self) -> None:
        """Stop the proxy and its connections."""
        self._proxy.stop()


def in_further_clusters(name: str) -> Callable[[Broker], None] | None:
    """What seeds the defect of this name in a started broker of a further cluster; None if it is one of the wire, which
    these do not have. Raises HarnessError if it is unknown."""
    defect = catalogue.find(name)
    return SeededBrokerDefect(defect).give if isinstance(defect, BrokerDefect) else None


def seed_defect(broker: Broker, name: str | None) -> SeededDefect | None:
    """Seed the defect of this name, if any. Raises HarnessError if it is unknown or the broker cannot have it."""
    if name is None:
        return None
    seeded: SeededDefect
    match catalogue.find(name):
        case BrokerDefect() as defect:
            seeded = SeededBrokerDefect(defect)
        case WireDefect() as defect:
            seeded = SeededWireDefect(broker, defect)
        case other:
            raise AssertionError(other)
    seeded.give(broker)
    return seeded
