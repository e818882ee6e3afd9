"""A broker of a deployment: its configuration and its program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from conformance.brokers.processes.member import Site
from conformance.brokers.processes.relay import Relay
from conformance.brokers.processes.zookeeper import BROKERS, RegisteredMember, ZooKeeperProcess
from conformance.brokers.settings.deployment import of_broker
from conformance.brokers.settings.known import known_settings
from conformance.brokers.size import SMALLEST, Size
from conformance.brokers.startup.configuration import configured
from conformance.brokers.startup.jvm import BROKER_MEMORY, JavaProgram
from conformance.brokers.startup.listener import listener_settings
from conformance.brokers.startup.ports import HOST
from conformance.brokers.startup.probe import Probe

SHIPPED: Final = "broker.conf"
"""The release's configuration file for a broker."""

_MAIN: Final = "org.apache.pulsar.PulsarBrokerStarter"
_STORES: Final = ("zookeeperServers", "configurationStoreServers")
_STORE_URLS: Final = ("metadataStoreUrl", "configurationMetadataStoreUrl")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """The TCP ports of one broker; nothing of it listens on that of the proxy, and on the agent's once it is loaded."""

    service: int
    admin: int
    agent: int
    proxy: int


class BrokerProcess(RegisteredMember):
    """A broker of a deployment, the first or a further one."""

    def __init__(
        self, site: Site, number: int, *, ports: BrokerPorts, zookeeper: ZooKeeperProcess, relay: Relay | None = None
    ) -> None:
        """``relay``: between the broker and ZooKeeper."""
        super().__init__(site, "broker", number, zookeeper=zookeeper, path=f"{BROKERS}{HOST}:{ports.admin}")
        self.ports: Final = ports
        self.relay: Final = relay
        self.probe: Final = Probe(f"http://{HOST}:{ports.admin}")

    def start(self, settings: Mapping[str, str], *, cluster: str, size: Size = SMALLEST) -> None:
        """Start it; :meth:`await_ready` waits until it is ready. ``settings`` are on top, which the release must have.

        What a broker that was killed has registered is removed first, as its session would do in the end.
        """
        release = self.site.release
        known = known_settings(release.folder).broker
        needed = {name: setting.value for name, setting in of_broker(size).items()}
        store = f"{HOST}:{self.zookeeper.port if self.relay is None else self.relay.port}"
        place = {
            "clusterName": cluster,
            **dict.fromkeys(_STORES, store),
            **dict.fromkeys(_STORE_URLS, f"zk:{store}"),
            "bindAddress": HOST,
            "advertisedAddress": HOST,
            "brokerServicePort": str(self.ports.service),
            "webServicePort": str(self.ports.admin),
        }
        shipped = release.shipped(SHIPPED)
        listeners = listener_settings(shipped, host=HOST, service_port=self.ports.service, proxy_port=self.ports.proxy)
        ours = {name: value for name, value in {**needed, **place}.items() if name in known}
        file = self.site.run.path / f"{self.name}.conf"
        file.write_text(configured(shipped, {**ours, **listeners, **settings}), "utf-8")
        self.end_session()
        self._start(JavaProgram(main=_MAIN, arguments=["--broker-conf", str(file)], memory=BROKER_MEMORY))

    def await_ready(self) -> None:
        """Wait until it answers a look-up, and ``public/default`` exists."""
        ours = {self.ports.service, self.ports.admin}

        def is_ready() -> bool:
            # Nobody else is taken for it: it is asked once it is its own process that listens.
            return self.process.listening_ports() >= ours and self.probe.is_ready()

        self._await("ready", is_ready)

    def load_agent(self) -> None:
        """Have the agent in its process, which may run without it until then."""
        self._load_agent(self.ports.agent)
