"""A bookie of a deployment: its configuration and its program."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from conformance.brokers.processes.member import Site
from conformance.brokers.processes.synced import SyncedFiles
from conformance.brokers.processes.zookeeper import BOOKIES, RegisteredMember, ZooKeeperProcess
from conformance.brokers.settings.deployment import BOOKIE
from conformance.brokers.startup.configuration import configured
from conformance.brokers.startup.jvm import JavaProgram
from conformance.brokers.startup.ports import HOST
from conformance.wait import wait_until

_MAIN: Final = "org.apache.bookkeeper.server.Main"
_SOON_S: Final = 5.0
"""How long a bookie that goes on is waited for: one that registers again at once does so within 2 s."""
_MEMORY: Final = ("-Xms32m", "-Xmx128m", "-XX:MaxDirectMemorySize=128m")


class BookieProcess(RegisteredMember):
    """A bookie of a deployment, the first or a further one."""

    def __init__(self, site: Site, number: int, *, port: int, agent_port: int, zookeeper: ZooKeeperProcess) -> None:
        super().__init__(site, "bookie", number, zookeeper=zookeeper, path=f"{BOOKIES}{HOST}:{port}")
        self.port: Final = port
        self.agent_port: Final = agent_port
        record = site.run.path / f"{self.name}.synced"
        self._synced: Final = SyncedFiles(journal=self._journal, ledgers=self._ledgers, record=record)

    @property
    def _journal(self) -> Path:
        return self.site.run.path / "data" / self.name / "journal"

    @property
    def _ledgers(self) -> Path:
        return self.site.run.path / "data" / self.name / "ledgers"

    def start(self, settings: Mapping[str, str]) -> None:
        """Start it with these settings on top of its own; :meth:`await_ready` waits until it is registered.

        If it was killed, its earlier registration is removed first, as its session would do in the end.
        """
        folder = self.site.run.path
        place = {
            "bookiePort": str(self.port),
            "advertisedAddress": HOST,
            "zkServers": f"{HOST}:{self.zookeeper.port}",
            "zkLedgersRootPath": "/ledgers",
            "journalDirectory": str(self._journal),
            "ledgerDirectories": str(self._ledgers),
        }
        needed = {name: setting.value for name, setting in BOOKIE.items()}
        file = folder / f"{self.name}.conf"
        shipped = self.site.release.shipped("bookkeeper.conf")
        file.write_text(configured(shipped, {**needed, **settings, **place}), "utf-8")
        self.end_session()
        self._start(JavaProgram(main=_MAIN, arguments=["--conf", str(file)], memory=_MEMORY))

    def registers_soon(self) -> bool:
        """Whether it is registered again shortly after it lost its session, unless it has ended."""
        return wait_until(lambda: self.is_registered or not self.is_running, _SOON_S) and self.is_running

    def await_ready(self) -> None:
        """Wait until it is registered."""
        self._await("registered", lambda: self.is_registered)
        self._require_listening(self.port)

    def load_agent(self) -> None:
        """Have the agent in its process, and record from then on how far its files are synced."""
        rules = self._synced.rules()
        if self._load_agent(self.agent_port, rules):
            self._synced.begin()

    def lose_power(self) -> None:
        """Kill it, and have its files lose what it has not synced."""
        self.end(signal.SIGKILL)
        self._synced.lose_rest()
