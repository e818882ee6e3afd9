"""Prepares the start of a standalone broker in its run folder: the configuration file, and the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from conformance.brokers.installation.java import Java
from conformance.brokers.release import Release
from conformance.brokers.startup.agent import agent_jar, agent_options
from conformance.brokers.startup.configuration import configured
from conformance.brokers.startup.jvm import BROKER_MEMORY, JavaProgram, java_command
from conformance.brokers.startup.ports import HOST, free_ports

SHIPPED = "standalone.conf"
"""The release's configuration file for a standalone broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The TCP ports of one broker; nothing of it listens on that of the proxy."""

    service: int
    admin: int
    bookie: int
    zookeeper: int
    agent: int
    proxy: int

    def of_standalone(self, *, with_agent: bool) -> frozenset[int]:
        """Return those on which every release listens, whichever way it keeps its metadata."""
        return frozenset({self.service, self.admin} | ({self.agent} if with_agent else set()))

    @classmethod
    def chosen(cls) -> Ports:
        """Return ports that are free now.

        Raises:
            HarnessError: there are none.
        """
        service, admin, bookie, zookeeper, agent, proxy = free_ports(6)
        return cls(service=service, admin=admin, bookie=bookie, zookeeper=zookeeper, agent=agent, proxy=proxy)


def write_configuration(release: Release, folder: Path, settings: Mapping[str, str]) -> Path:
    """Write the release's own ``standalone.conf`` with ``settings`` in it into the folder."""
    file = folder / SHIPPED
    file.write_text(configured(release.shipped(SHIPPED), settings), "utf-8")
    return file


def command(release: Release, java: Java, folder: Path, ports: Ports, *, with_agent: bool) -> list[str]:
    """Return the command that runs the release's standalone broker, with all that it writes below ``folder``.

    Raises:
        HarnessError: the agent's jar cannot be fetched.
    """
    program = JavaProgram(
        main="org.apache.pulsar.PulsarStandaloneStarter",
        arguments=_starter_flags(release, folder, ports),
        memory=BROKER_MEMORY,
    )
    agent = agent_options(PurePosixPath(agent_jar()), address=HOST, port=ports.agent) if with_agent else ()
    return java_command(release, java, folder, program, options=agent)


def _starter_flags(release: Release, folder: Path, ports: Ports) -> list[str]:
    data = folder / "data"
    flags = ["--config", f"{folder}/{SHIPPED}", "--no-functions-worker", "--no-stream-storage"]
    flags += ["--advertised-address", HOST, "--bookkeeper-dir", f"{data}/bookkeeper"]
    if release.chooses_bookie_port:
        flags += ["--bookkeeper-port", str(ports.bookie)]
    if release.keeps_metadata_in_rocksdb:
        flags += ["--metadata-dir", f"{data}/metadata"]
    else:
        flags += ["--zookeeper-port", str(ports.zookeeper), "--zookeeper-dir", f"{data}/zookeeper"]
    return flags
