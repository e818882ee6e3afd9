"""The versions of the suite's clients."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Final

from conformance.clients.names import PULSAR_CLIENT, clients_in

WIRE: Final = "wire"
OFFICIAL: Final = "official"
"""The names of the wire client and of pulsar-client in events."""


def client_versions(clients: str | None = None) -> dict[str, str]:
    """The clients' versions, by their names in events. ``clients``: the value of ``--client``, if it was given.

    Of the pulsar-client in use here, the library is asked if it is loaded: an environment may have several.
    """
    return versions_of(map(_named, (PULSAR_CLIENT,) if clients is None else clients_in(clients)))


def versions_of(clients: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The versions of these clients, and of the wire client. The second one of a name has its version in its name."""
    found = {WIRE: metadata.version("pulsar-conformance")}
    for name, version in clients:
        short = OFFICIAL if name == PULSAR_CLIENT else name
        found[short if short not in found else f"{short}:{version}"] = version
    return found


def libraries_in(clients: Mapping[str, str]) -> dict[str, str]:
    """The clients that operations may name, from the versions in an event, with their names in deviations.

    None if there is only pulsar-client.
    """
    kinds = {name: name.partition(":")[0] for name in clients if name != WIRE}
    if list(kinds) == [OFFICIAL]:
        return {}
    return {f"{PULSAR_CLIENT if kind == OFFICIAL else kind}:{clients[name]}": kind for name, kind in kinds.items()}


def _named(client: str) -> tuple[str, str]:
    if client == PULSAR_CLIENT:
        loaded = getattr(sys.modules.get("pulsar"), "__version__", None)
        return PULSAR_CLIENT, loaded or metadata.version(PULSAR_CLIENT)
    name, colon, version = client.partition(":")
    return (name, version) if colon else (PULSAR_CLIENT, client)
