"""Operations on the network in words."""

from __future__ import annotations

from typing import assert_never

from conformance.report.sentences.lists import count
from model.operations import ClearNetworkFaults, InjectNetworkFault, UseProxy
from model.vocabulary import CutAfter, CutAt, Delay, Hold, LoseThenCut, NetworkFault, RefuseConnections

NETWORK = "network"
"""The actor of faults between clients and the broker."""


def action(operation: UseProxy | InjectNetworkFault | ClearNetworkFaults) -> tuple[str, str, str]:
    """The actor's short name, the actor as the subject of a sentence, and the rest of that sentence."""
    match operation:
        case UseProxy():
            did = "has a proxy from now on"
        case InjectNetworkFault(topic, fault):
            did = f"will {in_words(fault)}, for producers of topic {topic}"
        case ClearNetworkFaults():
            did = "has no more faults"
        case _:
            assert_never(operation)
    return NETWORK, "the network", did


def in_words(fault: NetworkFault) -> str:
    """A fault as a verb with its object."""
    match fault:
        case CutAt(kind, nth, where):
            return f"cut the connection {where} {kind} number {nth}"
        case CutAfter(size_bytes, to_broker):
            side = "broker" if to_broker else "client"
            return f"cut the first connection that has carried {count(size_bytes, 'byte', 'bytes')} more to the {side}"
        case LoseThenCut(kind, nth, number):
            return f"lose {count(number, kind, kind)} from number {nth} on, and then cut the connection"
        case Delay(kind, nth, delay_ms):
            return f"delay {kind} number {nth} and all after it by {delay_ms} ms"
        case Hold(kind, nth):
            return f"hold {kind} number {nth} and all after it until the suite waits for an answer"
        case RefuseConnections(for_ms):
            return f"refuse connections for {for_ms} ms"
        case _:
            assert_never(fault)
