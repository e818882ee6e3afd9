"""Any bytes in any pieces: they pass the proxy, or the connection ends, and nothing waits forever."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.clients import protocol_pb2 as pb
from conformance.clients.outcomes import ConnectionLost
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.frames import FrameSplitter, MalformedFrame, encode_frame
from conformance.harness_error import HarnessError
from conformance.proxy.changes import changed
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.events import UNREADABLE, Blind, Command, ConnectionClosed
from conformance.proxy.faults import (
    Corrupt,
    FewerIds,
    HoldFrames,
    Lose,
    LowerLimit,
    OtherChunkId,
    OtherUuid,
    PayloadByte,
    Refuse,
    Which,
)
from conformance.proxy.frame_reader import Reader
from conformance.proxy.proxy import Proxy
from tests.clients.wire.frame_strategies import Parts, frame_parts
from tests.clients.wire.test_frames import PING, cut_up, framed, mutated, send_frame
from tests.waits import eventually

TIMEOUT_S = 5.0
IMPOSSIBLE = struct.pack(">I", 2**31) + b"and more"


class Sink:
    """The proxy's other side: accepts every connection, keeps the bytes that arrive, and sends them back."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._echo, args=(accepted,), daemon=True).start()

    @staticmethod
    def _echo(accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), accepted:
            while data := accepted.recv(65536):
                accepted.sendall(data)

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    """An echo."""
    sink = Sink()
    yield sink
    sink.close()


@pytest.fixture(scope="module")
def everything() -> EventBuffer:
    """The events of the module's proxy."""
    return EventBuffer()


@pytest.fixture(scope="module")
def echoing(sink: Sink, everything: EventBuffer) -> Iterator[Proxy]:
    """A proxy in front of the echo."""
    with Proxy(sink.url, record=everything) as proxy:
        yield proxy


def connected(proxy: Proxy) -> socket.socket:
    """A bare connection to a proxy."""
    host, _, port = proxy.url.removeprefix("pulsar://").partition(":")
    made = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def echoed(proxy: Proxy, pieces: list[bytes]) -> bytes:
    """Send these pieces through a proxy and back; return everything that arrives until the connection ends."""
    with connected(proxy) as through:
        for piece in pieces:
            through.sendall(piece)
        through.shutdown(socket.SHUT_WR)
        came = b""
        while data := through.recv(65536):
            came += data
        return came


# ------------------------------------------------------------ the splitter


def split(pieces: list[bytes], *, max_frame_size_bytes: int = 1000) -> tuple[list[bytes], bytes, bool]:
    """The frames of a stream in these pieces, the rest, and whether it ended as malformed."""
    splitter = FrameSplitter(max_frame_size_bytes=max_frame_size_bytes)
    frames: list[bytes] = []
    for number, piece in enumerate(pieces):
        try:
            frames.extend(bytes(raw) for raw in splitter.feed(piece))
        except MalformedFrame:
            return frames, splitter.take_rest() + b"".join(pieces[number + 1 :]), True
    return frames, splitter.take_rest(), False


@given(data=st.data(), stream=st.binary(max_size=300), many=st.lists(frame_parts(), max_size=3))
def test_a_stream_is_split_the_same_way_in_any_pieces_and_nothing_is_lost(
    data: st.DataObject, stream: bytes, many: list[Parts]
) -> None:
    whole = b"".join(encode_frame(*parts) for parts in many) + stream
    frames, rest, is_malformed = split(data.draw(cut_up(whole)))
    assert b"".join(frames) + rest == whole
    assert (frames, rest, is_malformed) == split([whole])
    assert frames[: len(many)] == [encode_frame(*parts) for parts in many]


def test_a_frame_that_arrived_in_one_piece_is_not_copied() -> None:
    arrived = send_frame(payload=b"x" * 1000)
    (raw,) = FrameSplitter().feed(arrived)
    assert raw.obj is arrived


# ------------------------------------------------------------ the reader


