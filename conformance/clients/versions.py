"""The versions of the suite's clients."""

from __future__ import annotations

from importlib import metadata


def client_versions() -> dict[str, str]:
    """The clients' versions, by their names in events: pulsar-client is ``official``."""
    return {"wire": metadata.version("pulsar-conformance"), "official": metadata.version("pulsar-client")}
