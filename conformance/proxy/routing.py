"""Keeps clients in the proxy: where a broker names another broker, the client is given an address of the proxy instead.

Brokers name one another in answers to look-ups, and when they close producers and consumers of a topic that is moved. A
client that followed such an address would leave the proxy, and, where the proxy speaks TLS for it, would show its
token to a port without TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.frames import command_end, encode_frame

NAMING: Final = frozenset({"LOOKUP_RESPONSE", "CLOSE_PRODUCER", "CLOSE_CONSUMER"})
"""The commands that may name a broker."""


def rerouted(raw: memoryview, *, is_tls: bool, route: Callable[[str], str | None]) -> memoryview | bytes:
    """Give a whole frame of one of these commands with the proxy's addresses in it; the same one if it names no broker.

    ``is_tls``: whether the proxy speaks TLS to brokers, whose addresses for that then count. ``route`` gives the
    proxy's own address, without TLS, by which a broker's is reached; None for what is no address, which is passed on.
    """
    command = pb.BaseCommand.FromString(bytes(raw[8 : command_end(raw)]))
    match command.WhichOneof("body"):
        case "lookup_response":
            response = command.lookup_response
            named = response.broker_service_url_tls if is_tls else response.broker_service_url
            if not named:
                return raw
            # A client that is asked to stay where it is only says whom it wants.
            stays = response.proxy_through_service_url
            ours = named.replace("pulsar+ssl://", "pulsar://") if stays else route(named)
            if ours is None or ours == response.broker_service_url:
                return raw
            response.broker_service_url = ours
            response.ClearField("broker_service_url_tls")
        case "close_producer" | "close_consumer" as body:
            closing = command.close_producer if body == "close_producer" else command.close_consumer
            named = closing.assigned_broker_service_url_tls if is_tls else closing.assigned_broker_service_url
            ours = route(named) if named else None
            if ours is None:
                return raw
            closing.assigned_broker_service_url = ours
            closing.ClearField("assigned_broker_service_url_tls")
        case _:
            return raw
    return encode_frame(command)
