"""How one example's producers connect to the broker: directly, or through a proxy that injects faults.

It sets the faults and returns how often they fired. To clients, a connection that a fault ends is an ordinary loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from conformance.clients.security.service import Service
from conformance.proxy import faults
from conformance.proxy.armed import ArmedFault
from conformance.proxy.faults import Fault, Which
from conformance.proxy.proxy import Proxy
from model.events import AnyOutcome, Done, NetworkFaultsCleared, Skipped
from model.operations import ClearNetworkFaults, InjectNetworkFault, NetworkOperation, UseProxy
from model.vocabulary import CutAfter, CutAt, Delay, Hold, LoseThenCut, NetworkFault, RefuseConnections

WITHIN_BYTES = 25
"""How much of a frame arrives before the connection ends within it: the command without its payload."""


class Network:
    """The network between the producers of one example and the broker."""

    def __init__(self, service: Callable[[], Service], topics: Mapping[str, str]) -> None:
        """``topics`` maps a history's names to real ones and grows during the example; ``service``: the broker's."""
        self._service = service
        self._topics = topics
        self._proxy: Proxy | None = None
        self._set: list[ArmedFault] = []

    @property
    def service(self) -> Service:
        """The service address for producers."""
        return self._service() if self._proxy is None else self._proxy.service

    @property
    def is_proxied(self) -> bool:
        """Whether a fault may end connections."""
        return self._proxy is not None

    def perform(self, operation: NetworkOperation) -> AnyOutcome:
        """Carry out one operation and return the outcome."""
        match operation:
            case UseProxy():
                return self._use_proxy()
            case InjectNetworkFault():
                return self._disturb(operation)
            case ClearNetworkFaults():
                return self._mend()
            case _:
                assert_never(operation)

    def _use_proxy(self) -> AnyOutcome:
        """Have later connections go through a proxy."""
        if self._proxy is None:
            self._proxy = Proxy(self._service())
        return Done()

    def _disturb(self, operation: InjectNetworkFault) -> AnyOutcome:
        topic = self._topics.get(operation.topic)
        if self._proxy is None or topic is None:
            return Skipped("there is no such topic" if topic is None else "producers do not come through a proxy")
        self._set.append(self._proxy.inject(fault_of(operation.fault, topic)))
        return Done()

    def release(self) -> None:
        """Release held frames, before something waits for them."""
        for armed in self._set:
            if isinstance(armed.fault, faults.HoldFrames):
                armed.lift()

    def _mend(self) -> AnyOutcome:
        if self._proxy is None:
            return Skipped("producers do not come through a proxy")
        self._proxy.lift_all()
        fired = sum(len(armed.fired) for armed in self._set)
        self._set.clear()
        return NetworkFaultsCleared(fired)

    def close(self) -> None:
        """Stop the proxy and its connections."""
        if self._proxy is not None:
            self._proxy.stop()
            self._proxy = None


def fault_of(fault: NetworkFault, topic: str | None = None, *, consumer: str | None = None) -> Fault:
    """The proxy's fault for a history's network fault, for one topic or one consumer."""
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
            return faults.DelayFrames(which=which, delay_s=delay_ms / 1000)
        case Hold(kind, nth):
            return faults.HoldFrames(which=Which(kind=kind, topic=topic, consumer=consumer, nth=nth))
        case RefuseConnections(for_ms):
            return faults.Refuse(for_s=for_ms / 1000)
        case _:
            assert_never(fault)
