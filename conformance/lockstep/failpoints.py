"""The failpoints of one example: set by name, cleared together, with how often each one fired."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from conformance.brokers.interface import AgentAddress
from conformance.faults.failpoints import (
    ArmedFailpoint,
    FailpointOnTopic,
    arm,
    armed,
    forget_minutes,
    pass_minutes,
)
from model.failpoints import FailpointKind


class Failpoints:
    """The armed failpoints of a broker, or of all brokers of a cluster, where only a topic's owner reaches them."""

    def __init__(self, load_agents: Callable[[], Iterable[AgentAddress]]) -> None:
        """``load_agents`` loads the agents into the brokers' processes and returns their addresses."""
        self._load_agents = load_agents
        self._armed: list[tuple[str, FailpointKind, tuple[ArmedFailpoint, ...]]] = []
        self._later: set[str] = set()

    @property
    def are_armed(self) -> bool:
        return bool(self._armed)

    @property
    def slow_s(self) -> float:
        """The longest delay of an armed failpoint."""
        return max((one.fault.delay_ms for _, _, armed in self._armed for one in armed), default=0) / 1000

    def set(self, topic: str, kind: FailpointKind, *, count: int, delay_ms: int, spared: int) -> None:
        """Arm a failpoint on a topic, by its full name."""
        fault = FailpointOnTopic(kind, topic=topic, count=count, delay_ms=delay_ms, spared=spared)
        self._armed.append((topic, kind, tuple(arm(agent, fault) for agent in self._load_agents())))

    def clear(self) -> list[tuple[str, FailpointKind, int]]:
        """Disarm everything; for each, the topic, the kind, and how often it fired.

        A slowed read runs to its end first, so that the next operation does not race it.
        """
        fired = [(topic, kind, sum(one.disarm() for one in armed)) for topic, kind, armed in self._armed]
        slow_ms = (
            armed[0].fault.delay_ms
            for (_, kind, armed), (_, _, times) in zip(self._armed, fired, strict=True)
            if times and kind == "read-slow"
        )
        time.sleep(max(slow_ms, default=0) / 1000)
        self._armed.clear()
        return fired

    def purge(self, topic: str, minutes: int, look: Callable[[], object]) -> bool:
        """So many minutes pass for deduplication of a topic, which then purges inactive producers; whether it did.

        ``look`` reads the topic's internal stats.
        """
        agents = tuple(self._load_agents())
        self._later.add(topic)
        with ExitStack() as stack:
            purges = []
            for agent in agents:
                pass_minutes(agent, topic, minutes)
                purges.append(stack.enter_context(armed(agent, FailpointOnTopic("producers-purged", topic))))
            look()
            return any(one.fired() for one in purges)

    def end(self) -> None:
        """Disarm everything at the end of an example, whose topics nobody uses again."""
        self.clear()
        agents = tuple(self._load_agents()) if self._later else ()
        for topic in self._later:
            for agent in agents:
                forget_minutes(agent, topic)
        self._later.clear()

    def forget(self) -> None:
        """Drop all failpoints: a new broker process has none."""
        self._armed.clear()
