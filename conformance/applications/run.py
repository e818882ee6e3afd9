"""Which application a forked process is to be."""

from __future__ import annotations

from conformance.applications.producer import produce
from conformance.applications.reader import read
from conformance.applications.subscriber import subscribe
from conformance.applications.words import Line, Order, Produce, Read, Subscribe


def run(line: Line[Order]) -> None:
    """Hear what to be, and be that until it ends."""
    match order := line.hear():
        case Produce():
            produce(order, line)
        case Read():
            read(order, line)
        case Subscribe():
            subscribe(order, line)
        case _:
            raise ValueError(f"not an application: {order}")
