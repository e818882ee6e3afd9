"""Clients stay in the proxy when a broker redirects them to another one, with TLS after the proxy or without."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.client import WireClient
from conformance.clients.wire.frames import decode_frame, encode_frame
from conformance.proxy.addresses import rerouted
from conformance.proxy.event_buffer import EventBuffer
from conformance.proxy.events import ConnectionOpened
from conformance.proxy.proxy import Proxy
from tests.clients.wire.peer import Peer, peer

_Type = pb.BaseCommand
PLAIN, TLS = "pulsar://b:6650", "pulsar+ssl://b:6651"
TOPIC = "persistent://public/default/t"


@pytest.fixture
def first() -> Iterator[Peer]:
    with peer() as it:
        yield it


@pytest.fixture
def second() -> Iterator[Peer]:
    with peer() as it:
        yield it


def named(*, is_tls: bool, **fields: object) -> pb.CommandLookupTopicResponse:
    """An answer to a look-up, as the client receives it."""
    response = pb.CommandLookupTopicResponse(request_id=1, **fields)  # type: ignore[arg-type]
    frame = encode_frame(pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_response=response))
    passed = rerouted(memoryview(frame), is_tls=is_tls, route=lambda url: f"route to {url}")
    return decode_frame(bytes(passed)).command.lookup_response


def test_a_named_broker_is_reached_through_the_proxy() -> None:
    both = {"broker_service_url": PLAIN, "broker_service_url_tls": TLS}
    assert named(is_tls=False, **both).broker_service_url == f"route to {PLAIN}"
    with_tls = named(is_tls=True, **both)
    assert with_tls.broker_service_url == f"route to {TLS}"
    assert not with_tls.broker_service_url_tls, "a client would go there, past the proxy"


def test_a_client_that_is_told_to_use_the_service_url_keeps_it() -> None:
    stays = named(is_tls=False, broker_service_url=PLAIN, proxy_through_service_url=True)
    assert (stays.broker_service_url, stays.proxy_through_service_url) == (PLAIN, True)
    with_tls = named(is_tls=True, broker_service_url_tls=TLS, proxy_through_service_url=True)
    assert (with_tls.broker_service_url, with_tls.proxy_through_service_url) == ("pulsar://b:6651", True)


def test_an_answer_without_an_address_is_forwarded_unchanged() -> None:
    assert not named(is_tls=True, broker_service_url=PLAIN, error=6).broker_service_url_tls
    assert named(is_tls=False, error=6).error == 6


@pytest.mark.parametrize("closes", ["close_producer", "close_consumer"])
def test_a_client_redirected_by_a_closing_broker_stays_in_the_proxy(closes: str) -> None:
    addresses = {"assigned_broker_service_url": PLAIN, "assigned_broker_service_url_tls": TLS}
    if closes == "close_producer":
        producer = pb.CommandCloseProducer(producer_id=1, request_id=2, **addresses)
        command = pb.BaseCommand(type=_Type.CLOSE_PRODUCER, close_producer=producer)
    else:
        consumer = pb.CommandCloseConsumer(consumer_id=1, request_id=2, **addresses)
        command = pb.BaseCommand(type=_Type.CLOSE_CONSUMER, close_consumer=consumer)
    passed = rerouted(memoryview(encode_frame(command)), is_tls=True, route=lambda url: f"route to {url}")
    told = getattr(decode_frame(bytes(passed)).command, closes)
    assert told.assigned_broker_service_url == f"route to {TLS}"
    assert not told.assigned_broker_service_url_tls


@pytest.mark.parametrize("is_redirected", [False, True], ids=["sent", "redirected"])
def test_a_client_reaches_the_owner_through_the_proxy(first: Peer, second: Peer, is_redirected: bool) -> None:
    """Both connections are the proxy's: the proxy connects to the owner, the client does not."""

    def send_on() -> None:
        assert first.socket.fileno() >= 0  # waits until it is connected
        response = pb.CommandLookupTopicResponse(
            broker_service_url=second.service_url,
            response=pb.CommandLookupTopicResponse.Redirect if is_redirected else pb.CommandLookupTopicResponse.Connect,
            request_id=first.receive().command.lookup.request_id,
        )
        first.send(encode_frame(pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_response=response)))
        assert second.socket.fileno() >= 0
        if is_redirected:
            second.serve_producer()
        else:
            asked = second.receive().command.producer
            success = pb.CommandProducerSuccess(request_id=asked.request_id, producer_name="p")
            second.send(encode_frame(pb.BaseCommand(type=_Type.PRODUCER_SUCCESS, producer_success=success)))

    serving = threading.Thread(target=send_on)
    serving.start()
    buffer = EventBuffer()
    with Proxy(first.service_url, record=buffer) as proxy:
        client = WireClient.connect(proxy.url, timeout_s=5)
        producer = client.open_producer(TOPIC, name="p", timeout_s=5)
        serving.join()
        assert producer.is_open
        assert second.socket.getpeername()[1] in proxy.ports
        assert sum(isinstance(event, ConnectionOpened) for event in buffer.events()) == 2
        client.abort()


@pytest.mark.parametrize("is_tls", [False, True])
def test_an_invalid_address_is_forwarded_unchanged(is_tls: bool) -> None:
    looked_up = pb.CommandLookupTopicResponse(
        request_id=1, broker_service_url="no address", broker_service_url_tls="nor this"
    )
    closing = pb.CommandCloseProducer(
        producer_id=1,
        request_id=1,
        assigned_broker_service_url="no address",
        assigned_broker_service_url_tls="nor this",
    )
    with Proxy("pulsar://127.0.0.1:1") as proxy:
        for command in (
            pb.BaseCommand(type=_Type.LOOKUP_RESPONSE, lookup_response=looked_up),
            pb.BaseCommand(type=_Type.CLOSE_PRODUCER, close_producer=closing),
        ):
            frame = memoryview(encode_frame(command))
            kind = "LOOKUP_RESPONSE" if command.type == _Type.LOOKUP_RESPONSE else "CLOSE_PRODUCER"
            assert proxy.rerouted(kind, frame) is frame
            assert rerouted(frame, is_tls=is_tls, route=proxy._route) is frame
