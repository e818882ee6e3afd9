"""``fetch``: downloads the artifacts of checks into the cache, so that checks need no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from conformance.brokers.installation.artifacts import checksum_of
from conformance.brokers.installation.cache import cache_folder
from conformance.brokers.installation.java import find_java
from conformance.brokers.installation.record import origin_of
from conformance.brokers.release import fetched_release, release_archive
from conformance.brokers.startup.agent import agent_jar
from conformance.clients.names import NAME
from conformance.drivers.catalogue import driver_of
from conformance.drivers.environment import python_with_client


def fetch(releases: Sequence[str], clients: Sequence[str], *, out: Console) -> int:
    """Fetch and verify releases, clients and Byteman; returns the exit status.

    Raises:
        HarnessError: one of them is not available, or there is no Java. Earlier ones stay in the cache.
    """

    def say(line: str) -> None:
        out.print(line, soft_wrap=True, markup=False, highlight=False)

    javas = []
    for version in releases:
        release = fetched_release(version)
        say(f"Pulsar {version}: {release.folder} ({_obtained(version, release.folder)})")
        javas.append(release.java())
    agent = agent_jar()
    say(f"Byteman: {agent} ({_verified(agent)})")
    for version in clients:
        if NAME.fullmatch(version):
            say(f"{version}: {driver_of(version, say).command[0]}")
        else:
            say(f"pulsar-client {version}: {python_with_client(version, say).parents[1]}")
    for java in dict.fromkeys(javas or [find_java()]):
        say(f"Java {java.major}: {java.executable}")
    say(f"No network is needed to check what is in {cache_folder()}.")
    return 0


def _obtained(version: str, folder: Path) -> str:
    origin = origin_of(folder)
    if origin is None:
        return _verified(release_archive(version))
    own = "" if origin.has_own_configuration else ", with the defaults of its code"
    return f"assembled from {origin.jars} artifacts, each verified{own}"


def _verified(file: Path) -> str:
    checksum = checksum_of(file)
    return "no checksum is published" if checksum is None else f"{checksum} verified"
