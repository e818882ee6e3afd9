"""The proxy in front of a broker, with a thread of its own, for any number of clients.

Clients connect to its ``url`` without TLS. The proxy uses TLS to brokers that require it, passes on the clients'
credentials, and replaces each broker's address in look-ups by one of its own (:mod:`conformance.proxy.addresses`). It
knows no rules.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from conformance.clients.security.service import Service
from conformance.clients.security.transport import address, addresses_of, tls_context
from conformance.clients.wire.frames import MAX_FRAME_SIZE_BYTES
from conformance.harness_error import HarnessError
from conformance.proxy.addresses import NAMING, rerouted
from conformance.proxy.armed import ArmedFault
from conformance.proxy.events import Command, Direction, Event
from conformance.proxy.faults import CutAfterBytes, Fault, Refuse, require_sensible
from conformance.proxy.session import End, ProxiedConnection, Targets

HOST: Final = "127.0.0.1"
_ANSWER_TIMEOUT_S: Final = 10.0

_T = TypeVar("_T")


def _ignore(_event: Event) -> None:
    """Record nothing."""


class Proxy:
    """Listens from its construction until it is stopped. Its public methods are for any thread."""

    def __init__(
        self,
        service: Service | str,
        *,
        record: Callable[[Event], None] = _ignore,
        host: str = HOST,
        port: int = 0,
        with_digests: bool = False,
        with_contents: bool = False,
        max_frame_size_bytes: int = MAX_FRAME_SIZE_BYTES,
    ) -> None:
        """``service``: the brokers', which may be down for a while.

        ``record`` is called with each event on the proxy's thread, and may not take long; ``port`` 0 is any that is
        free at ``host``. ``with_digests``: payloads are recorded by digest; ``with_contents``: so is each message in
        them, with its key and sequence id. ``max_frame_size_bytes``: more is no frame.

        Raises :class:`HarnessError` if it cannot listen there.
        """
        self._behind = Service.of(service)
        targets = tuple(addresses_of(self._behind.url))
        self.tls: ssl.SSLContext | None = tls_context(self._behind.security) if self._behind.is_tls else None
        self.record = record
        self.with_digests = with_digests
        self.with_contents = with_contents
        self.max_frame_size_bytes = max_frame_size_bytes
        self.sessions: set[ProxiedConnection] = set()
        self.ends: set[End] = set()
        self._armed: list[ArmedFault] = []
        self._set: list[ArmedFault] = []  # including finished ones, which may hold frames
        self._fault_numbers = itertools.count(1)
        self._numbers = itertools.count(1)
        self._connections = itertools.count(1)
        self._ports: dict[int, None] = {}
        self._failure: str | None = None
        self._host: Final = host
        self._routes: dict[str, str] = {}
        self._listeners: list[tuple[socket.socket, Targets]] = []
        self._servers: list[asyncio.Task[asyncio.Server]] = []
        try:
            self.url: Final = self._listen(targets, port)
        except OSError as error:
            raise HarnessError(f"The proxy cannot listen on port {port} of {host}: {error}") from None
        self._routes[self._behind.url] = self.url
        self._loop: asyncio.AbstractEventLoop
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._run(),), name="proxy", daemon=True)
        self._thread.start()
        if not self._is_ready.wait(_ANSWER_TIMEOUT_S):
            raise HarnessError("the proxy does not start")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def inject(self, fault: Fault) -> ArmedFault:
        """Set a fault; it counts from now on. ``record`` may call it, too.

        Raises :class:`HarnessError` for one that could never fire.
        """
        require_sensible(fault)
        return self._ask(lambda: self._arm(fault))

    def lift_all(self) -> None:
        """Lift all faults: from now on the network is in order."""
        for armed in self._ask(lambda: tuple(self._set)):
            armed.lift()

    def cut(self) -> None:
        """End all connections now; clients may reconnect."""
        self._ask(self._end_all)

    @property
    def service(self) -> Service:
        """The service for clients: its address, with the credentials that it passes on to the brokers."""
        return self._behind.at(self.url)

    @property
    def ports(self) -> tuple[int, ...]:
        """The client ports of this proxy's connections to the broker, current and former, in order."""
        return tuple(self._ports)

    def carries(self, address: str | None) -> bool:
        """Whether a client's address in the broker's stats (``/host:port``) is one of this proxy's."""
        return address is not None and int(address.rpartition(":")[2]) in self._ports

    def stop(self) -> None:
        """End all connections and stop listening. Safe to call twice.

        Raises :class:`HarnessError` if the proxy itself failed meanwhile.
        """
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_ANSWER_TIMEOUT_S)
            if self._thread.is_alive():
                raise HarnessError("the proxy does not stop")
        self.check()

    def check(self) -> None:
        """Raises :class:`HarnessError` if the proxy failed."""
        if self._failure is not None:
            raise HarnessError(self._failure)

    # ----------------------------------------------------------------------- on its own thread, for sessions and halves

    @property
    def is_armed(self) -> bool:
        """Whether any fault is set."""
        return bool(self._armed)

    def next_number(self) -> int:
        """The number of the next command."""
        return next(self._numbers)

    def next_connection(self) -> int:
        """The number of the next connection."""
        return next(self._connections)

    def came_from(self, port: int) -> None:
        """Register a client port of a connection to the broker."""
        self._ports.pop(port, None)
        self._ports[port] = None

    def fault_for(self, command: Command) -> ArmedFault | None:
        """Have every fault count a command; returns the one that acts on it, of several the one set first."""
        acting = [armed for armed in self._armed if armed.is_turn_of(command)]
        if any(armed.is_spent for armed in self._armed):
            self._armed = [armed for armed in self._armed if not armed.is_spent]
        return acting[0] if acting else None

    def limits(self, direction: Direction) -> list[ArmedFault]:
        """The faults that count bytes in this direction."""
        return [
            armed
            for armed in self._armed
            if isinstance(armed.fault, CutAfterBytes) and armed.fault.direction == direction
        ]

    def refusal(self) -> ArmedFault | None:
        """The fault that refuses a new connection, if any."""
        for armed in self._armed:
            fault = armed.fault
            if (
                isinstance(fault, Refuse)
                and not armed.is_spent
                and (fault.for_s is None or time.monotonic() < armed.set_at_s + fault.for_s)
            ):
                return armed
        return None

    def rerouted(self, kind: str, raw: memoryview) -> memoryview | bytes:
        """A command for the client, with the proxy's address instead of a broker's."""
        return rerouted(raw, is_tls=self.tls is not None, route=self._route) if kind in NAMING else raw

    # ------------------------------------------------------------------------------------------------------ in private

    def _route(self, url: str) -> str | None:
        """The address of this proxy for a broker; an address of this proxy stays the same.

        None if the broker sent an invalid address.
        """
        if url not in self._routes:
            try:
                targets = tuple(addresses_of(url))
            except HarnessError:
                return None
            self._routes[url] = self._listen(targets)
            self._serve()
        return self._routes[url]

    def _listen(self, targets: Targets, port: int = 0) -> str:
        """Bind a port for these addresses of a broker, without accepting clients yet."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, port), family=family)
        self._listeners.append((listener, targets))
        url = f"pulsar://{address(self._host, listener.getsockname()[1])}"
        self._routes[url] = url
        return url

    def _serve(self) -> None:
        """Accept clients at all new addresses."""
        for listener, targets in self._listeners:
            welcome = functools.partial(ProxiedConnection, self, targets)
            server = self._loop.create_server(lambda welcome=welcome: welcome().client, sock=listener)  # type: ignore[misc]
            self._servers.append(self._loop.create_task(server))
        self._listeners.clear()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._fail)
        self._stopping = asyncio.Event()
        self._serve()
        await asyncio.gather(*self._servers)
        self._is_ready.set()
        try:
            await self._stopping.wait()
        finally:
            for server in await asyncio.gather(*self._servers):
                server.close()
            while True:  # a connection that was accepted just before may begin only now
                self._end_all()
                for end in tuple(self.ends):
                    end.transport.abort()
                await asyncio.sleep(0)
                if not self.ends:
                    break

    def _fail(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The proxy failed: its later events are unreliable."""
        self.record = _ignore
        self._failure = f"the proxy failed: {context.get('exception') or context['message']!r}"
        self._stopping.set()

    def _ask(self, do: Callable[[], _T]) -> _T:
        """Run something on the proxy's thread."""
        answer: Future[_T] = Future()

        def run() -> None:
            try:
                answer.set_result(do())
            except Exception as error:  # noqa: BLE001 - the calling thread raises it
                answer.set_exception(error)

        self.check()
        if threading.current_thread() is self._thread:
            return do()
        try:
            self._loop.call_soon_threadsafe(run)
            return answer.result(_ANSWER_TIMEOUT_S)
        except (RuntimeError, TimeoutError):
            self.check()
            raise HarnessError(
                "the proxy has been stopped" if not self._thread.is_alive() else "the proxy is stuck"
            ) from None

    def _end_all(self) -> None:
        for session in tuple(self.sessions):
            session.end("proxy")

    def _arm(self, fault: Fault) -> ArmedFault:
        armed = ArmedFault(next(self._fault_numbers), fault, lambda armed: self._ask(lambda: self._disarm(armed)))
        self._armed.append(armed)
        self._set.append(armed)
        return armed

    def _disarm(self, armed: ArmedFault) -> None:
        self._armed = [one for one in self._armed if one is not armed]
        self._set = [one for one in self._set if one is not armed]
        for session in tuple(self.sessions):
            session.release(armed)
