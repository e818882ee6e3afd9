"""What the installed release of pulsar-client can be asked for, by its own signatures; never by its version.

An option that it lacks is left out as long as it has no value, because then a client without it does the same.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pulsar

from conformance.harness_error import HarnessError

_FLUSH_BEGINS_S: Final = 0.05
"""How long to wait for a flush that blocks: its batch is sent at once, and confirmed in milliseconds unless there is a
fault."""


class OptionsOf:
    """The options of one of pulsar-client's functions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function.__qualname__
        self._names: Final = frozenset(inspect.signature(function).parameters)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def accepted(self, **options: Any) -> dict[str, Any]:
        """These options without those that the function lacks.

        Raises:
            HarnessError: it lacks one that has a value.
        """
        for name, value in options.items():
            if value and name not in self:
                raise HarnessError(f"{self._function} of pulsar-client {pulsar.__version__} has no option {name}")
        return {name: value for name, value in options.items() if name in self}


ACKNOWLEDGES_PARTS: Final = "batch_index_ack_enabled" in OptionsOf(pulsar.Client.subscribe)
"""Whether its consumers can acknowledge the messages of a batch one by one."""


def told_by(message: Any, name: str) -> str:
    """What a message of pulsar-client says of itself; empty where the client has no such method."""
    return str(getattr(message, name)()) if hasattr(message, name) else ""


def start_flushing(producer: Any) -> None:
    """Have a producer of the C++ client send what it holds, and do not wait for the confirmations."""
    if hasattr(producer, "flush_async"):
        producer.flush_async(lambda _result: None)
        return

    def flush() -> None:
        with suppress(Exception):  # what becomes of the messages, their own callbacks tell
            producer.flush()

    flushing = threading.Thread(target=flush, name="flush", daemon=True)
    flushing.start()
    flushing.join(_FLUSH_BEGINS_S)
