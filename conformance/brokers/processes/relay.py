"""A relay in front of the metadata store, so that one broker can be cut off from it while its clients reach it."""

from __future__ import annotations

import contextlib
import selectors
import socket
import socketserver
import threading
from typing import Final

from conformance.brokers.startup.ports import HOST

_READ_BYTES: Final = 1 << 16


class Relay:
    """Passes connections on to a port of this host, until it is cut, and again after it is healed."""

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._pairs: Final[set[socket.socket]] = set()
        self._lock: Final = threading.Lock()
        self.is_cut = False
        """Whether it passes nothing on."""
        relay = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                relay._pass(self.request)

        self._server: Final = socketserver.ThreadingTCPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="relay", daemon=True).start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def cut(self) -> None:
        """Close all connections, and every further one at once."""
        with self._lock:
            self.is_cut = True
            for one in self._pairs:
                _shut(one)

    def heal(self) -> None:
        """Pass new connections on again."""
        with self._lock:
            self.is_cut = False

    def close(self) -> None:
        """Close all connections and the port."""
        self.cut()
        self._server.shutdown()
        self._server.server_close()

    def _pass(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self._target)) as store:
            with self._lock:
                if self.is_cut:
                    return
                self._pairs.update((client, store))
            try:
                _copy(client, store)
            finally:
                with self._lock:
                    self._pairs.difference_update((client, store))


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _copy(client: socket.socket, store: socket.socket) -> None:
    """Copy both directions until one of them ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ, store)
        selector.register(store, selectors.EVENT_READ, client)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(_READ_BYTES)
                if not data:
                    return
                key.data.sendall(data)
