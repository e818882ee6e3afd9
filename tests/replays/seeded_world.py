"""One broker with the machines' settings, on which histories are performed with and without a seeded defect.

Clusters for histories of replicated topics are started when the first of them is performed, and have the defect, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from conformance.brokers.interface import AgentAddress, Broker
from conformance.brokers.select import parse_broker
from conformance.brokers.size import SMALLEST, Size
from conformance.clusters import FurtherClusters
from conformance.engine.deployment import SUITE_SETTINGS
from conformance.engine.execution import perform
from conformance.engine.shortener.attempt import Attempt
from conformance.faults.catalogue import BrokerDefect
from conformance.faults.defect import Defect
from conformance.faults.defects import switch_off, switch_on
from conformance.faults.seeded_defect import SeededWireDefect, agents_for
from conformance.faults.wire import WireDefect
from conformance.known import shipped
from conformance.lockstep.lockstep import Lockstep
from conformance.lockstep.real import RealPerformer
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.place import RunPlace
from conformance.tenancy.run_name import UNLIMITED_S, RunName
from model.example import Example
from model.operations import AnyOperation


class SeededWorld:
    """A started broker, whose process can be given one defect at a time."""

    def __init__(self, name: str, size: Size = SMALLEST) -> None:
        """``name``: of the broker, as ``--broker`` takes it."""
        self._stack = ExitStack()
        self._defect: BrokerDefect | None = None
        broker = parse_broker(name, settings=SUITE_SETTINGS, size=size)
        self._stack.callback(broker.stop)
        broker.start()
        self._started = [broker]
        self.footprint: Final = Footprint(name=RunName.new(at_most_s=UNLIMITED_S))
        self.lane_numbers: Final = itertools.count(1)
        self.world = World(
            broker,
            place=self._stack.enter_context(RunPlace(broker, self.footprint)),
            on_start=self._on_start,
            further=FurtherClusters(brokers=(name,), settings=SUITE_SETTINGS),
        )
        self._stack.callback(self.world.close)
        version, settings = broker.version, broker.configuration
        self.known = frozenset(one.name for one in shipped() if one.concerns(version, settings=settings))
        """The deviations that are known of this broker."""

    def close(self) -> None:
        """Stop the broker, and the clusters."""
        self._stack.close()

    def perform(self, operations: Sequence[AnyOperation], known: frozenset[str] | None = None) -> Attempt:
        """What these operations come to now, as one example; ``known``: other deviations than those of the broker."""
        lockstep = Lockstep(RealPerformer(self.world), Example(known=self.known if known is None else known))
        return perform(operations, lockstep)

    @contextmanager
    def defective(self, defect: Defect) -> Iterator[None]:
        """Have a defect for the length of a block."""
        match defect:
            case BrokerDefect():
                with self._in_brokers(defect):
                    yield
            case WireDefect():
                with self._on_the_wire(defect):
                    yield
            case other:
                raise AssertionError(other)

    @contextmanager
    def _in_brokers(self, defect: BrokerDefect) -> Iterator[None]:
        self._defect = defect
        try:
            for broker in self._started:
                _switch(switch_on, broker, defect)
            yield
        finally:
            self._defect = None
            for broker in self._started:
                _switch(switch_off, broker, defect)

    @contextmanager
    def _on_the_wire(self, defect: WireDefect) -> Iterator[None]:
        seeded = SeededWireDefect(self.world.broker, defect)
        self.world.service = seeded.service
        try:
            seeded.give(self.world.broker)
            yield
        finally:
            self.world.service = None
            seeded.close()

    def _on_start(self, broker: Broker) -> None:
        """A broker was started, for the first time or again: a new process has no defect."""
        if broker not in self._started:
            self._started.append(broker)
        if self._defect is not None:
            _switch(switch_on, broker, self._defect)


def _switch(switch: Callable[[AgentAddress, BrokerDefect], None], deployment: Broker, defect: BrokerDefect) -> None:
    """Switch a defect on or off in all processes of a deployment that have its code."""
    for agent in agents_for(defect, deployment):
        switch(agent, defect)
