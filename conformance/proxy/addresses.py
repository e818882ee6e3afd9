"""Keeps clients connected through the proxy: it replaces the addresses of brokers in commands by the proxy's.

Brokers name other brokers in look-up responses, and when they close producers and consumers on an unload. A client that
used such an address would bypass the proxy. If the proxy does TLS for it, it would also send its token in plaintext.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from google.protobuf.message import DecodeError

from conformance.clients import protocol_pb2 as pb
from conformance.clients.wire.frames import MalformedFrame, command_end, encode_changed

NAMING: Final = frozenset({"LOOKUP_RESPONSE", "CLOSE_PRODUCER", "CLOSE_CONSUMER"})
"""The commands that may name a broker."""


def rerouted(raw: memoryview, *, is_tls: bool, route: Callable[[str], str | None]) -> memoryview | bytes:
    """A whole frame of one of these commands with the proxy's addresses; the same one if it names no broker.

    ``is_tls``: whether the proxy uses the brokers' TLS addresses. ``route`` returns the proxy's address, without TLS,
    for a broker's; None for an invalid address, which is passed on. A malformed command stays malformed, for the client
    to refuse.
    """
    try:
        command = pb.BaseCommand.FromString(bytes(raw[8 : command_end(raw)]))
    except (DecodeError, MalformedFrame):
        return raw
    match command.WhichOneof("body"):
        case "lookup_response":
            response = command.lookup_response
            named = response.broker_service_url_tls if is_tls else response.broker_service_url
            if not named or _is_broken(named):
                return raw
            # A client that connects through a service URL only names the broker.
            stays = response.proxy_through_service_url
            ours = named.replace("pulsar+ssl://", "pulsar://") if stays else route(named)
            if ours is None or ours == response.broker_service_url:
                return raw
            response.broker_service_url = ours
            response.ClearField("broker_service_url_tls")
        case "close_producer" | "close_consumer" as body:
            closing = command.close_producer if body == "close_producer" else command.close_consumer
            named = closing.assigned_broker_service_url_tls if is_tls else closing.assigned_broker_service_url
            ours = None if not named or _is_broken(named) else route(named)
            if ours is None:
                return raw
            closing.assigned_broker_service_url = ours
            closing.ClearField("assigned_broker_service_url_tls")
        case _:
            return raw
    return encode_changed(command)


def _is_broken(text: str | bytes) -> bool:
    """Whether it is not UTF-8: the protobuf runtime returns such text as bytes."""
    return isinstance(text, bytes)
