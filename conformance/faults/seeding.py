"""The seeded defect of a run: on for as long as it goes on, and taken out for comparison.

One of the broker is in its process each time that this starts, and in those of all clusters where there are several;
one of the wire is in a proxy that all clients come through which the machines are about. What the suite reads by itself
goes past that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from conformance.brokers.interface import AgentAddress, Broker, Capability
from conformance.clients.security.service import Service
from conformance.faults import catalogue, defects
from conformance.faults.catalogue import BrokerDefect
from conformance.faults.wire import WireDefect
from conformance.harness_error import HarnessError
from conformance.proxy.proxy import Proxy


class SeededDefect(Protocol):
    """A defect, and what has it."""

    @property
    def service(self) -> Service:
        """Where clients find the broker that has it."""

    def give(self, broker: Broker) -> None:
        """Switch it on, as each start of a broker asks for, the first one or another; not while it is taken out."""

    def taken_out(self) -> AbstractContextManager[None]:
        """Have everything sound for the length of a block. HarnessError if it turns out that the defect was never
        there."""

    def close(self) -> None:
        """Let go of what it takes besides the broker."""


class SeededBrokerDefect:
    """A defect of brokers' processes, with which it is gone when these end: a release has it in all its clusters."""

    def __init__(self, broker: Broker, defect: BrokerDefect) -> None:
        """Nothing happens yet. ``broker`` is the one that clients find at ``service``."""
        self.service = broker.addresses.service
        self._agents: dict[AgentAddress, None] = {}
        self._defect = defect
        self._is_out = False

    def give(self, broker: Broker) -> None:
        """Switch it on in a broker's process. HarnessError when that cannot have any defect."""
        if Capability.DEFECTS not in broker.capabilities:
            raise HarnessError(
                f"the broker {broker.name} has no agent inside, which the defect {self._defect.name} needs"
            )
        for agent in broker.load_agents():
            self._agents[agent] = None
            if not self._is_out:
                defects.switch_on(agent, self._defect)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Have sound brokers for the length of a block."""
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
        """There is nothing to let go of."""


class SeededWireDefect:
    """A defect of the wire, whatever the broker's process does."""

    def __init__(self, broker: Broker, defect: WireDefect) -> None:
        """Nothing is wrong yet. ``broker`` has been started."""
        self._broker = broker
        self._defect = defect
        self._proxy = Proxy(broker.addresses.service)
        self._is_on = False
        self.service = self._proxy.service

    def give(self, broker: Broker) -> None:
        """Switch it on before this broker, if that is the one which has it, and has it not yet."""
        if broker is self._broker and not self._is_on:
            self._is_on = True
            for fault in self._defect.faults:
                self._proxy.inject(fault)

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Have a sound wire for the length of a block."""
        if not self._proxy.ports:
            raise HarnessError(f"no client came through the proxy that has the defect {self._defect.name}")
        self._proxy.lift_all()
        self._is_on = False
        try:
            yield
        finally:
            self.give(self._broker)

    def close(self) -> None:
        """End the proxy, and all connections through it."""
        self._proxy.stop()


def seed_defect(broker: Broker, name: str | None) -> SeededDefect | None:
    """Give the broker the defect of that name, if one is asked for; HarnessError if there is none or it cannot have
    it."""
    if name is None:
        return None
    seeded: SeededDefect
    match catalogue.find(name):
        case BrokerDefect() as defect:
            seeded = SeededBrokerDefect(broker, defect)
        case WireDefect() as defect:
            seeded = SeededWireDefect(broker, defect)
        case other:
            raise AssertionError(other)
    seeded.give(broker)
    return seeded