@given(raw=st.binary(max_size=120) | st.builds(framed, st.binary(max_size=60), st.binary(max_size=60)))
def test_any_frame_is_read_as_a_command_or_is_unreadable(raw: bytes) -> None:
    kind, facts = Reader(with_digests=True).read(memoryview(raw))
    command = Command(
        number=1, connection=1, direction="to-broker", kind=kind, size_bytes=len(raw), came_at_s=0.0, **facts
    )
    assert kind != UNREADABLE or facts == {}
    str(command).encode()


@given(data=st.data(), parts=frame_parts())
def test_every_command_of_the_protocol_is_read_with_its_kind_even_if_damaged(data: st.DataObject, parts: Parts) -> None:
    raw = encode_frame(*parts)
    reader = Reader(with_digests=True)
    assert reader.read(memoryview(raw))[0] == pb.BaseCommand.Type.Name(parts[0].type)
    kind, _ = reader.read(memoryview(data.draw(mutated(raw))))
    assert kind


@given(parts=frame_parts(), at=st.integers(-200, 200), chunk_id=st.integers(0, 9), count=st.integers(1, 3))
def test_a_changed_frame_is_valid_and_differs_only_by_the_change(
    parts: Parts, at: int, chunk_id: int, count: int
) -> None:
    command, metadata, payload = parts
    raw = memoryview(encode_frame(*parts))
    for change in (
        PayloadByte(at=at),
        OtherChunkId(chunk_id=chunk_id),
        OtherUuid(uuid="u"),
        FewerIds(count=count),
        LowerLimit(max_message_bytes=10240),
    ):
        other = changed(raw, Corrupt(which=Which(), change=change))
        expected = pb.MessageMetadata()
        expected.CopyFrom(metadata or expected)
        match change:
            case PayloadByte() if payload:
                index = at % len(payload)
                flipped = payload[:index] + bytes([payload[index] ^ 0xFF]) + payload[index + 1 :]
                assert other == encode_frame(command, metadata, flipped)
            case OtherChunkId() if metadata is not None and metadata.HasField("chunk_id"):
                expected.chunk_id = chunk_id
                assert other == encode_frame(command, expected, payload)
            case OtherUuid() if metadata is not None and metadata.HasField("uuid"):
                expected.uuid = "u"
                assert other == encode_frame(command, expected, payload)
            case FewerIds() if command.type == pb.BaseCommand.ACK and command.ack.message_id:
                fewer = pb.BaseCommand()
                fewer.CopyFrom(command)
                del fewer.ack.message_id[-count:]
                assert other == (encode_frame(fewer) if len(command.ack.message_id) > count else b"")
            case LowerLimit() if command.connected.max_message_size > 10240:
                lower = pb.BaseCommand()
                lower.CopyFrom(command)
                lower.connected.max_message_size = 10240
                assert other == encode_frame(lower)
            case _:
                assert other is None


# ------------------------------------------------------------ the proxy


@settings(max_examples=60, deadline=None)
@given(data=st.data(), many=st.lists(frame_parts(), max_size=3), stream=st.binary(max_size=100))
def test_any_stream_passes_unchanged_in_any_pieces(
    echoing: Proxy, data: st.DataObject, many: list[Parts], stream: bytes
) -> None:
    whole = b"".join(encode_frame(*parts) for parts in many) + stream
    assert echoed(echoing, data.draw(cut_up(whole))) == whole


def test_a_stream_that_has_no_frames_is_reported_and_forwarded(echoing: Proxy, everything: EventBuffer) -> None:
    assert echoed(echoing, [PING, IMPOSSIBLE, PING]) == PING + IMPOSSIBLE + PING
    blind = [event for event in everything.events() if isinstance(event, Blind)][-2:]
    assert {one.direction for one in blind} == {"to-broker", "to-client"}
    assert all("2147483648 bytes" in one.reason for one in blind)


def test_a_frame_with_an_unreadable_command_is_reported_and_forwarded(echoing: Proxy, everything: EventBuffer) -> None:
    nonsense = framed(b"\xff\xff", b"rest")
    assert echoed(echoing, [nonsense + PING]) == nonsense + PING
    assert [one.kind for one in everything.commands()[-4:]].count(UNREADABLE) == 2


