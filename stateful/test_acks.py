"""The machines of document 003, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from stateful.acks import AcknowledgmentClientsMachine, AcknowledgmentKillsMachine, AcknowledgmentMachine
from stateful.consumers_network import AcknowledgmentClientsNetworkMachine, AcknowledgmentNetworkMachine
from stateful.exploring import exploring

MACHINES = (
    Machine(
        name="acknowledgment",
        factory=AcknowledgmentMachine,
        decides=(
            "ACK-01",
            "ACK-02",
            "ACK-03",
            "ACK-04",
            "ACK-05",
            "ACK-06",
            "ACK-07",
            "ACK-08",
            "ACK-10",
            "ACK-12",
            "ACK-13",
            "ACK-14",
        ),
        share=4.0,
    ),
    Machine(
        name="acknowledgment-network",
        factory=AcknowledgmentNetworkMachine,
        decides=("ACK-02", "ACK-03", "ACK-04", "ACK-06", "ACK-11", "ACK-12"),
        share=2.0,
    ),
    Machine(
        name="acknowledgment-clients",
        factory=AcknowledgmentClientsMachine,
        decides=("ACK-05", "ACK-11", "ACK-13"),
        share=2.0,
        steps=10,
        examples=5,
    ),
    Machine(
        name="acknowledgment-clients-network",
        factory=AcknowledgmentClientsNetworkMachine,
        decides=("ACK-05", "ACK-11", "ACK-13"),
        share=1.0,
        steps=10,
        examples=5,
    ),
    Machine(
        name="acknowledgment-kills",
        factory=AcknowledgmentKillsMachine,
        decides=("ACK-08", "ACK-09", "ACK-10"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=4.0,
        steps=2,
        examples=2,
    ),
)


test_no_rule_is_broken_by = exploring(MACHINES)
