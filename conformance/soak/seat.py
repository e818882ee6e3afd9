"""A cluster as one client process of a soak has it: a pulsar-client behind a tap, and what is recorded there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulsar

from conformance.recorder import Recorder
from conformance.soak.plan import ClientPlan
from conformance.tap.tap import Tap

OPERATION_TIMEOUT_S: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """All traffic to the cluster goes through ``tap``; ``client`` is of pulsar-client."""

    recorder: Recorder
    tap: Tap
    client: Any

    @property
    def service_url(self) -> str:
        """Where another client comes to."""
        return self.tap.url


def seats(plan: ClientPlan) -> dict[str, Seat]:
    """One in each cluster, by its label."""
    return {label: _seat(plan, label, url) for label, url in plan.service_urls.items()}


def _seat(plan: ClientPlan, label: str, service_url: str) -> Seat:
    recorder = Recorder(Path(plan.history), run=plan.run, lane=plan.lane, cluster=label, about=plan.about)
    tap = Tap(service_url, record=recorder.sightings)
    return Seat(recorder=recorder, tap=tap, client=pulsar_client(tap.url))


def pulsar_client(service_url: str) -> Any:
    """A client that says nothing."""
    return pulsar.Client(
        service_url,
        operation_timeout_seconds=OPERATION_TIMEOUT_S,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
