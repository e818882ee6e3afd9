"""The relay in front of the metadata store: what passes, what a cut ends, and what passes again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from conformance.brokers.processes.relay import Relay
from conformance.brokers.startup.ports import HOST

TIMEOUT_S = 10.0


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that returns what it receives."""
    with socket.create_server((HOST, 0)) as listener:

        def answer(one: socket.socket) -> None:
            with one:
                while data := one.recv(1024):
                    one.sendall(data)

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=[accepted], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.fixture
def relay(echo: int) -> Iterator[Relay]:
    relay = Relay(echo)
    yield relay
    relay.close()


def connected(relay: Relay) -> socket.socket:
    return socket.create_connection((HOST, relay.port), timeout=TIMEOUT_S)


def says(one: socket.socket, word: bytes) -> bytes:
    """What comes back; nothing at the end of the connection."""
    try:
        one.sendall(word)
        return one.recv(1024)
    except ConnectionError:
        return b""


def test_a_cut_ends_all_connections_and_every_further_one_until_it_is_healed(relay: Relay) -> None:
    with connected(relay) as first, connected(relay) as second:
        assert says(first, b"a") == b"a"
        assert says(second, b"b") == b"b"
        relay.cut()
        assert says(first, b"a") == says(second, b"b") == b""
    with connected(relay) as late:
        assert says(late, b"c") == b""
    relay.heal()
    with connected(relay) as again:
        assert says(again, b"d") == b"d"


def test_nothing_listens_once_it_is_closed(relay: Relay) -> None:
    relay.close()
    with pytest.raises(ConnectionRefusedError):
        connected(relay)
