"""The engine's side of the shared broker, which it kills and restarts for the lanes."""

from __future__ import annotations

from pathlib import Path

from conformance.brokers.interface import AgentAddress
from conformance.clients.driver.connect import used
from conformance.engine.lanes.protocol import Begin, Bounce
from conformance.faults.failpoints import install_all
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint
from model.operations import Kill


class WorldHost:
    """The broker of the engine's own world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._agents: tuple[AgentAddress, ...] = ()

    def begin(
        self,
        *,
        footprint: Footprint,
        report: Path,
        seed: int,
        known: frozenset[str],
        deadline: float | None,
        bounce_s: float,
        coverage: Path | None = None,
        defect: str | None = None,
    ) -> Begin:
        """The first message to each lane, except for the lane's number."""
        broker = self._world.broker
        return Begin(
            lane=0,
            name=broker.name,
            version=broker.version,
            addresses=broker.addresses,
            configuration=dict(broker.configuration),
            capabilities=broker.capabilities,
            service=self._world.service,
            footprint=footprint,
            report=str(report),
            seed=seed,
            known=known,
            deadline=deadline,
            bounce_s=bounce_s,
            coverage=None if coverage is None else str(coverage),
            drivers=used(),
            further=self._world.further,
            defect=defect,
        )

    def load_agents(self) -> tuple[AgentAddress, ...]:
        """Load the agent with all failpoints into the broker's processes, once for all lanes."""
        if not self._agents:
            agents = self._world.broker.load_agents()
            for agent in agents:
                install_all(agent)
            self._agents = agents
        return self._agents

    def is_alive(self) -> bool:
        return self._world.broker.is_alive()

    def ended_with(self) -> int | None:
        return self._world.broker.ended_with()

    def bounce(self, bounce: Bounce) -> None:
        """Kill or restart the broker, and wait until it serves."""
        self._agents = ()
        if isinstance(bounce, Kill):
            self._world.kill(power_fails=bounce.power_fails and self._world.can_fail_power)
        else:
            self._world.broker.restart()
        self._world.broker_came_back()
