"""The process that a soak's clients are forked from, and what each client does with its orders.

A client's traffic goes through proxies, so that its history has the time at which the broker sent each message, and its
links can fail. It writes its history when it ends, also when the soak is gone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import Final, assert_never

from conformance.history.lane_recorder import now_ns
from conformance.proxy.armed import ArmedFault
from conformance.proxy.faults import HoldFrames, Refuse, Which
from conformance.soak.worker.consumer import ConsumerThread
from conformance.soak.worker.context import context_of
from conformance.soak.worker.producer import ProducerThread
from conformance.workers.client_plan import ClientPlan
from conformance.workers.line import Line
from conformance.workers.protocol import (
    Close,
    GaveUp,
    LoadOrder,
    NetworkFaultOrder,
    Order,
    QuiesceOrder,
    Quiet,
    Ready,
    Reconnect,
    Report,
    read_order,
)
from conformance.workers.zygote import serve

REPORT_EVERY_S: Final = 0.5
GRACE_S: Final = 60.0
"""How long clients may take to write their histories after the soak is gone."""


class SoakClient:
    """A client process, without its connection to the soak."""

    def __init__(self, plan: ClientPlan) -> None:
        self._context = context = context_of(plan)
        self._producers = [ProducerThread(one, context) for one in plan.produces]
        self._consumers = [ConsumerThread(one, context) for one in plan.consumes]

    def start(self) -> None:
        for thread in (*self._consumers, *self._producers):
            thread.start()

    def obey(self, order: Order) -> None:
        """Do what the soak orders."""
        match order:
            case NetworkFaultOrder():
                threading.Thread(target=self._inject, args=(order,), daemon=True).start()
            case QuiesceOrder():
                for client in self._context.clients.values():
                    client.proxy.lift_all()
                self._context.quiesce.set()
            case Reconnect():
                for consumer in self._consumers:
                    if (consumer.plan.topic, consumer.plan.subscription) == (order.topic, order.subscription):
                        consumer.reconnect(order.cluster)
            case _:
                raise ValueError(f"not for a client of a soak: {order}")

    def reports(self) -> Iterator[Report]:
        """How far it is now."""
        threads: list[ProducerThread | ConsumerThread] = [*self._producers, *self._consumers]
        for failure in (one.failure for one in threads if one.failure is not None):
            yield GaveUp(failure)
        if all(one.is_ready for one in threads):
            yield Ready()
        yield self._context.counters.total
        if all(one.is_quiet for one in self._producers):
            yield Quiet()

    def end(self) -> None:
        """Write the history."""
        self._context.ending.set()
        for consumer in self._consumers:
            consumer.join(1.0)
        for client in self._context.clients.values():
            client.recorder.close()

    def _inject(self, order: NetworkFaultOrder) -> None:
        begun_ns = now_ns()
        clients = self._context.clients.values()
        armed: list[ArmedFault] = []
        match order.how:
            case "cut":
                pass
            case "refuse":
                armed = [client.proxy.inject(Refuse(for_s=order.lasts_s)) for client in clients]
            case "hold":
                armed = [client.proxy.inject(HoldFrames(which=Which(count=None))) for client in clients]
            case _:
                assert_never(order.how)
        if order.how != "hold":
            for client in clients:
                client.proxy.cut()
        if armed:
            self._context.quiesce.wait(order.lasts_s)
        for one in armed:
            one.lift()
        for client in clients:
            client.recorder.recording.fault(order.how, invoked_ns=begun_ns, completed_ns=now_ns())


def run(line: Line[Order]) -> None:
    """Be the client that the first order plans, until the soak ends it, or is gone."""
    load = line.receive()
    if not isinstance(load, LoadOrder):
        raise ValueError(f"not a client of a soak: {load}")
    with open(load.log, "wb") as log:  # noqa: PTH123 - only its descriptor is wanted
        os.dup2(log.fileno(), sys.stderr.fileno())
    client = SoakClient(load.plan)
    client.start()
    threading.Thread(target=_report, args=(client, line), daemon=True).start()
    while (order := line.receive()) is not None and not isinstance(order, Close):
        client.obey(order)
    client.end()
    _report_once(client, line)


def _report(client: SoakClient, line: Line[Order]) -> None:
    pause = threading.Event()
    while True:
        _report_once(client, line)
        pause.wait(REPORT_EVERY_S)


def _report_once(client: SoakClient, line: Line[Order]) -> None:
    for report in client.reports():
        line.send(report)


if __name__ == "__main__":
    serve(int(sys.argv[1]), run, read_order, grace_s=GRACE_S, name="client of the soak")
