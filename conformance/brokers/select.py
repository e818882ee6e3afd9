"""Makes a broker from what a user writes after ``--broker``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from conformance.brokers.distribution import DistributionBroker
from conformance.brokers.external import ExternalBroker
from conformance.brokers.interface import Addresses, Broker
from conformance.brokers.release import fetched_release, release_in
from conformance.trouble import Trouble

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:-[A-Za-z0-9.-]+)?")
_OFFICIAL_IMAGE = "apachepulsar/pulsar"
_EXTERNAL = re.compile(r"(pulsar://[^/,\s]+:\d+)/?,(http://[^/,\s]+:\d+)/?")


def parse_broker(text: str, *, settings: Mapping[str, str] | None = None, with_agent: bool = True) -> Broker:
    """Return the broker that ``text`` names, not started yet.

    - ``4.0.8``: the release of that version from Maven Central, downloaded here on its first use;
    - ``dist:FOLDER``: an unpacked distribution, for instance of one's own build;
    - ``container:TAG`` or ``container:IMAGE``: the official image with that tag, or any image;
    - ``pulsar://host:port,http://host:port``: a cluster that runs already.

    ``settings`` override the suite's, by their names in ``broker.conf``, and ``with_agent`` says whether defects can be
    switched on; neither has a meaning for a cluster that runs already.

    Raises:
        Trouble: the text names no broker, or what it names cannot be had.
    """
    settings = settings or {}
    if _VERSION.fullmatch(text):
        return DistributionBroker(fetched_release(text), settings=settings, with_agent=with_agent)
    if external := _EXTERNAL.fullmatch(text):
        return ExternalBroker(Addresses(service_url=external[1], admin_url=external[2]))
    match text.partition(":"):
        case "dist", _, folder if folder:
            release = release_in(Path(folder).expanduser())
            return DistributionBroker(release, name=text, settings=settings, with_agent=with_agent)
        case "container", _, image if image:
            from conformance.brokers.container import ContainerBroker  # slow to import, and seldom needed

            is_tag = "/" not in image and ":" not in image
            whole = f"{_OFFICIAL_IMAGE}:{image}" if is_tag else image
            return ContainerBroker(whole, settings=settings, with_agent=with_agent)
    raise Trouble(
        f"{text!r} names no broker: write a version (4.0.8), dist:FOLDER, container:TAG, container:IMAGE, "
        "or the addresses of a running one (pulsar://host:port,http://host:port)."
    )
