"""Prepares the start of a standalone broker in its run folder: the configuration file, and the command line of Java.

Java is started directly and not through the release's script: with the C1 compiler and the serial collector a broker is
up in half the time, and the process that was started is the broker itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from conformance.brokers.launching.agent import agent_jar, agent_options
from conformance.brokers.launching.configuration import configured
from conformance.brokers.launching.ports import HOST, free_ports
from conformance.brokers.obtaining.java import Java
from conformance.brokers.release import Release

_HEAP = ("-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m")
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")
_OPENED_PACKAGES = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""What Pulsar, BookKeeper and Netty reach by reflection; the releases' own script opens the same."""

_UNSAFE_IS_ASKED_FOR = 23
"""The first Java that wants to be told that direct memory access (Netty's buffers) is allowed."""


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
    file = folder / "standalone.conf"
    file.write_text(configured(release.shipped_configuration(), settings), "utf-8")
    return file


def command(release: Release, java: Java, folder: Path, ports: Ports, *, with_agent: bool) -> list[str]:
    """Return the command that runs the release's standalone broker, with all that it writes below ``folder``.

    Raises:
        HarnessError: the agent's jar cannot be fetched.
    """
    temporary = folder / "tmp"  # where native libraries are unpacked to, which SIGKILL leaves lying
    temporary.mkdir(exist_ok=True)
    return [
        str(java.executable),
        *_HEAP,
        *_QUICK_START,
        *(word for package in _OPENED_PACKAGES for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
        "--enable-native-access=ALL-UNNAMED",
        *(("--sun-misc-unsafe-memory-access=allow",) if java.major >= _UNSAFE_IS_ASKED_FOR else ()),
        *(agent_options(PurePosixPath(agent_jar()), address=HOST, port=ports.agent) if with_agent else ()),
        f"-Djava.io.tmpdir={temporary}",
        *_properties(folder),
        "-cp",
        f"{release.folder}/conf:{release.folder}/lib/*",
        "org.apache.pulsar.PulsarStandaloneStarter",
        *_starter_flags(release, folder, ports),
    ]


def _properties(folder: Path) -> tuple[str, ...]:
    drivers = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
    return (
        "-Djava.net.preferIPv4Stack=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djute.maxbuffer=10485760",
        "-Dzookeeper.4lw.commands.whitelist=*",
        "-Dzookeeper.snapshot.trust.empty=true",
        f"-Dbookkeeper.metadata.bookie.drivers={drivers}BookieDriver",
        f"-Dbookkeeper.metadata.client.drivers={drivers}ClientDriver",
        "-Dlog4j.configurationFile=log4j2.yaml",
        "-Dlog4j2.is.webapp=false",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dpulsar.log.appender=Console",
        f"-Dpulsar.log.dir={folder}",
    )


def _starter_flags(release: Release, folder: Path, ports: Ports) -> list[str]:
    data = folder / "data"
    flags = ["--config", f"{folder}/standalone.conf", "--no-functions-worker", "--no-stream-storage"]
    flags += ["--advertised-address", HOST, "--bookkeeper-dir", f"{data}/bookkeeper"]
    if release.chooses_bookie_port:
        flags += ["--bookkeeper-port", str(ports.bookie)]
    if release.keeps_metadata_in_rocksdb:
        flags += ["--metadata-dir", f"{data}/metadata"]
    else:
        flags += ["--zookeeper-port", str(ports.zookeeper), "--zookeeper-dir", f"{data}/zookeeper"]
    return flags
