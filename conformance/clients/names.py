"""The names of clients, as ``--client`` has them."""

from __future__ import annotations

import re
from typing import Final

PULSAR_CLIENT: Final = "pulsar-client"
"""The client in the suite's own processes, in the installed version."""
DRIVEN: Final = ("go", "java", "python", "rust")
"""The clients that the suite has drivers of."""
_DRIVEN: Final = "|".join(DRIVEN)
NAME: Final = re.compile(rf"({_DRIVEN}):\d[\w.-]*|driver:.+")
"""The name of a client behind a driver: ``java:4.0.8``, ``go:0.19.0``, ``python:3.10.0`` or ``driver:COMMAND``."""
_SEPARATOR: Final = re.compile(rf",(?=(?:{_DRIVEN}):\d|driver:|\d+\.[\w.]+(?:,|$)|pulsar-client(?:,|$))")
"""A comma before the next client; any other one is part of a command."""


def clients_in(text: str) -> tuple[str, ...]:
    """The clients in a list: ``java:4.0.8,go:0.19.0,pulsar-client``."""
    return tuple(one.strip() for one in _SEPARATOR.split(text))
