"""Which clients the suite speaks with."""

from __future__ import annotations

from importlib import metadata


def client_versions() -> dict[str, str]:
    """The clients' versions, by the names that runs tell of them: pulsar-client is ``official``."""
    return {"wire": metadata.version("pulsar-conformance"), "official": metadata.version("pulsar-client")}
