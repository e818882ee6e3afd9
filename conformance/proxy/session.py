"""One client's connection through the proxy: a socket to the client, one to the broker, and a half each way."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final, Literal, Protocol

from conformance.clients.security.transport import cause_of
from conformance.proxy.armed import ArmedFault
from conformance.proxy.direction import Ending, Guard, HalfConnection
from conformance.proxy.events import ConnectionClosed, ConnectionOpened, ConnectionRefused
from conformance.proxy.frame_reader import Reader

CONNECT_TIMEOUT_S: Final = 10.0
_MOST_UNWRITTEN_BYTES: Final = 1024 * 1024
"""How many bytes may be unwritten before reading stops."""


Side = Literal["client", "broker"]
Targets = tuple[tuple[str, int], ...]
"""Hosts and ports, any of which can be used."""


class House(Guard, Protocol):
    """The proxy, for a session."""

    tls: ssl.SSLContext | None
    with_digests: bool
    with_contents: bool
    max_frame_size_bytes: int
    sessions: set[ProxiedConnection]
    ends: set[End]

    def refusal(self) -> ArmedFault | None:
        """The fault that refuses a new connection, if any."""

    def next_connection(self) -> int:
        """The number of the next connection."""

    def came_from(self, port: int) -> None:
        """Register a client port of a connection to the broker."""


class End(asyncio.Protocol):
    """One of a session's two sockets."""

    def __init__(self, session: ProxiedConnection, side: Side) -> None:
        self._session = session
        self._side: Final = side
        self.transport: asyncio.Transport

    @property
    def port(self) -> int:
        """The client's port; on the broker's socket, the proxy's."""
        return int(self.transport.get_extra_info("peername" if self._side == "client" else "sockname")[1])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=_MOST_UNWRITTEN_BYTES)
        self.transport = transport
        self._session.house.ends.add(self)
        if self._side == "client":
            self._session.welcome()
        else:
            self._session.connected()

    def data_received(self, data: bytes) -> None:
        self._session.take(self._side, data)

    def eof_received(self) -> bool:
        """The peer has ended its direction; the socket stays open until all frames are passed on."""
        self._session.gone(self._side, is_half=self.transport.can_write_eof())
        return self.transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why is of no interest
        self._session.house.ends.discard(self)
        self._session.gone(self._side, is_half=False)

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self._session.is_full(self._side, True)

    def resume_writing(self) -> None:
        """The write buffer has drained."""
        self._session.is_full(self._side, False)


class ProxiedConnection:
    """A connection from a client's connect until both sides have ended."""

    def __init__(self, house: House, targets: Targets) -> None:
        self.house: Final = house
        self._targets: Final = targets
        self.number = 0
        """The connection's number, from 1; 0 until the broker has accepted it."""
        self.client: Final = End(self, "client")
        self.broker: Final = End(self, "broker")
        self._lanes: dict[Side, HalfConnection] = {}
        self._finished: list[Ending] = []
        self._is_over = False
        self._dialling: asyncio.Task[None] | None = None

    def welcome(self) -> None:
        """A client connected: connect it with the broker, or refuse it."""
        # Not at once: the asyncio of Python 3.11.2 begins to read after this callback, paused or not.
        asyncio.get_running_loop().call_soon(self.client.transport.pause_reading)
        self.house.sessions.add(self)
        refusal = self.house.refusal()
        if refusal is None:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())
        else:
            refusal.fire(None, None)
            self._turn_away("a fault")

    def connected(self) -> None:
        """The broker accepted the connection."""
        if self._is_over:
            self.broker.transport.abort()
            return
        house = self.house
        self.number = house.next_connection()
        house.came_from(self.broker.port)
        reader = Reader(with_digests=house.with_digests, with_contents=house.with_contents)
        client, broker = self.client.transport, self.broker.transport
        size = house.max_frame_size_bytes
        self._lanes["client"] = HalfConnection(
            "to-broker", guard=house, ends=self, reader=reader, source=client, sink=broker, max_frame_size_bytes=size
        )
        self._lanes["broker"] = HalfConnection(
            "to-client", guard=house, ends=self, reader=reader, source=broker, sink=client, max_frame_size_bytes=size
        )
        house.record(
            ConnectionOpened(
                connection=self.number,
                at_s=time.monotonic(),
                client_port=self.client.port,
                broker_port=self.broker.port,
            )
        )
        client.resume_reading()

    def take(self, side: Side, data: bytes) -> None:
        """Bytes arrived from one side."""
        if not self._is_over:
            self._lanes[side].take(data)

    def gone(self, side: Side, *, is_half: bool) -> None:
        """One side has ended the connection, or, with ``is_half``, its own direction of it."""
        if self._is_over:
            return
        if side in self._lanes:
            self._lanes[side].finish(side, is_half=is_half)
        else:
            self.end(side)

    def end_half(self, by: Ending) -> None:
        """End one side after the other has ended; the second time the session is over."""
        self._finished.append(by)
        if len(self._finished) == len(self._lanes):
            self.end(self._finished[0])
        else:
            other = self.broker if by == "client" else self.client
            if other.transport.can_write_eof():
                other.transport.write_eof()
            else:  # TLS ends both directions at once
                self.end(by)

    def end(self, by: Ending) -> None:
        """End both sides; written bytes still arrive. Safe to call twice."""
        if self._is_over:
            return
        self._is_over = True
        for half in self._lanes.values():
            half.drop()
        self.house.sessions.discard(self)
        for end in (self.client, self.broker):
            if end in self.house.ends:
                end.transport.close()
        if self._lanes:
            self.house.record(ConnectionClosed(connection=self.number, at_s=time.monotonic(), by=by))

    def is_full(self, side: Side, is_full: bool) -> None:
        """The write buffer of one side is full, or has drained."""
        if not self._is_over and self._lanes:
            self._lanes["broker" if side == "client" else "client"].sink_is_full(is_full)

    def release(self, armed: ArmedFault) -> None:
        """Release the frames that this fault holds."""
        for half in tuple(self._lanes.values()):
            if not self._is_over:
                half.release(armed)

    async def _dial(self) -> None:
        for number, (host, port) in enumerate(self._targets, start=1):
            name = host if self.house.tls is not None else None
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await asyncio.get_running_loop().create_connection(
                        lambda: self.broker, host, port, ssl=self.house.tls, server_hostname=name
                    )
                return
            except (OSError, ValueError, OverflowError) as error:  # a timeout; or a host that no resolver takes
                if number == len(self._targets):
                    self._turn_away(f"no connection to the broker: {cause_of(error, host, port)}")

    def _turn_away(self, reason: str) -> None:
        if not self._is_over:
            port = self.client.port
            self.end("proxy")
            self.client.transport.abort()
            self.house.record(ConnectionRefused(at_s=time.monotonic(), client_port=port, reason=reason))
