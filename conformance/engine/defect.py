"""A seeded defect, switched on for the length of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.brokers.interface import Broker
from conformance.trouble import Trouble


@contextmanager
def switched_on(broker: Broker, name: str | None) -> Iterator[None]:
    """Switch the named defect on in the running broker, and off at the end; with None do nothing."""
    if name is None:
        yield
        return
    raise Trouble("later")
