"""Writes the command line of Java for a program of a release.

Java is started directly and not through the release's script: with the C1 compiler and the serial collector a broker is
up in half the time, and the process that was started is the broker itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.brokers.installation.java import Java
from conformance.brokers.release import Release

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")
_NO_MEMORY = ("-XX:+ExitOnOutOfMemoryError", "-Dpulsar.allocator.exit_on_oom=true")
"""Without heap or direct memory a process ends, and does not go on without some of its threads."""
BROKER_MEMORY = ("-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m")
"""What a broker gets, as a standalone or as a process of its own."""
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

_NATIVE_ACCESS_IS_ASKED_FOR = 16
_UNSAFE_IS_ASKED_FOR = 23
"""The first Java that requires an option for direct memory access (Netty's buffers)."""

_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProgram:
    """A class with a main method, its arguments, and how much memory it gets, as Java's options."""

    main: str
    arguments: Sequence[str]
    memory: Sequence[str]


def java_command(
    release: Release, java: Java, folder: Path, program: JavaProgram, *, options: Sequence[str] = ()
) -> list[str]:
    """Return the command that runs a program of the release, with all that it writes below ``folder``.

    ``options`` are further ones of Java. No folder is on the class path: class-data archives allow jars only.
    """
    temporary = folder / "tmp"  # where native libraries are unpacked to, which SIGKILL leaves lying
    temporary.mkdir(exist_ok=True)
    return [
        str(java.executable),
        *program.memory,
        *QUICK_START,
        *_NO_MEMORY,
        *(word for package in _OPENED_PACKAGES for word in ("--add-opens", f"{package}=ALL-UNNAMED")),
        *(("--enable-native-access=ALL-UNNAMED",) if java.major >= _NATIVE_ACCESS_IS_ASKED_FOR else ()),
        *(("--sun-misc-unsafe-memory-access=allow",) if java.major >= _UNSAFE_IS_ASKED_FOR else ()),
        *options,
        f"-Djava.io.tmpdir={temporary}",
        *_properties(release, folder),
        "-cp",
        f"{release.folder}/lib/*",
        program.main,
        *program.arguments,
    ]


def _properties(release: Release, folder: Path) -> tuple[str, ...]:
    return (
        "-Djava.net.preferIPv4Stack=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Djute.maxbuffer=10485760",
        "-Dzookeeper.4lw.commands.whitelist=*",
        "-Dzookeeper.snapshot.trust.empty=true",
        *(
            (
                f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
                f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
            )
            if release.has_metadata_drivers
            else ()
        ),
        f"-Dlog4j.configurationFile={release.folder}/conf/log4j2.yaml",
        "-Dlog4j2.is.webapp=false",
        "-Dlog4j.shutdownHookEnabled=false",
        "-Dpulsar.log.appender=Console",
        f"-Dpulsar.log.dir={folder}",
    )
