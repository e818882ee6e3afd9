"""Describes the container of a standalone broker to testcontainers: image, command, files, ports and labels.

The broker is started by the image's own ``bin/pulsar``, not by a command line of ours: the official image is not built
on glibc, and that script knows which native libraries to take there. It reads our configuration file instead of the
image's, so that the same works on images that lack the official one's helper scripts. Starting and ending the container
is up to :mod:`conformance.brokers.container`.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from testcontainers.core.container import DockerContainer

from conformance.brokers.containers.engine import DockerClient, NotFound
from conformance.brokers.containers.leftovers import Claim
from conformance.brokers.startup.agent import agent_jar, agent_options
from conformance.brokers.startup.configuration import configured
from conformance.brokers.startup.listener import listener_settings
from conformance.brokers.startup.ports import HOST, free_ports
from conformance.harness_error import HarnessError

HOME = PurePosixPath("/pulsar")
"""Where Pulsar is in the official image, and has to be in any other."""

_OURS = PurePosixPath("/pulsar-conformance")
"""What we bring into the container; a folder of its own, because ``/pulsar/conf`` is a volume in some images."""

CONFIGURATION = _OURS / "standalone.conf"
"""The configuration file that the broker reads."""

_JAR = _OURS / "byteman.jar"
_ANY_ADDRESS = "0.0.0.0"
_COMMAND = [str(HOME / "bin" / "pulsar"), "standalone", "--no-functions-worker", "--no-stream-storage"]
_ENVIRONMENT = {
    "PULSAR_STANDALONE_CONF": str(CONFIGURATION),
    "PULSAR_MEM": "-Xms64m -Xmx512m -XX:MaxDirectMemorySize=256m",
    "PULSAR_GC": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Read by ``bin/pulsar``: our configuration, a small heap, and the quick start that a deployment has too."""

_LOG = {"type": "json-file", "config": {"max-size": "50m", "max-file": "2"}}
"""A long run must not fill the engine's disk with the broker's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPorts:
    """The TCP ports of one broker: the same inside the container and, on this machine only, outside.

    A broker tells its clients where to find it; only with equal ports is what it says true inside and outside. They are
    chosen rather than left to the engine because those would change with every start. On the proxy's,
    nothing in the container listens.
    """

    service: int
    admin: int
    agent: int
    proxy: int

    @classmethod
    def chosen(cls) -> ContainerPorts:
        """Return ports that are free now.

        Raises:
            HarnessError: there are none.
        """
        service, admin, agent, proxy = free_ports(4)
        return cls(service=service, admin=admin, agent=agent, proxy=proxy)


def cluster_name(claim: Claim) -> str:
    """Return the name of the cluster that the one broker under this claim is, unlike any other broker's."""
    return f"conformance-{claim.name}"


def standalone_container(
    client: DockerClient,
    image: str,
    *,
    claim: Claim,
    ports: ContainerPorts,
    settings: Mapping[str, str],
    with_agent: bool,
) -> DockerContainer:
    """Return the container of a standalone broker, not made yet; ``settings`` go on top of the image's own.

    Raises:
        HarnessError: the image has no Pulsar where it should be, or the agent cannot be fetched.
    """
    configuration = standalone_configuration(client, image, claim=claim, ports=ports, settings=settings)
    container = DockerContainer(image, env=dict(_ENVIRONMENT), name=f"pulsar-{cluster_name(claim)}")
    container.with_command(_COMMAND)
    container.with_kwargs(labels=dict(claim.labels), log_config=_LOG)
    container.with_copy_into_container(configuration.encode(), str(CONFIGURATION))
    if with_agent:
        container.with_copy_into_container(agent_jar(), str(_JAR))
        container.with_env("PULSAR_EXTRA_OPTS", " ".join(agent_options(_JAR, address=_ANY_ADDRESS, port=ports.agent)))
    # Not by `with_bind_ports`, which can only publish a port to the whole network.
    published: dict[str, Any] = {f"{port}/tcp": (HOST, port) for port in (ports.service, ports.admin, ports.agent)}
    container.ports = published
    return container


def standalone_configuration(
    client: DockerClient, image: str, *, claim: Claim, ports: ContainerPorts, settings: Mapping[str, str]
) -> str:
    """Return the text of the configuration file: the image's own with ``settings`` in it.

    Raises:
        HarnessError: the image has no Pulsar where it should be.
    """
    shipped = _shipped_configuration(client, image, claim)
    listeners = listener_settings(shipped, host=HOST, service_port=ports.service, proxy_port=ports.proxy)
    return configured(shipped, {**listeners, **settings, **_place(claim, ports)})


def gateway_of(container: Any) -> str:
    """Return where a running container finds this machine: the address of the bridge that both are on."""
    networks: Mapping[str, Mapping[str, str]] = container.attrs["NetworkSettings"]["Networks"]
    return next(network["Gateway"] for network in networks.values())


def archived(name: str, text: str) -> bytes:
    """Return a tar with one file in it, as the engine takes files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(text.encode())
        entry.mode = 0o644
        tar.addfile(entry, io.BytesIO(text.encode()))
    return archive.getvalue()


def _place(claim: Claim, ports: ContainerPorts) -> dict[str, str]:
    """Return the settings that say where this one broker listens and what its cluster is called."""
    return {
        "clusterName": cluster_name(claim),
        "bindAddress": _ANY_ADDRESS,
        "advertisedAddress": HOST,  # the bookie's too, whose ledgers would be lost with the container's own address
        "brokerServicePort": str(ports.service),
        "webServicePort": str(ports.admin),
        "allowEphemeralPorts": "true",  # or the bookie ignores its port and takes a random one
    }


def _shipped_configuration(client: DockerClient, image: str, claim: Claim) -> str:
    """Return the image's own ``standalone.conf``, read out of a container that is never started."""
    path = str(HOME / "conf" / "standalone.conf")
    container = client.containers.create(image, command=_COMMAND, labels=dict(claim.labels))
    try:
        chunks, _ = container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            file = archive.extractfile(archive.getmembers()[0])
            assert file is not None
            return file.read().decode()
    except NotFound as error:
        raise HarnessError(f"The image {image} is not one of Pulsar: it has no {path}.") from error
    finally:
        container.remove(v=True)
