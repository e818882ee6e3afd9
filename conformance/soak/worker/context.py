"""What the threads of a soak's client share: a client in each cluster with its recorder, counters, and the phase."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from conformance.clients.driver.client import OfficialClient
from conformance.clients.security.service import Service
from conformance.proxy.proxy import Proxy
from conformance.recorder import Recorder
from conformance.workers.client_plan import ClientPlan
from conformance.workers.protocol import Counts

OPERATION_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClient:
    """A cluster as one client process reaches it: all traffic goes through ``proxy``."""

    recorder: Recorder
    proxy: Proxy
    client: OfficialClient

    @property
    def service(self) -> Service:
        """What any client of this process connects to."""
        return self.proxy.service


class Counters:
    """What any thread of the process counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.total = Counts()

    def add(self, **more: int) -> None:
        with self._lock:
            changed = {name: getattr(self.total, name) + number for name, number in more.items()}
            self.total = msgspec.structs.replace(self.total, **changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``quiesce`` is set in the quiesce phase, ``ending`` when the process ends."""

    clients: Mapping[str, ClusterClient]
    counters: Counters = field(default_factory=Counters)
    quiesce: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)


def context_of(plan: ClientPlan) -> Context:
    """Connect to each cluster of a plan."""
    return Context(clients={label: _client(plan, label, service) for label, service in plan.services.items()})


def _client(plan: ClientPlan, label: str, service: Service) -> ClusterClient:
    recorder = Recorder(Path(plan.history), run=plan.run, lane=plan.lane, cluster=label, about=plan.about)
    proxy = Proxy(service, record=recorder.dispatch_times)
    client = OfficialClient(proxy.service, timeout_s=OPERATION_TIMEOUT_S)
    return ClusterClient(recorder=recorder, proxy=proxy, client=client)
