"""A broker of a deployment: its configuration and its program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.brokers.launching.configuration import configured
from conformance.brokers.launching.jvm import Program
from conformance.brokers.launching.listener import listener_settings
from conformance.brokers.launching.ports import HOST
from conformance.brokers.processes.zookeeper import BROKERS
from conformance.brokers.release import Release
from conformance.brokers.settings.deployment import of_broker
from conformance.brokers.settings.known import known_settings

SHIPPED: Final = "broker.conf"
"""The release's configuration file for a broker."""

_MEMORY: Final = ("-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m")
_STORES: Final = ("zookeeperServers", "configurationStoreServers")
_STORE_URLS: Final = ("metadataStoreUrl", "configurationMetadataStoreUrl")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """The TCP ports of one broker; nothing of it listens on that of the proxy, and on the agent's once it is loaded."""

    service: int
    admin: int
    agent: int
    proxy: int

    @property
    def registration(self) -> str:
        """Where the broker is registered in ZooKeeper."""
        return f"{BROKERS}{HOST}:{self.admin}"


def broker_settings(
    release: Release, ports: BrokerPorts, *, cluster: str, zookeeper: int, bookies: int, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return all that is set in ``broker.conf``; ``settings`` are on top, which the release must have."""
    known = known_settings(release.folder).broker
    needed = {name: setting.value for name, setting in of_broker(bookies).items()}
    store = f"{HOST}:{zookeeper}"
    place = {
        "clusterName": cluster,
        **dict.fromkeys(_STORES, store),
        **dict.fromkeys(_STORE_URLS, f"zk:{store}"),
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "brokerServicePort": str(ports.service),
        "webServicePort": str(ports.admin),
    }
    listeners = listener_settings(
        release.shipped(SHIPPED), host=HOST, service_port=ports.service, proxy_port=ports.proxy
    )
    ours = {name: value for name, value in {**needed, **place}.items() if name in known}
    return {**ours, **listeners, **settings}


def broker_program(release: Release, folder: Path, settings: Mapping[str, str]) -> Program:
    """Return the program, after its configuration was written into the run folder."""
    file = folder / SHIPPED
    file.write_text(configured(release.shipped(SHIPPED), settings), "utf-8")
    return Program(main="org.apache.pulsar.PulsarBrokerStarter", arguments=["--broker-conf", str(file)], memory=_MEMORY)
