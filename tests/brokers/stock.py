"""A standalone Pulsar as its users start it: by the release's own script, on the configuration that it ships.

Only addresses and folders are others than as shipped, and the heap is smaller. It knows nothing of the suite, which
comes to it as to anybody's cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import get_args

from conformance.brokers.launching.configuration import configured
from conformance.brokers.launching.ports import HOST, free_ports
from conformance.brokers.launching.runs import GuardedProcess
from conformance.brokers.release import Release
from conformance.clients.admin.client import Admin, Domain
from conformance.clients.admin.http import AdminError
from conformance.clients.outcomes import ConnectionLost
from tests.polling import eventually

_START_S = 300.0
_JAVA = {
    "PULSAR_MEM": "-Xms256m -Xmx512m -XX:MaxDirectMemorySize=256m",
    "PULSAR_GC": "-XX:+UseSerialGC",
    "PULSAR_EXTRA_OPTS": "-XX:TieredStopAtLevel=1",
}
"""How the script starts Java: small and quickly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """A standalone that is up: ``broker`` is how the suite is told of it."""

    broker: str
    admin: Admin


@contextmanager
def stock_standalone(release: Release) -> Iterator[Stock]:
    """Have one for the length of a block."""
    service, web, bookie, store = free_ports(4)
    process = GuardedProcess()
    try:
        home = process.folder / "pulsar"
        home.mkdir()
        for part in release.folder.iterdir():
            if part.name in ("bin", "conf"):  # the script finds everything else beside itself
                shutil.copytree(part, home / part.name)
            else:
                (home / part.name).symlink_to(part)
        addresses = {"brokerServicePort": service, "webServicePort": web, "advertisedAddress": HOST}
        shipped = release.shipped_configuration()
        own = configured(shipped, {name: str(value) for name, value in addresses.items()})
        (home / "conf" / "standalone.conf").write_text(own)
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
        admin_url = f"http://{HOST}:{web}"
        with Admin(admin_url) as admin:
            eventually(lambda: _is_up(admin), deadline_s=_START_S)
            yield Stock(broker=f"pulsar://{HOST}:{service},{admin_url}", admin=admin)
    finally:
        process.close()


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
