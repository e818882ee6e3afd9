"""The way of one example's producers to the broker: straight there, or through a tap that is told what to do to it.

It sets the faults and says how often they acted. Connections that they end are ended for the clients as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from conformance.systems.security import Service
from conformance.tap import faults
from conformance.tap.armed import Armed
from conformance.tap.faults import Fault, Which
from conformance.tap.tap import Tap
from model.network import CutAfter, CutAt, Delay, Disturb, Hold, LoseThenCut, Mended, NetworkFault, TurnAway
from model.operations import AnyOutcome, Done, Skipped

WITHIN_BYTES = 25
"""How much of a command's frame arrives where the connection ends within it: the command, not what it carries."""


class Network:
    """What is between the producers of one example and the broker."""

    def __init__(self, service: Service, topics: Mapping[str, str]) -> None:
        """``topics``: the names of the history to the real ones; it fills up while the example goes on."""
        self._service = service
        self._topics = topics
        self._tap: Tap | None = None
        self._set: list[Armed] = []

    @property
    def service(self) -> Service:
        """Where producers find the broker."""
        return self._service if self._tap is None else self._tap.service

    @property
    def is_tapped(self) -> bool:
        """Whether it may have ended a connection that the broker would have kept."""
        return self._tap is not None

    def use_tap(self) -> AnyOutcome:
        """Let those who connect from now on come through a tap."""
        if self._tap is None:
            self._tap = Tap(self._service)
        return Done()

    def disturb(self, operation: Disturb) -> AnyOutcome:
        """Set a fault."""
        topic = self._topics.get(operation.topic)
        if self._tap is None or topic is None:
            return Skipped("there is no such topic" if topic is None else "producers do not come through a tap")
        self._set.append(self._tap.inject(fault_of(operation.fault, topic)))
        return Done()

    def release(self) -> None:
        """Let what is held arrive: somebody is about to wait for it."""
        for armed in self._set:
            if isinstance(armed.fault, faults.Hold):
                armed.lift()

    def mend(self) -> AnyOutcome:
        """Lift all faults."""
        if self._tap is None:
            return Skipped("producers do not come through a tap")
        self._tap.lift_all()
        fired = sum(len(armed.fired) for armed in self._set)
        self._set.clear()
        return Mended(fired)

    def close(self) -> None:
        """End all connections that go through the tap."""
        if self._tap is not None:
            self._tap.stop()
            self._tap = None


def fault_of(fault: NetworkFault, topic: str | None = None, *, consumer: str | None = None) -> Fault:
    """The tap's fault that these words of a history mean, for one topic, or for one consumer."""
    match fault:
        case CutAt(kind, nth, where):
            which = Which(kind=kind, topic=topic, consumer=consumer, nth=nth)
            return faults.Cut(which=which, where=where, within_bytes=WITHIN_BYTES)
        case CutAfter(size_bytes, to_broker):
            return faults.CutAfterBytes(direction="to-broker" if to_broker else "to-client", size_bytes=size_bytes)
        case LoseThenCut(kind, nth, count):
            which = Which(kind=kind, topic=topic, consumer=consumer, nth=nth, count=count)
            return faults.Lose(which=which, then_cut=True)
        case Delay(kind, nth, delay_ms):
            which = Which(kind=kind, topic=topic, consumer=consumer, nth=nth)
            return faults.Delay(which=which, delay_s=delay_ms / 1000)
        case Hold(kind, nth):
            return faults.Hold(which=Which(kind=kind, topic=topic, consumer=consumer, nth=nth))
        case TurnAway(for_ms):
            return faults.Refuse(for_s=for_ms / 1000)
        case _:
            assert_never(fault)
