"""Brokers of one deployment that start, and end, together."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Sequence
from typing import Final, Protocol

from conformance.brokers.processes.broker import BrokerProcess
from conformance.harness_error import HarnessError, NotReady

_log: Final = logging.getLogger(__name__)


class Starting(Protocol):
    """A broker whose process was started."""

    @property
    def label(self) -> str: ...

    @property
    def process(self) -> BrokerProcess: ...

    def start_process(self) -> None: ...

    def await_ready(self) -> None: ...


def await_all(brokers: Sequence[Starting]) -> None:
    """Wait until all are ready; of several, one that ended meanwhile is started once more, after the others.

    Some releases create nodes in the metadata store at their start without regard to other brokers that do the same: on
    2.10.1 one of two brokers then ends with BadVersion.

    Raises:
        NotReady: one is not ready in time, or ended again.
    """
    ended: list[Starting] = []
    for broker in brokers:
        try:
            broker.await_ready()
        except NotReady as not_ready:
            if broker.process.is_running or len(ended) == len(brokers) - 1:
                raise
            _log.warning("%s ended while others started, and is started again: %s", broker.label, not_ready)
            ended.append(broker)
    for broker in ended:
        broker.start_process()
        broker.await_ready()


def end_all(brokers: Sequence[Starting]) -> None:
    """Kill those that run."""
    for broker in brokers:
        with contextlib.suppress(HarnessError):  # it has ended meanwhile
            if broker.process.is_running:
                broker.process.end(signal.SIGKILL)