def test_a_large_frame_passes_completely(echoing: Proxy) -> None:
    large = send_frame(payload=bytes(5 * 1024 * 1024))
    sent: list[bytes] = []
    with connected(echoing) as through:
        sender = threading.Thread(target=through.sendall, args=(large,))
        sender.start()
        while sum(map(len, sent)) < len(large):
            sent.append(through.recv(1 << 20))
        sender.join(TIMEOUT_S)
    assert b"".join(sent) == large


# ------------------------------------------------------------ start and stop


def test_a_stopped_proxy_leaves_no_thread_and_no_connection(sink: Sink) -> None:
    before = threading.active_count()
    buffer = EventBuffer()
    proxy = Proxy(sink.url, record=buffer)
    with connected(proxy) as through:
        through.sendall(PING)
        assert through.recv(100) == PING
        held = proxy.inject(HoldFrames(which=Which(kind="PING")))
        through.sendall(PING)
        held.await_fired(timeout_s=TIMEOUT_S)
        proxy.stop()
        proxy.stop()
        assert through.recv(100) == b""
    assert [event.by for event in buffer.events() if isinstance(event, ConnectionClosed)] == ["proxy"]
    assert [one.passed_at_s is None for one in buffer.commands("PING")] == [False, False, True]
    with pytest.raises(OSError, match="refused"):
        connected(proxy)
    eventually(lambda: threading.active_count() <= before, deadline_s=TIMEOUT_S)
    with pytest.raises(HarnessError, match="stopped"):
        proxy.inject(Refuse())


def test_a_proxy_stops_while_clients_connect() -> None:
    """One whose connection is accepted just before the end begins after it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(3):
            proxy = Proxy(f"pulsar://127.0.0.1:{listener.getsockname()[1]}")
            clients: list[socket.socket] = []
            connecting = threading.Thread(target=connect_until_refused, args=(proxy, clients))
            connecting.start()
            eventually(lambda clients=clients: len(clients) > 20)  # type: ignore[misc]
            proxy.stop()
            connecting.join()
            for client in clients:
                client.close()


def connect_until_refused(proxy: Proxy, clients: list[socket.socket]) -> None:
    with contextlib.suppress(OSError):
        while True:
            clients.append(connected(proxy))


def test_a_proxy_without_a_broker_accepts_no_client() -> None:
    with Proxy("pulsar://127.0.0.1:1") as proxy, pytest.raises(ConnectionLost):
        WireClient.connect(proxy.url, timeout_s=TIMEOUT_S)


def test_a_port_in_use_is_a_harness_error(sink: Sink) -> None:
    taken = int(sink.url.rpartition(":")[2])
    with pytest.raises(HarnessError, match=f"cannot listen on port {taken}"):
        Proxy(sink.url, port=taken)


def test_a_failing_proxy_says_so_and_closes_its_connections(sink: Sink) -> None:
    def record(_event: object) -> None:
        raise ValueError("no room")

    proxy = Proxy(sink.url, record=record)
    with connected(proxy) as through, contextlib.suppress(ConnectionError):
        assert through.recv(100) == b""
    with pytest.raises(HarnessError, match="the proxy failed: ValueError"):
        proxy.stop()


def test_a_slow_reader_slows_down_the_writer_and_the_proxy_buffers_little(sink: Sink) -> None:
    many = PING * 2_000_000
    with Proxy(sink.url) as proxy, connected(proxy) as through:
        through.settimeout(0.5)
        with pytest.raises(TimeoutError):
            through.sendall(many)  # the echo comes back, and nobody reads it


def test_a_fault_counts_commands_over_all_connections(echoing: Proxy) -> None:
    lost = echoing.inject(Lose(which=Which(kind="PING", direction="to-broker", nth=3)))
    assert [len(echoed(echoing, [PING])) for _ in range(4)] == [len(PING), len(PING), 0, len(PING)]
    assert len(lost.fired) == 1
