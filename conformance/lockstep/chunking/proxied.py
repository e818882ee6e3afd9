"""A client of pulsar-client behind a proxy of its own, with the commands between it and the broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.clients.driver.connect import connect
from conformance.clients.driver.interface import ReleasedClient
from conformance.clients.security.service import Service
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.events import Command
from conformance.proxy.faults import Corrupt, LowerLimit, Which
from conformance.proxy.proxy import Proxy
from model.payloads import LIMIT_BYTES

ASK_TIMEOUT_S: Final = 10.0
"""How long a running broker may take to answer; far longer than ever measured."""


class ProxiedClient:
    """One client, of this ``library``, and the proxy that all its traffic goes through.

    The proxy lowers the ``maxMessageSize`` that the broker announces to :data:`LIMIT_BYTES`.
    """

    def __init__(self, service: Service, library: str | None) -> None:
        self._buffer = EventBuffer()
        self._seen = 0
        self.proxy: Final = Proxy(service, record=self._buffer, with_digests=True)
        lower = Corrupt(which=Which(kind="CONNECTED", count=None), change=LowerLimit(max_message_bytes=LIMIT_BYTES))
        self.proxy.inject(lower)
        self.client: Final[ReleasedClient] = connect(self.proxy.service, timeout_s=ASK_TIMEOUT_S, library=library)

    def commands(self) -> Sequence[Command]:
        """The commands since the last call, in the order in which the proxy decided on them."""
        events = self._buffer.events()
        fresh, self._seen = events[self._seen :], len(events)
        return [event for event in fresh if isinstance(event, Command)]

    def count(self, kind: str) -> int:
        """How many commands of this kind there were since the last call of :meth:`commands`."""
        return sum(isinstance(event, Command) and event.kind == kind for event in self._buffer.events()[self._seen :])

    def end(self) -> None:
        """Cut its connections; the commands until then stay available. Safe to call twice."""
        self.proxy.stop()
        self.client.abort()
