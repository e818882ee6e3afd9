"""A standalone Pulsar as its users start it: by the release's own script, on the configuration that it ships.

Only addresses and folders are others than as shipped, and the heap is smaller. It knows nothing of the suite, which
comes to it as to anybody's cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import get_args

from conformance.brokers.interface import Broker
from conformance.brokers.release import Release
from conformance.brokers.select import parse_broker
from conformance.brokers.startup.configuration import configured
from conformance.brokers.startup.ports import HOST, free_ports
from conformance.brokers.startup.runs import GuardedProcess, RunFolder
from conformance.clients.admin.client import Admin, Domain
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ConnectionLost
from conformance.clients.security.service import Service
from tests.waits import eventually

_START_S = 300.0
_JAVA = {
    "PULSAR_MEM": "-Xms256m -Xmx512m -XX:MaxDirectMemorySize=256m",
    "PULSAR_GC": "-XX:+UseSerialGC",
    "PULSAR_EXTRA_OPTS": "-XX:TieredStopAtLevel=1",
}
"""How the script starts Java: small and quickly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """A standalone that is up, and how the suite connects to it; ``admin`` is a super user's."""

    service: Service
    admin_url: str
    admin: Admin

    @property
    def arguments(self) -> list[str]:
        """What a command of the suite is called with."""
        return ["--broker", f"{self.service.url},{self.admin_url}", *self.service.security.options()]

    def as_broker(self) -> Broker:
        """It, as a run has it."""
        return parse_broker(f"{self.service.url},{self.admin_url}", security=self.service.security)


@contextmanager
def stock_standalone(release: Release) -> Iterator[Stock]:
    """Have one for the length of a block."""
    service, web = free_ports(2)
    admin_url = f"http://{HOST}:{web}"
    run = RunFolder()
    process = GuardedProcess(run, "broker")
    try:
        start_by_script(
            process,
            release,
            {"brokerServicePort": str(service), "webServicePort": str(web), "advertisedAddress": HOST},
        )
        with Admin(admin_url) as admin:
            await_up(process, admin)
            yield Stock(service=Service(f"pulsar://{HOST}:{service}"), admin_url=admin_url, admin=admin)
    finally:
        run.close()


def start_by_script(process: GuardedProcess, release: Release, settings: Mapping[str, str]) -> None:
    """Unpack a release into the folder of a process, and start it there, with some settings other than as shipped."""
    bookie, store = free_ports(2)
    home = process.folder / "pulsar"
    home.mkdir()
    for part in release.folder.iterdir():
        if part.name in ("bin", "conf"):  # the script finds everything else beside itself
            shutil.copytree(part, home / part.name)
        else:
            (home / part.name).symlink_to(part)
    (home / "conf" / "standalone.conf").write_text(configured(release.shipped("standalone.conf"), settings))
    flags = ["--no-functions-worker", "--no-stream-storage", "--bookkeeper-dir", f"{process.folder}/bookie"]
    if release.chooses_bookie_port:
        flags += ["--bookkeeper-port", str(bookie)]
    if release.keeps_metadata_in_rocksdb:
        flags += ["--metadata-dir", f"{process.folder}/metadata"]
    else:
        flags += ["--zookeeper-port", str(store), "--zookeeper-dir", f"{process.folder}/zookeeper"]
    environment = {**_JAVA, "PULSAR_LOG_DIR": f"{process.folder}/logs"}
    told = [f"{name}={value}" for name, value in environment.items()]
    process.start(["env", *told, "bash", str(home / "bin" / "pulsar"), "standalone", *flags])


def await_up(process: GuardedProcess, admin: Admin) -> None:
    """Wait until it has set up what it comes with."""

    def is_up_or_over() -> bool:
        return process.exit_status() is not None or _is_up(admin)

    eventually(is_up_or_over, deadline_s=_START_S)
    assert process.exit_status() is None, f"the broker ended:\n{process.log.read_text()[-4000:]}"


def _is_up(admin: Admin) -> bool:
    """Whether it has set up what it comes with. No topic is looked up: the broker would make one for that itself."""
    with suppress(AdminError, ConnectionLost):
        return {"public/default", "pulsar/system"} <= {one for t in admin.tenants() for one in admin.namespaces(t)}
    return False


def everything_on(admin: Admin) -> dict[str, object]:
    """All that is on a cluster, and how it is set: tenants, namespaces, topics with those of the system, settings."""
    namespaces = sorted(one for tenant in admin.tenants() for one in admin.namespaces(tenant))
    return {
        "tenants": sorted(admin.tenants()),
        "namespaces": namespaces,
        "topics": sorted(topic for namespace in namespaces for topic in _topics_of(admin, namespace)),
        "dynamic settings": dict(admin.dynamic_configuration()),
        "settings in force": dict(admin.runtime_configuration()),
    }


def _topics_of(admin: Admin, namespace: str) -> Iterator[str]:
    for domain in get_args(Domain):
        yield from admin.topics(namespace, domain=domain, with_system=True)
        yield from admin.partitioned_topics(namespace, domain=domain)
