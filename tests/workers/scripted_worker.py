"""Workers with one behaviour each, for the tests of starting and ending workers.

The topic of the first order names it: ``crash`` has a bug, ``close`` ends when asked, ``late`` writes a file after the
suite ended, ``never`` does not end.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from conformance.workers.line import Line
from conformance.workers.protocol import Ended, GaveUp, Order, ProduceOrder, read_order
from conformance.workers.zygote import serve

GRACE_S = 5.0


def run(line: Line[Order]) -> None:
    order = line.receive()
    assert isinstance(order, ProduceOrder)
    match order.topic:
        case "crash":
            raise ValueError("a bug")
        case "close":
            line.send(GaveUp("waiting"))
            line.receive()
            line.send(Ended(0))
        case "late":
            line.send(GaveUp("waiting"))
            while line.receive() is not None:
                pass
            Path(order.name).write_text("written")
        case _:
            line.send(GaveUp("waiting"))
            threading.Event().wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]), run, read_order, grace_s=GRACE_S, name="worker")
