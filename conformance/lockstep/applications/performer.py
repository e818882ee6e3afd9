"""Carries out the operations of applications on a real broker: sources, subscribers, programs.

Each kind has a module of its own. This one maps the topics' names. An application that is stuck is evidence of a rule
only if the broker is up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from conformance.lockstep.applications.consumers import Consumers
from conformance.lockstep.applications.programs import Programs
from conformance.lockstep.applications.sources import Sources
from conformance.lockstep.network import Network
from conformance.lockstep.world import World
from model.events import AnyOutcome, Skipped, Stuck
from model.operations import (
    ApplicationOperation,
    Consume,
    CrashSource,
    Drain,
    FinishSource,
    ReadDatabase,
    RunReader,
    RunSubscriber,
    StartSource,
)


class ApplicationPerformer:
    """The applications of one example."""

    def __init__(self, world: World, example: int, topics: Mapping[str, str], network: Network) -> None:
        """``topics`` maps a history's names to real ones and grows during the example; ``network``: for the sources."""
        self._world = world
        self._topics = topics
        addresses = world.broker.addresses
        self._sources = Sources(world.starter, network)
        self._consumers = Consumers(world.admin, world.service)
        self._programs = Programs(world.starter, addresses, example)

    def perform(self, operation: ApplicationOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        outcome = self._perform(operation)
        if isinstance(outcome, Stuck):
            self._world.assert_alive()
        return outcome

    def _perform(self, operation: ApplicationOperation) -> AnyOutcome:
        match operation:
            case StartSource(topic=topic):
                if topic not in self._topics:
                    return Skipped("there is no such topic")
                return self._sources.start(operation, self._topics[topic])
            case FinishSource() | CrashSource():
                return self._sources.end(operation)
            case Consume(topic=topic):
                if topic not in self._topics:
                    return Skipped("there is no such topic")
                return self._consumers.consume(operation, self._topics[topic])
            case Drain(topic=topic):
                if topic not in self._topics:
                    return Skipped("there is no such topic")
                return self._consumers.drain(operation, self._topics[topic])
            case RunReader(topic=topic) | RunSubscriber(topic=topic):
                if topic not in self._topics:
                    return Skipped("there is no such topic")
                return self._programs.run(operation, self._topics[topic])
            case ReadDatabase(program):
                return self._programs.read(program)
            case _:
                assert_never(operation)

    def close(self) -> None:
        """End all applications at once."""
        self._sources.close()
        self._consumers.close()
        self._programs.close()
