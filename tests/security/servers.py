"""Servers that are no Pulsar: silent ones, of HTTP, with TLS or without."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.security.certificates import Pair

HOST = "127.0.0.1"


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


@contextlib.contextmanager
def closing() -> Iterator[int]:
    """A port that closes each connection at once."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """Answers each GET with a greeting."""

    status = 200
    body = b"hello"

    def do_GET(self) -> None:
        self.answer(self.status, self.body)

    def answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def http(handler: Callable[..., BaseHTTPRequestHandler] = Handler, pair: Pair | None = None) -> Iterator[int]:
    """A server of HTTP, with TLS where it has a certificate."""
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.certificate, pair.key)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
