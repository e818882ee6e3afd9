"""The process that lanes are forked from: ``DESCRIPTOR MODULE…``, with the modules of the machines.

It imports these once, before it has a thread or a connection.
"""

import importlib
import sys

from conformance.engine.execution import spare_the_collector
from conformance.engine.lanes.lane import Lane
from conformance.engine.lanes.protocol import read_order
from conformance.workers.zygote import serve

if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    spare_the_collector()
    serve(int(sys.argv[1]), lambda line: Lane(line).run(), read_order, name="lane")
