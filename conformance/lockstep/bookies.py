"""The bookies of a deployment, for examples that lose one and restore it."""

from __future__ import annotations

from typing import Final, assert_never

from conformance.brokers.deployment import ENOUGH_BOOKIES, deployment_of
from conformance.brokers.interface import Capability
from conformance.lockstep.world import World
from model.events import AnyOutcome, BookiesLeft, Skipped
from model.operations import LoseBookie, RestoreBookies


class Bookies:
    """The bookies that examples may lose, one at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._deployment: Final = deployment_of(world.broker)
        self._lost: list[int] = []

    def perform(self, operation: LoseBookie | RestoreBookies) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        deployment = self._deployment
        if deployment is None or deployment.size.bookies < ENOUGH_BOOKIES:
            return Skipped(f"this deployment has fewer than {ENOUGH_BOOKIES} bookies")
        match operation:
            case LoseBookie() if self._lost:
                return Skipped("a bookie is lost already")
            case LoseBookie(how="power-failure") if Capability.POWER_FAILURE not in deployment.capabilities:
                return Skipped("its bookies do not sync their journals")
            case LoseBookie(number, how):
                deployment.lose_bookie(number % deployment.size.bookies, how)
                self._lost.append(number % deployment.size.bookies)
                self._world.is_storage_disturbed = True
            case RestoreBookies() if not self._lost:
                return Skipped("no bookie is lost")
            case RestoreBookies():
                self.close()
            case _:
                assert_never(operation)
        return BookiesLeft(deployment.size.bookies - len(self._lost))

    def close(self) -> None:
        """Restore all bookies."""
        while self._lost and self._deployment is not None:
            self._deployment.restore_bookie(self._lost.pop())
            self._world.bookie_came_back()
