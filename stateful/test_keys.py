"""The machines of document 004, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.brokers.interface import Capability
from conformance.engine.machines import Machine
from stateful.consumers_network import KeysNetworkMachine
from stateful.exploring import exploring
from stateful.keys import KeysAgainMachine, KeysMachine
from stateful.more_keys import (
    KeysClaimedMachine,
    KeysClientsMachine,
    KeysKillsMachine,
    KeysRacesMachine,
    KeysSwitchedMachine,
)

MACHINES = (
    Machine(
        name="keys",
        factory=KeysMachine,
        decides=(
            "KEY-01",
            "KEY-02",
            "KEY-03",
            "KEY-04",
            "KEY-05",
            "KEY-06",
            "KEY-07",
            "KEY-09",
            "KEY-11",
            "KEY-12",
            "KEY-13",
            "KEY-14",
        ),
        share=4.0,
    ),
    Machine(
        name="keys-again",
        factory=KeysAgainMachine,
        decides=("KEY-01", "KEY-02", "KEY-05", "KEY-06", "KEY-08", "KEY-09", "KEY-11", "KEY-14"),
        share=4.0,
    ),
    Machine(
        name="keys-claimed",
        factory=KeysClaimedMachine,
        decides=("KEY-01", "KEY-02", "KEY-06", "KEY-08", "KEY-09"),
        share=2.0,
    ),
    Machine(
        name="keys-races",
        factory=KeysRacesMachine,
        decides=("KEY-01", "KEY-10"),
        needs=frozenset({Capability.DEFECTS}),
        share=3.0,
        steps=10,
    ),
    Machine(
        name="keys-switched",
        factory=KeysSwitchedMachine,
        decides=("KEY-01", "KEY-02", "KEY-14"),
        share=2.0,
        steps=8,
        examples=5,
    ),
    Machine(
        name="keys-kills",
        factory=KeysKillsMachine,
        decides=("KEY-01", "KEY-02"),
        needs=frozenset({Capability.KILL, Capability.RESTART}),
        share=1.0,
        steps=2,
        examples=2,
    ),
    Machine(
        name="keys-network",
        factory=KeysNetworkMachine,
        decides=("KEY-01", "KEY-02", "KEY-05", "KEY-06", "KEY-09"),
        share=1.0,
    ),
    Machine(
        name="keys-clients",
        factory=KeysClientsMachine,
        decides=("KEY-01", "KEY-02"),
        share=1.0,
        steps=10,
        examples=5,
    ),
)


test_no_rule_is_broken_by = exploring(MACHINES)
