"""Makes a broker from what a user writes after ``--broker``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from conformance.brokers.distribution import DistributionBroker
from conformance.brokers.interface import Broker
from conformance.brokers.release import fetched_release, release_in
from conformance.trouble import Trouble

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[.-][A-Za-z0-9.-]+)?")


def parse_broker(text: str, *, settings: Mapping[str, str] | None = None, with_agent: bool = True) -> Broker:
    """Return the broker that ``text`` names, not started yet.

    ``4.0.8`` is a release from Maven Central (downloaded here, on its first use) and ``dist:FOLDER`` an unpacked
    distribution. ``settings`` override the suite's, by their names in ``broker.conf``; ``with_agent`` is for brokers
    that run as local processes.

    Raises:
        Trouble: the text names no broker, or what it names cannot be had.
    """
    settings = settings or {}
    if _VERSION.fullmatch(text):
        return DistributionBroker(fetched_release(text), settings=settings, with_agent=with_agent)
    kind, _, rest = text.partition(":")
    if kind == "dist" and rest:
        return DistributionBroker(release_in(Path(rest)), name=text, settings=settings, with_agent=with_agent)
    raise Trouble(f"{text!r} names no broker: write a version (4.0.8) or dist:FOLDER.")
