"""A relay between a client and a broker that can be cut: then nothing that the client holds back gets through any more.

It passes bytes on as they are and knows nothing of the protocol. pulsar-client sends what it holds back even when it is
told to stop at once; behind a relay that is cut, it cannot.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from conformance.systems.connection import parse_service_url

_CONNECT_TIMEOUT_S = 10.0
_PIECE_SIZE_BYTES = 64 * 1024


class Relay:
    """Listens at an address of its own, ``url``, and connects whoever comes to a broker, until it is cut."""

    def __init__(self, service_url: str) -> None:
        """``service_url``: ``pulsar://host:port``, the broker's; it may be away for a while."""
        self._target = parse_service_url(service_url)
        self._lock = threading.Lock()
        self._is_cut = False
        self._sockets: set[socket.socket] = set()
        self._ports: set[int] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def carries(self, address: str | None) -> bool:
        """Whether a client's address, as the broker sees it (``/host:port``), is one of this relay's."""
        return address is not None and int(address.rpartition(":")[2]) in self._ports

    def cut(self) -> None:
        """Pass nothing on any more, and reset all connections. Safe to call twice."""
        with self._lock:
            self._is_cut = True
            sockets, self._sockets = self._sockets, set()
        for one in (self._listener, *sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self._target, timeout=_CONNECT_TIMEOUT_S)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            if not self._keep(client, broker):
                return
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=self._pass_on, args=(source, sink), name="relay", daemon=True).start()

    def _keep(self, client: socket.socket, broker: socket.socket) -> bool:
        """Remember a pair of connections; False, and they are closed, if the relay was cut meanwhile."""
        with self._lock:
            if not self._is_cut:
                self._sockets |= {client, broker}
                self._ports.add(broker.getsockname()[1])
                return True
        client.close()
        broker.close()
        return False

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        """Until one side ends; then the other one is ended too."""
        with suppress(OSError):
            while data := source.recv(_PIECE_SIZE_BYTES):
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sink.sendall(data)
        with self._lock:
            self._sockets -= {source, sink}
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
