"""A bookie of a deployment: its configuration and its program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from conformance.brokers.launching.configuration import configured
from conformance.brokers.launching.jvm import Program
from conformance.brokers.launching.ports import HOST
from conformance.brokers.processes.zookeeper import BOOKIES
from conformance.brokers.release import Release
from conformance.brokers.settings.deployment import BOOKIE

_MEMORY: Final = ("-Xms32m", "-Xmx128m", "-XX:MaxDirectMemorySize=128m")


def bookie_program(
    release: Release, folder: Path, *, port: int, zookeeper: int, settings: Mapping[str, str]
) -> Program:
    """Return the program, after its configuration was written into the run folder; ``settings`` are on top."""
    data = folder / "data" / f"bookie-{port}"
    place = {
        "bookiePort": str(port),
        "advertisedAddress": HOST,
        "zkServers": f"{HOST}:{zookeeper}",
        "zkLedgersRootPath": "/ledgers",
        "journalDirectory": f"{data}/journal",
        "ledgerDirectories": f"{data}/ledgers",
    }
    needed = {name: setting.value for name, setting in BOOKIE.items()}
    file = folder / f"bookie-{port}.conf"
    file.write_text(configured(release.shipped("bookkeeper.conf"), {**needed, **settings, **place}), "utf-8")
    return Program(main="org.apache.bookkeeper.server.Main", arguments=["--conf", str(file)], memory=_MEMORY)


def registration(port: int) -> str:
    """Return where a bookie is registered in ZooKeeper, by its port."""
    return f"{BOOKIES}{HOST}:{port}"
