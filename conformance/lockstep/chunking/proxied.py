"""A client of pulsar-client behind a proxy of its own: what passed between it and the broker since the last look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conformance.clients.driver.client import OfficialClient
from conformance.clients.security.service import Service
from conformance.proxy.event_buffer import Ring
from conformance.proxy.events import Command
from conformance.proxy.faults import Corrupt, LowerLimit, Which
from conformance.proxy.proxy import Proxy

ASK_TIMEOUT_S: Final = 10.0
"""How long a broker that is up may take to answer; far beyond anything that was seen."""


LIMIT_BYTES: Final = 10240
"""What clients take for the largest message of any broker: the suite's payloads are chunked above it."""


class Tapped:
    """One client process, as a broker sees it, and the proxy that all its traffic goes through.

    A broker that takes larger messages than :data:`LIMIT_BYTES` seems to the client to take only such.
    """

    def __init__(self, service: Service) -> None:
        """Nothing is connected yet."""
        self._ring = Ring()
        self._seen = 0
        self.proxy: Final = Proxy(service, record=self._ring, with_digests=True)
        lower = Corrupt(which=Which(kind="CONNECTED", count=None), change=LowerLimit(max_message_bytes=LIMIT_BYTES))
        self.proxy.inject(lower)
        self.client: Final = OfficialClient(self.proxy.service, timeout_s=ASK_TIMEOUT_S)

    def news(self) -> Sequence[Command]:
        """The commands since the last look, in the order in which it became clear what becomes of them."""
        events = self._ring.events()
        fresh, self._seen = events[self._seen :], len(events)
        return [event for event in fresh if isinstance(event, Command)]

    def count(self, kind: str) -> int:
        """How many commands of this kind there were since the last look."""
        return sum(isinstance(event, Command) and event.kind == kind for event in self._ring.events()[self._seen :])

    def end(self) -> None:
        """Cut its connections; what is told until then can still be looked at. Safe to call twice."""
        self.proxy.stop()
        self.client.abort()
