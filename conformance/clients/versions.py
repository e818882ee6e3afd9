"""The versions of the suite's clients."""

from __future__ import annotations

from importlib import metadata


def client_versions(official: str | None = None) -> dict[str, str]:
    """The clients' versions, by their names in events: pulsar-client is ``official``, by default the installed one."""
    return {"wire": metadata.version("pulsar-conformance"), "official": official or metadata.version("pulsar-client")}
