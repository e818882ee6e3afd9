"""The machines of document 004, as tests: each runs for its share of the budget on the session's broker."""

from __future__ import annotations

from conformance.engine.machines import machines
from stateful.cursors.chunks import KeysChunksMachine
from stateful.cursors.network import KeysNetworkMachine
from stateful.key_shared.machines import KeysAgainMachine, KeysMachine
from stateful.key_shared.variations import (
    KeysClaimedMachine,
    KeysClientsMachine,
    KeysKillsMachine,
    KeysRacesMachine,
    KeysSwitchedMachine,
)
from stateful.machine_tests import exploring

MACHINES = machines(
    {
        "keys": KeysMachine,
        "keys-again": KeysAgainMachine,
        "keys-chunks": KeysChunksMachine,
        "keys-claimed": KeysClaimedMachine,
        "keys-races": KeysRacesMachine,
        "keys-switched": KeysSwitchedMachine,
        "keys-kills": KeysKillsMachine,
        "keys-network": KeysNetworkMachine,
        "keys-clients": KeysClientsMachine,
    }
)


test_no_rule_is_broken_by = exploring(MACHINES)
