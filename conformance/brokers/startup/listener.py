"""The listener at which a broker advertises a proxy: clients that ask for it by its name are sent there, all others
not.

A broker that keeps its clients at the address that they came to (a standalone one on a loopback address) needs none of
this; one that tells them where to go does. Nothing listens there until a proxy does.

Done from release 2.11 on. Releases before 2.10 may refuse a listener beside an advertised address, which the bookie
needs; a standalone one of these can still be proxied, as said above.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TAP_LISTENER: Final = "proxy"
"""What a client asks for: its ``listener_name``."""

_OWN_LISTENER: Final = "internal"

_NEW_ENOUGH: Final = "metadataStoreUrl="
"""What stands in the shipped configuration from 2.11 on."""


def listener_settings(shipped: str, *, host: str, service_port: int, proxy_port: int) -> Mapping[str, str]:
    """Return what makes a broker advertise both its own port and the proxy's, by the names in ``broker.conf``.

    ``shipped`` is the text of its release's own configuration file; empty for releases that are too old.
    """
    if _NEW_ENOUGH not in shipped:
        return {}
    listeners = {_OWN_LISTENER: service_port, TAP_LISTENER: proxy_port}
    return {
        "advertisedListeners": ",".join(f"{name}:pulsar://{host}:{port}" for name, port in listeners.items()),
        "internalListenerName": _OWN_LISTENER,
    }
