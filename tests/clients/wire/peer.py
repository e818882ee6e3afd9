"""A scripted peer of a connection, which does what no broker would do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Iterator

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.frames import Frame, FrameDecoder, encode_frame

_TIMEOUT_S = 5.0
_Type = pb.BaseCommand


class Peer:
    """Accepts one connection, shakes hands, and leaves the rest to the test."""

    def __init__(self, *, shakes_hands: bool = True, protocol_version: int = 19) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.service_url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        self._shakes_hands = shakes_hands
        self._protocol_version = protocol_version
        self._decoder = FrameDecoder()
        self._received: deque[Frame] = deque()
        self._ready = threading.Event()
        self._socket: socket.socket | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = self._listener.accept()
            accepted.settimeout(_TIMEOUT_S)
            self._socket = accepted
            if self._shakes_hands:
                assert self.receive().command.type == _Type.CONNECT
                connected = pb.CommandConnected(
                    server_version="peer", protocol_version=self._protocol_version, max_message_size=5242880
                )
                self.send(encode_frame(pb.BaseCommand(type=_Type.CONNECTED, connected=connected)))
            self._ready.set()

    @property
    def socket(self) -> socket.socket:
        """The connection."""
        assert self._ready.wait(_TIMEOUT_S), "nobody connected"
        assert self._socket is not None
        return self._socket

    def send(self, data: bytes) -> None:
        """Write these bytes to the client."""
        assert self._socket is not None
        self._socket.sendall(data)

    def receive(self) -> Frame:
        """Read the client's next frame."""
        assert self._socket is not None
        while not self._received:
            data = self._socket.recv(65536)
            assert data, "the client closed the connection"
            self._received.extend(self._decoder.feed(data))
        return self._received.popleft()

    def serve_producer(self, *, name: str = "p") -> int:
        """Answer a look-up and the opening of a producer; return the producer's number."""
        lookup = self.receive().command.lookup
        response = pb.CommandLookupTopicResponse(
            broker_service_url=self.service_url,
            response=pb.CommandLookupTopicResponse.Connect,
            request_id=lookup.request_id,
        )
        self.send(encode_frame(pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_response=response)))
        asked = self.receive().command.producer
        success = pb.CommandProducerSuccess(request_id=asked.request_id, producer_name=name)
        self.send(encode_frame(pb.BaseCommand(type=_Type.PRODUCER_SUCCESS, producer_success=success)))
        return asked.producer_id

    def close(self) -> None:
        """Close the connection and stop listening."""
        self._listener.close()
        if self._socket is not None:
            self._socket.close()


@contextlib.contextmanager
def peer(*, shakes_hands: bool = True, protocol_version: int = 19) -> Iterator[Peer]:
    """A peer for the length of a test."""
    it = Peer(shakes_hands=shakes_hands, protocol_version=protocol_version)
    try:
        yield it
    finally:
        it.close()
