"""All processes of a deployment: one ZooKeeper, and bookies and brokers on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from conformance.brokers.installation.java import Java
from conformance.brokers.processes.bookie import BookieProcess
from conformance.brokers.processes.broker import BrokerPorts, BrokerProcess
from conformance.brokers.processes.member import DeploymentProcess, Kind, Site
from conformance.brokers.processes.relay import Relay
from conformance.brokers.processes.zookeeper import ZooKeeperProcess
from conformance.brokers.release import Release
from conformance.brokers.size import SMALLEST, Size
from conformance.brokers.startup.ports import free_ports
from conformance.brokers.startup.runs import RunFolder
from conformance.harness_error import HarnessError

_PORTS_OF_BOOKIE: Final = 2
_PORTS_OF_BROKER: Final = 4


class DeploymentProcesses:
    """One ZooKeeper, and so many bookies and brokers as a size says, on ports of their own; none is started yet.

    ``name`` is the deployment's, for errors; ``options`` gives further options of Java for each kind of process of a
    release. ``releases`` are those of the brokers, in turn, each with its Java; ZooKeeper and bookies are of the first.
    """

    def __init__(
        self,
        releases: Sequence[Release],
        javas: Sequence[Java],
        *,
        name: str,
        options: Callable[[Release, Kind], Sequence[str]],
        size: Size = SMALLEST,
        deadline_s: float = 120.0,
        ports: Sequence[int] = (),
    ) -> None:
        """``ports``: by default any that are free.

        Raises :class:`~conformance.harness_error.HarnessError` if there are no free ports.
        """
        self.ports: Final = tuple(ports or free_ports(_ports_of(size)))
        unused = iter(self.ports)
        self.run: Final = RunFolder()

        def site_of(release: Release, java: Java) -> Site:
            of_release = partial(options, release)
            return Site(release=release, java=java, run=self.run, name=name, options=of_release, deadline_s=deadline_s)

        sites = [site_of(*one) for one in zip(releases, javas, strict=True)]
        self.sites: Final = {site.release.version: site for site in sites}
        """By version, what a broker of each release starts with."""
        site = sites[0]
        zookeeper = self.zookeeper = ZooKeeperProcess(site, port=next(unused))
        self.bookies: Final = tuple(
            BookieProcess(site, 1 + number, port=next(unused), agent_port=next(unused), zookeeper=zookeeper)
            for number in range(size.bookies)
        )
        self.brokers: Final = tuple(
            BrokerProcess(
                sites[number % len(sites)],
                1 + number,
                ports=_broker_ports(unused),
                zookeeper=zookeeper,
                relay=Relay(zookeeper.port) if size.brokers > 1 else None,
            )
            for number in range(size.brokers)
        )

    @property
    def all(self) -> tuple[DeploymentProcess, ...]:
        """All of them, in the order in which they need each other."""
        return (self.zookeeper, *self.bookies, *self.brokers)

    def close(self) -> None:
        """End all of them with SIGKILL and remove the run folder. Safe to call twice."""
        with contextlib.suppress(HarnessError):
            self.zookeeper.await_return()
        self.run.close()
        for broker in self.brokers:
            if broker.relay is not None:
                broker.relay.close()


def _ports_of(size: Size) -> int:
    """How many ports a deployment needs, with one of ZooKeeper."""
    return 1 + _PORTS_OF_BOOKIE * size.bookies + _PORTS_OF_BROKER * size.brokers


def _broker_ports(ports: Iterator[int]) -> BrokerPorts:
    return BrokerPorts(service=next(ports), admin=next(ports), agent=next(ports), proxy=next(ports))
