"""The features of the installed pulsar-client, by its signatures and never by its version.

An option that it lacks is left out if it has no value, because a client without it behaves the same.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import pulsar

from conformance.clients.driver.protocol import FEATURES, Feature
from conformance.harness_error import HarnessError

_FLUSH_BEGINS_S: Final = 0.05
"""How long to wait for a blocking flush: the client sends the batch at once, and without a fault it is confirmed within
milliseconds."""


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


_OPTIONS: Final[Mapping[Feature, tuple[Callable[..., Any], str]]] = {
    "ack-oldest-chunked": (pulsar.Client.subscribe, "auto_ack_oldest_chunked_message_on_queue_full"),
    "batch-index-ack": (pulsar.Client.subscribe, "batch_index_ack_enabled"),
    "chunking": (pulsar.Client.create_producer, "chunking_enabled"),
    "max-pending-chunked": (pulsar.Client.subscribe, "max_pending_chunked_message"),
    "ordering-key": (pulsar.Producer.send_async, "ordering_key"),
    "replicated-subscriptions": (pulsar.Client.subscribe, "replicate_subscription_state_enabled"),
}
"""The options that releases of pulsar-client lack."""

DECLARED: Final = frozenset(
    one for one in FEATURES if one not in _OPTIONS or _OPTIONS[one][1] in OptionsOf(_OPTIONS[one][0])
)
"""The features of the installed pulsar-client."""


def told_by(message: Any, name: str) -> str:
    """A property of a pulsar-client message; empty if the client has no such method."""
    return str(getattr(message, name)()) if hasattr(message, name) else ""


def start_flushing(producer: Any) -> None:
    """Have a producer of the C++ client send its batch, without waiting for the receipts."""
    if hasattr(producer, "flush_async"):
        producer.flush_async(lambda _result: None)
        return

    def flush() -> None:
        with suppress(Exception):  # the messages' callbacks report the outcomes
            producer.flush()

    flushing = threading.Thread(target=flush, name="flush", daemon=True)
    flushing.start()
    flushing.join(_FLUSH_BEGINS_S)
