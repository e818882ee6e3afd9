"""A malformed command of a broker or a client ends at most its own connection, and the receiver says what it is."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.frames import MalformedFrame
from conformance.proxy.addresses import NAMING
from conformance.proxy.faults import Corrupt, FewerIds, LowerLimit, OtherChunkId, OtherUuid, PayloadByte, Which
from conformance.proxy.proxy import Proxy
from tests.clients.wire.frame_strategies import frame_parts
from tests.clients.wire.peer import Peer, peer
from tests.clients.wire.test_frames import PING, framed
from tests.proxy.test_arbitrary_bytes import Sink, connected, echoed, echoing, everything, sink

__all__ = ["echoing", "everything", "sink"]

_Type = pb.BaseCommand
CHANGES = (
    PayloadByte(at=0),
    OtherChunkId(chunk_id=1),
    OtherUuid(uuid="u"),
    FewerIds(count=1),
    LowerLimit(max_message_bytes=10240),
)
NOT_UTF8 = b"pulsar://\xff\xfe:6650"
ADDRESSES = (
    b"pulsar://127.0.0.1:1",
    b"pulsar://127.0.0.1:99999",
    b"pulsar://\x00:6650",
    "pulsar://é.invalid:6650".encode(),
    b"pulsar://" + b"a" * 300 + b".invalid:6650",
    NOT_UTF8,
    b"http://127.0.0.1:80",
    b"",
)


def field(number: int, value: int | bytes) -> bytes:
    """One field of a message, as protobuf writes it; it takes text that is no UTF-8."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low]) if not rest else bytes([low | 0x80]) + varint(rest)


@st.composite
def bodies(draw: st.DrawFn, message: Any) -> bytes:
    """A message of which any field may be missing, and any text is no address or no UTF-8."""
    written = b""
    for one in message.DESCRIPTOR.fields:
        if draw(st.booleans()):
            continue
        if one.type == FieldDescriptor.TYPE_STRING:
            written += field(one.number, draw(st.sampled_from(ADDRESSES) | st.binary(max_size=6)))
        elif one.message_type is None:
            written += field(one.number, draw(st.integers(0, 2**64 - 1)))
    return written


@st.composite
def naming_frames(draw: st.DrawFn) -> bytes:
    """A frame of a command that may name a broker, whole or not."""
    kind = draw(st.sampled_from(sorted(NAMING)))
    messages = {
        "LOOKUP_RESPONSE": pb.CommandLookupTopicResponse,
        "CLOSE_PRODUCER": pb.CommandCloseProducer,
        "CLOSE_CONSUMER": pb.CommandCloseConsumer,
    }
    number = pb.BaseCommand.Type.Value(kind)
    return framed(field(1, number) + field(number, draw(bodies(messages[kind]))), b"")


def without_required(message: Message, drop: st.DataObject) -> None:
    """Remove any of the fields of a message, required or not, at any depth."""
    for one, value in message.ListFields():
        if one.is_repeated:
            continue
        if drop.draw(st.integers(0, 3)) == 0 and one.name != "type":
            message.ClearField(one.name)
        elif one.message_type is not None:
            without_required(value, drop)


def is_alive(proxy: Proxy) -> bool:
    """Whether the next client is served."""
    return echoed(proxy, [PING]) == PING


@settings(max_examples=150, deadline=None)
@given(frames=st.lists(naming_frames(), min_size=1, max_size=4))
def test_a_malformed_address_leaves_the_proxy_to_other_connections(echoing: Proxy, frames: list[bytes]) -> None:
    with connected(echoing) as through:
        through.sendall(b"".join(frames) + PING)
        through.shutdown(socket.SHUT_WR)
        while through.recv(65536):
            pass
    assert is_alive(echoing)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_fault_that_changes_malformed_commands_leaves_the_proxy_to_other_connections(
    echoing: Proxy, data: st.DataObject
) -> None:
    command, metadata, payload = data.draw(frame_parts())
    without_required(command, data)
    rest = b""
    if metadata is not None:
        without_required(metadata, data)
        written = metadata.SerializePartialToString()
        rest = len(written).to_bytes(4, "big") + written + payload
    faults = [echoing.inject(Corrupt(which=Which(), change=change)) for change in CHANGES]
    with connected(echoing) as through:
        through.sendall(framed(command.SerializePartialToString(), rest))
        through.shutdown(socket.SHUT_WR)
        while through.recv(65536):
            pass
    for fault in faults:
        fault.lift()
    assert is_alive(echoing)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (field(1, b"pulsar://127.0.0.1:1") + field(3, 1), "a command lacks a required field"),
        (field(1, NOT_UTF8) + field(3, 1) + field(4, 1), "a text in a command is not UTF-8"),
    ],
)
def test_the_client_learns_what_is_wrong_with_an_answer(response: bytes, reason: str) -> None:
    def answer(broker: Peer) -> None:
        assert broker.socket.fileno() >= 0  # waits until it is connected
        broker.receive()
        broker.send(framed(field(1, _Type.LOOKUP_RESPONSE) + field(_Type.LOOKUP_RESPONSE, response), b""))

    with peer() as broker, Proxy(broker.service_url) as proxy:
        serving = threading.Thread(target=answer, args=(broker,))
        serving.start()
        client = WireClient.connect(proxy.url, timeout_s=5)
        with pytest.raises(MalformedFrame, match=reason):
            client.open_producer("persistent://public/default/t", name="p", timeout_s=5)
        serving.join()
        client.abort()


@pytest.mark.parametrize("host", ["\0", "é" * 80, "a" * 300, "a..b"])
def test_a_broker_at_an_impossible_address_is_refused_and_the_proxy_goes_on(host: str, sink: Sink) -> None:
    looked_up = pb.CommandLookupTopicResponse(request_id=1, broker_service_url=f"pulsar://{host}:6650")
    command = pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_response=looked_up)
    with Proxy(sink.url) as proxy:
        came = echoed(proxy, [framed(command.SerializeToString(), b"")])
        named = pb.BaseCommand.FromString(came[8:]).lookup_response.broker_service_url
        assert named.startswith("pulsar://127.0.0.1:"), "its client stays on the proxy"
        with socket.create_connection(("127.0.0.1", int(named.rpartition(":")[2])), timeout=5) as there:
            assert there.recv(1) == b""
        assert is_alive(proxy)
