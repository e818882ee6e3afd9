"""A cluster as one client process of a soak has it: a pulsar-client behind a tap, and what is recorded there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulsar

from conformance.recorder import Recorder
from conformance.soak.plan import ClientPlan
from conformance.systems.client_options import pulsar_client as connected
from conformance.systems.security import Service
from conformance.tap.tap import Tap

OPERATION_TIMEOUT_S: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """All traffic to the cluster goes through ``tap``; ``client`` is of pulsar-client."""

    recorder: Recorder
    tap: Tap
    client: Any

    @property
    def service(self) -> Service:
        """Where another client comes to."""
        return self.tap.service


def seats(plan: ClientPlan) -> dict[str, Seat]:
    """One in each cluster, by its label."""
    return {label: _seat(plan, label, url) for label, url in plan.services.items()}


def _seat(plan: ClientPlan, label: str, service: Service) -> Seat:
    recorder = Recorder(Path(plan.history), run=plan.run, lane=plan.lane, cluster=label, about=plan.about)
    tap = Tap(service, record=recorder.sightings)
    return Seat(recorder=recorder, tap=tap, client=pulsar_client(tap.service))


def pulsar_client(service: Service) -> Any:
    """A client that says nothing."""
    return connected(
        service,
        operation_timeout_seconds=OPERATION_TIMEOUT_S,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
