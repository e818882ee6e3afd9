"""Puts settings into a configuration file that a release ships.

Which settings, and why, is said in :mod:`conformance.brokers.settings`; here is only how such a file is written.
"""

from __future__ import annotations

from collections.abc import Mapping

_HEADING = "### Set by pulsar-conformance"


def configured(shipped: str, settings: Mapping[str, str]) -> str:
    """Return the text of a ``.conf`` file with ``settings`` instead of its own values of these names.

    The shipped lines have to go, not only to be followed by ours: of a name that is there twice the broker takes the
    last value, but the bookie, which reads the same file, takes the first.
    """
    kept = [line for line in shipped.splitlines() if line.partition("=")[0].strip() not in settings]
    ours = [f"{name}={value}" for name, value in settings.items()]
    return "\n".join([*kept, "", _HEADING, *ours, ""])
