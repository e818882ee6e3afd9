"""A cluster as one client process of a soak has it: a pulsar-client behind a proxy, and what is recorded there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulsar

from conformance.clients.driver.options import pulsar_client as connected
from conformance.clients.security.service import Service
from conformance.proxy.proxy import Proxy
from conformance.recorder import Recorder
from conformance.soak.plan import ClientPlan

OPERATION_TIMEOUT_S: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """All traffic to the cluster goes through ``proxy``; ``client`` is of pulsar-client."""

    recorder: Recorder
    proxy: Proxy
    client: Any

    @property
    def service(self) -> Service:
        """Where another client comes to."""
        return self.proxy.service


def seats(plan: ClientPlan) -> dict[str, Seat]:
    """One in each cluster, by its label."""
    return {label: _seat(plan, label, url) for label, url in plan.services.items()}


def _seat(plan: ClientPlan, label: str, service: Service) -> Seat:
    recorder = Recorder(Path(plan.history), run=plan.run, lane=plan.lane, cluster=label, about=plan.about)
    proxy = Proxy(service, record=recorder.sightings)
    return Seat(recorder=recorder, proxy=proxy, client=pulsar_client(proxy.service))


def pulsar_client(service: Service) -> Any:
    """A client that says nothing."""
    return connected(
        service,
        operation_timeout_seconds=OPERATION_TIMEOUT_S,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
