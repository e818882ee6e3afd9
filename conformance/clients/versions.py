"""The versions of the suite's clients."""

from __future__ import annotations

import sys
from importlib import metadata


def client_versions(official: str | None = None) -> dict[str, str]:
    """The clients' versions, by their names in events: pulsar-client is ``official``, by default the one in use here.

    ``official`` may also name a driver, such as ``java:4.0.8``: then its client takes pulsar-client's place.

    Where it is loaded, the library is asked, because an environment may have several.
    """
    if official is not None and ":" in official:
        name, _, version = official.partition(":")
        return {"wire": metadata.version("pulsar-conformance"), name: version}
    loaded = getattr(sys.modules.get("pulsar"), "__version__", None)
    return {
        "wire": metadata.version("pulsar-conformance"),
        "official": official or loaded or metadata.version("pulsar-client"),
    }
