"""A lane uses the driver of the run: once, lanes ran pulsar-client in a run that was said to be of another client."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec

from conformance.brokers.interface import Addresses, Broker
from conformance.clients.driver.connect import ClientInfo, DriverCommand, client_info, use
from conformance.clients.security.service import Service
from conformance.engine.lanes.host import WorldHost
from conformance.engine.lanes.lane import Lane
from conformance.engine.lanes.protocol import Begin, read_order, read_report
from conformance.harness_error import HarnessError
from conformance.lockstep.world import World
from conformance.tenancy.footprint import Footprint
from conformance.tenancy.run_name import RunName
from conformance.workers.line import Line
from conformance.workers.protocol import GaveUp


def begin(report: Path) -> Begin:
    addresses = Addresses(service_url="pulsar://nowhere", admin_url="http://nowhere")
    broker = SimpleNamespace(name="", version="4.0.8", addresses=addresses, configuration={}, capabilities=frozenset())
    world = SimpleNamespace(broker=broker, service=Service("pulsar://nowhere"), further=None)
    return WorldHost(cast(World, world)).begin(
        footprint=Footprint(name=RunName.new(at_most_s=60)),
        report=report,
        seed=1,
        known=frozenset(),
        deadline=None,
        bounce_s=1.0,
    )


def test_a_lane_uses_the_driver_of_the_run(tmp_path: Path) -> None:
    use(DriverCommand(name="python:here", command=(sys.executable, "-m", "conformance.drivers.python")))
    order = read_order(msgspec.json.encode(begin(tmp_path)))
    use(None)
    in_lane: list[ClientInfo] = []

    def world(_begin: Begin, _broker: Broker) -> World:
        in_lane.append(client_info())
        raise HarnessError("it is known by now")

    mine, its = socket.socketpair()
    engine = Line(mine, read_report)
    engine.send(order)
    try:
        Lane(Line(its, read_order), world=world).run()
    finally:
        use(None)
    assert [one.name for one in in_lane] == ["python"]
    assert isinstance(engine.receive(), GaveUp)
