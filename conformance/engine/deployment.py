"""The broker of a run, started with one set of settings after another, and the world on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from conformance import events
from conformance.brokers.select import each_release, has_settings, parse_broker
from conformance.brokers.settings import MACHINES, Base
from conformance.brokers.settings.swarm import drawn
from conformance.clusters import FurtherClusters
from conformance.engine.plan import Plan
from conformance.faults.seeded_defect import SeededDefect, seed_defect
from conformance.lockstep.world import World
from conformance.tenancy.place import RunPlace

SUITE_SETTINGS = {name: setting.value for name, setting in MACHINES.items()}
"""The settings for the machines, in addition to those of all brokers."""


def settings_of(plan: Plan, emit: events.Emitter) -> tuple[Base, dict[str, str]]:
    """The broker's base settings, and those on top of them."""
    if plan.choice == "shipped":
        return "shipped", plan.settings
    varied: dict[str, str] = {}
    if plan.choice == "swarm":
        varied = drawn(plan.seed, has_settings(plan.broker))
        chosen = ", ".join(f"{name}={value}" for name, value in varied.items())
        emit(events.Phase(at_s=emit.now_s, what=f"settings drawn from the seed: {chosen or 'none'}"))
    return "quick", {**SUITE_SETTINGS, **varied, **plan.settings}


class BrokerOfRun:
    """One broker at a time, with its world."""

    def __init__(self, plan: Plan, emit: events.Emitter) -> None:
        self._plan = plan
        self._emit = emit
        self._stack = ExitStack()
        self.seeded: SeededDefect | None = None
        """The defect that the plan switches on in the broker."""
        self.log_tail: Callable[[], str] = str
        """The end of the broker's log."""

    def start(self, base: Base, settings: Mapping[str, str]) -> World:
        """Stop the former broker and start one with these settings. Raises HarnessError."""
        self.close()
        text = self._plan.broker
        broker = parse_broker(text, settings=settings, base=base, security=self._plan.security, size=self._plan.size)
        self._stack.callback(broker.stop)
        broker.start()
        self.log_tail = broker.log_tail
        self.seeded = seed_defect(broker, self._plan.defect)
        if self.seeded is not None:
            self._stack.callback(self.seeded.close)
        place = self._stack.enter_context(RunPlace(broker, self._plan.footprint))
        for one in place.removed:
            what = f"removed what the run {one.name} had left, which is over"
            self._emit(events.Phase(at_s=self._emit.now_s, what=what))
        world = World(
            broker,
            place=place,
            on_start=self.seeded.give if self.seeded is not None else None,
            service=self.seeded.service if self.seeded is not None else None,
            further=FurtherClusters(brokers=each_release(text), settings=dict(settings), base=base),
        )
        self._stack.callback(world.close)
        return world

    def close(self) -> None:
        """Remove what the run created, and stop the broker. Safe to call twice."""
        self._stack.close()
        self._stack = ExitStack()
