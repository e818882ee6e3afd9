"""The process that applications are forked from; ``conformance.workers.starter`` starts it."""

import sys

from conformance.applications.producer import produce
from conformance.applications.reader import read
from conformance.applications.subscriber import subscribe
from conformance.workers.line import Line
from conformance.workers.protocol import Order, ProduceOrder, ReadOrder, SubscribeOrder, read_order
from conformance.workers.zygote import serve


def run(line: Line[Order]) -> None:
    """Be the application that the first order names, until it ends."""
    match order := line.receive():
        case ProduceOrder():
            produce(order, line)
        case ReadOrder():
            read(order, line)
        case SubscribeOrder():
            subscribe(order, line)
        case _:
            raise ValueError(f"not an application: {order}")


if __name__ == "__main__":
    serve(int(sys.argv[1]), run, read_order)
